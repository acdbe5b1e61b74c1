"""The shipped priors as a card: what is wrong with a damaged file is said in words."""

import json
import re
from importlib.resources import files
from typing import Any

import pytest
from pydantic import ValidationError

from rlver_gym.io.errors import CardError
from rlver_gym.users.embedded import priors

FILE = "priors_en.json"


def read_json() -> dict[str, Any]:
    return json.loads((files("rlver_gym.users.embedded") / FILE).read_text(encoding="utf-8"))


def find_error(monkeypatch: pytest.MonkeyPatch, value: dict[str, Any]) -> str:
    """What is said of the shipped file when it holds this instead."""
    monkeypatch.setattr(priors, "load_json", lambda package, name: value)
    with pytest.raises(CardError) as caught:
        priors.load_expert_points.__wrapped__()
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
    data = read_json()
    *parents, last = path.split(".")
    place = data
    for part in parents:
        place = place[part]
    place[last] = value
    error = find_error(monkeypatch, data)
    assert re.fullmatch(rf"the shipped priors_en\.json: {says}.*", error)


def test_a_field_of_the_shipped_file_that_is_missing_or_unknown_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = read_json()
    for field in data:
        left = {key: value for key, value in data.items() if key != field}
        says = find_error(monkeypatch, left)
        assert says == f"the shipped {FILE}: {field}: add this field"
    says = find_error(monkeypatch, {**data, "comfort": 1.0})
    assert says == f"the shipped {FILE}: comfort: remove this field, or correct its name"


def test_priors_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        priors.load_expert_points().provenance = "none"  # pyright: ignore[reportAttributeAccessIssue]
