"""The shipped priors and weights as cards: what is wrong with a damaged file is said in words."""

import json
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest
from pydantic import ValidationError

from rlver_gym.io.errors import CardError
from rlver_gym.users.embedded import priors, weights

FILES: dict[str, Callable[[], Any]] = {
    "priors.json": lambda: priors.load_priors.__wrapped__(),
    "priors_en.json": lambda: priors.load_expert_points.__wrapped__("en"),
    "weights_zh.json": lambda: weights.shipped_weights.__wrapped__("zh"),
}
"""Each shipped file with its loader, uncached."""


def read_json(name: str) -> dict[str, Any]:
    return json.loads((files("rlver_gym.users.embedded") / name).read_text(encoding="utf-8"))


def find_error(monkeypatch: pytest.MonkeyPatch, name: str, value: dict[str, Any]) -> str:
    """What is said of a shipped file that holds this instead."""
    for module in (priors, weights):
        monkeypatch.setattr(module, "load_json", lambda package, name: value)
    with pytest.raises(CardError) as caught:
        FILES[name]()
    return str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("acts.praise.praise", "9.0", "acts.praise.praise: .*a number .found '9.0'"),
        ("told_back.praise", float("nan"), "told_back.praise: .*a number"),
        ("bad_acts.insults", -9.0, "bad_acts.insults.*no act of that name, but reflect_feeling,"),
        ("acts.comfort", {}, "acts.comfort.*'not_at_fault', 'reflection'"),
        ("anchors.praise", {"deeds": 8.0}, "anchors.praise: .*lacks wrongs, motives, options,"),
        ("told_back", {"praise": 0.5}, "told_back: .*lacks not_at_fault, reflection,"),
        ("relief.praise", {"command": 1.5}, "relief.praise.command: .*at most 1"),
    ],
)
def test_a_damaged_file_of_expert_points_is_named_with_the_field(
    monkeypatch: pytest.MonkeyPatch, path: str, value: Any, says: str
) -> None:
    data = read_json("priors_en.json")
    *parents, last = path.split(".")
    place = data
    for part in parents:
        place = place[part]
    place[last] = value
    error = find_error(monkeypatch, "priors_en.json", data)
    assert re.fullmatch(rf"the shipped priors_en\.json: {says}.*", error)


@pytest.mark.parametrize("name", FILES)
def test_a_field_of_a_shipped_file_that_is_missing_or_unknown_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    data = read_json(name)
    optional = {"origin", "relevance", "features"} if name.startswith("weights") else set()
    for field in data.keys() - optional - {"factors"}:
        left = {key: value for key, value in data.items() if key != field}
        says = find_error(monkeypatch, name, left)
        assert says == f"the shipped {name}: {field}: add this field"
    says = find_error(monkeypatch, name, {**data, "comfort": 1.0})
    assert says == f"the shipped {name}: comfort: remove this field, or correct its name"


def test_weights_of_a_language_without_a_network_need_features(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = read_json("weights_zh.json") | {"features": {}}
    says = find_error(monkeypatch, "weights_zh.json", data)
    assert "language 'zh' has no network: features must not be empty" in says


def test_priors_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        priors.load_expert_points("en").provenance = "none"  # pyright: ignore[reportAttributeAccessIssue]
