"""Measured weights: what calibration found, as a card that says where it comes from.

One small JSON file.
"""

import json
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from rlver_gym.core.library import parse_card
from rlver_gym.core.persona import Disposition, HiddenNeed
from rlver_gym.io.errors import CardError, UnknownName
from rlver_gym.io.files import load_json, read_text
from rlver_gym.io.frozen import Frozen, HashedCard
from rlver_gym.io.json_text import parse_json
from rlver_gym.io.terminal import one_line

MAX_BYTES = 4 << 20
"""Of a file: hundreds of times the shipped ones."""
NEARNESS = (
    "last_share",
    "last_count",
    "home_share",
    "size",
    "said_count",
    "said_share",
    "last_size",
    "last_density",
)
"""What `features.nearness` counts, in its order."""
MAX_PRESETS = 1000
Number = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False, strict=True)]
"""So small that sums and products of a few of them are numbers too."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(one_line)]


class FeatureWeight(Frozen):
    """What one feature is worth per unit, in points of emotion: to anyone, and more or less by
    hidden need.
    """

    anyone: Number
    error: Number
    """Standard error of `anyone`, clustered by persona."""
    by_need: dict[HiddenNeed, Number] = Field(default_factory=dict)

    def of(self, need: HiddenNeed) -> float:
        """The worth to a person with that need."""
        return self.anyone + self.by_need.get(need, 0.0)


class Relevance(Frozen):
    """What tells a reply to this person from one to somebody else: a logit of `NEARNESS`, and three
    values of it.

    At `low` an utterance is not relevant at all; midway from `high` to `home` the relevance gate is
    fully open; at `home` nothing is felt to be missing.
    """

    intercept: Number
    weights: dict[Name, Number]
    low: Number
    high: Number
    home: Number

    @model_validator(mode="after")
    def _is_computable(self) -> Self:
        if set(self.weights) != set(NEARNESS):
            raise ValueError(f"weights must be those of {', '.join(NEARNESS)}")
        if not self.low < min((self.high + self.home) / 2, self.home):
            raise ValueError("low must lie below high and home")
        return self


class Preset(Frozen):
    """How one kind of user turns what it hears into a change: level, spread and dynamics."""

    about: Annotated[str, StringConstraints(max_length=1000)]
    base: Number
    """Points of a turn before anything is weighed."""
    gain: Number
    """What the reply's worth is multiplied by, so that changes spread as widely as recorded ones.
    """
    temper: dict[Disposition, Number]
    momentum: Number
    """Share of the last change that lasts on."""
    pull: Number
    """Points per 20 points of emotion above 40."""
    residual_sd: Number
    """Spread of recorded changes that the appraisal does not explain, in points."""
    mean: Number
    """Mean recorded change, in points."""
    values: Annotated[tuple[Annotated[int, Field(ge=-100, le=100)], ...], Field(max_length=201)]
    """The changes that make up nine tenths of the recorded ones."""

    @model_validator(mode="after")
    def _knows_everybody(self) -> Self:
        if set(self.temper) != set(Disposition):
            raise ValueError(f"temper must hold a number for each of {', '.join(Disposition)}")
        return self


class Factor(StrEnum):
    """What readers of rated replies say of a reply, in the rubric's words: 0 to 4 each, `false` 0
    or 1.
    """

    UNDERSTOOD = "understood"
    ABOUT = "about"
    GIVES = "gives"
    HUMAN = "human"
    PRESSURE = "pressure"
    FALSE = "false"


FACTORS = tuple(Factor)


class Weights(HashedCard):
    """Everything that calibration found: features with points, and the level and dynamics of each
    simulator. Without features the language's own network weighs a reply (`english.py`).
    """

    language: Literal["en", "zh"]
    origin: Literal["measured"] = "measured"
    provenance: dict[str, Any]
    default: Name
    presets: dict[Name, Preset] = Field(min_length=1, max_length=MAX_PRESETS)
    relevance: Relevance | None = None
    features: dict[Name, FeatureWeight] = Field(default_factory=dict, max_length=1000)

    @model_validator(mode="after")
    def _default_is_a_preset(self) -> Self:
        if self.default not in self.presets:
            raise ValueError(f"default '{self.default}' is none of the presets")
        return self

    @model_validator(mode="after")
    def _weighs_by_features_or_a_network(self) -> Self:
        if not self.features and self.language != "en":
            raise ValueError(
                f"language '{self.language}' has no network: features must not be empty"
            )
        return self

    def preset(self, name: str | None) -> tuple[str, Preset]:
        """The preset of that name or beginning (None: the default) with its whole name; UnknownName
        lists them.
        """
        name = name or self.default
        found = [known for known in self.presets if known.startswith(name)]
        if name in self.presets or len(found) != 1:
            found = [name]
        if found[0] not in self.presets:
            raise UnknownName.of(
                "preset", name, self.presets, one_line(", ".join(self.presets), max_chars=1000)
            )
        return found[0], self.presets[found[0]]

    def to_json(self) -> str:
        """The file's text: sorted, a feature a line."""
        plain = self.model_dump(mode="json")
        features = plain.pop("features")
        head = json.dumps(plain, ensure_ascii=False, indent=2)[2:-2]
        return f'{{\n{head},\n  "features": {_rows(features, "    ")}\n}}\n'


def _rows(rows: dict[str, Any], indent: str) -> str:
    lines = [
        f"{indent}{json.dumps(name)}:"
        f" {json.dumps(one, separators=(',', ':') if isinstance(one, list) else None)}"
        for name, one in sorted(rows.items())
    ]
    return "{\n" + ",\n".join(lines) + f"\n{indent[2:]}}}"


def read_weights(path: Path) -> Weights:
    """A weights file; CardError says what is wrong with it."""
    text = read_text(
        path, max_bytes=MAX_BYTES, error=CardError, hint="Make one with `rlver-gym calibrate`."
    )
    try:
        value = parse_json(text)
        if not isinstance(value, dict):
            raise ValueError(f"it holds {type(value).__name__}, no fields")
    except ValueError as error:
        raise CardError(f"{path}: is no weights file of `rlver-gym calibrate` ({error}).") from None
    return parse_card(Weights, value, f"{path}: is no weights file of `rlver-gym calibrate`")


@lru_cache(maxsize=2)
def shipped_weights(language: Literal["en", "zh"]) -> Weights:
    """The shipped weights of a language; CardError names what is wrong with a damaged file."""
    name = f"weights_{language}.json"
    return parse_card(Weights, load_json("rlver_gym.users.embedded", name), f"the shipped {name}")
