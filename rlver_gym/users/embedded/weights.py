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
MASSES = ("alien", "told", "last", "untold", "alien_share", "told_share", "own")
"""What `belonging.masses` yields, in its order."""
DESCRIBED_CLUES = (
    "near:last",
    "near:last_share",
    "near:new",
    "near:told",
    "near:told_density",
    "near:untold",
    "names:strange",
    "names:told",
    "prior:elsewhere",
    "prior:strangers",
)
"""Features of a description that tell whether a reply belongs."""
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
FACTOR_SCALE = 4096
"""Of the whole numbers in `Factors.weights`."""
Row = Annotated[
    tuple[Annotated[int, Field(ge=-(2**24), le=2**24)], ...], Field(min_length=6, max_length=6)
]


class Belonging(Frozen):
    """What tells a reply to this person from one to somebody else: a logit of what
    `belonging.clues` counts, and two values of it.

    At `low` and below nothing that the reply does is done to this person; from `high` on all of it
    is.
    """

    situations: Annotated[int, Field(ge=2, le=10_000)]
    """How many situations the rated replies are about."""
    spread: dict[Name, Annotated[int, Field(ge=1, le=10_000)]] = Field(max_length=100_000)
    """Words as tokens: in how many of the situations supporters use each."""
    intercept: Number
    weights: dict[Name, Number]
    low: Number
    high: Number

    @model_validator(mode="after")
    def _is_computable(self) -> Self:
        if set(self.weights) != {*DESCRIBED_CLUES, *MASSES}:
            raise ValueError(f"weights must be those of {', '.join((*DESCRIBED_CLUES, *MASSES))}")
        if max(self.spread.values(), default=1) > self.situations:
            raise ValueError("spread must not count more situations than there are")
        if not self.low < self.high:
            raise ValueError("low must lie below high")
        return self


class Factors(Frozen):
    """How readers would rate a reply by each factor, by a linear model of its features and words,
    and what each factor is worth.

    The prediction of a factor is `typical` plus the sum of feature value times weight /
    FACTOR_SCALE. Weights are whole numbers, so that sums are the same on every machine.
    """

    typical: dict[Factor, Number]
    """What is predicted of an utterance without features."""
    neutral: dict[Factor, Number]
    """The level at which readers say that nothing changes."""
    worth: dict[Factor, Number]
    """Points of emotion per unit above `neutral`."""
    low: dict[Factor, Number]
    """The prediction up to which it may be said that the factor is low: four of five such replies
    were rated so. Factors of which that is never so are left out.
    """
    high: dict[Factor, Number]
    """The same for high."""
    belonging: Belonging
    """What is multiplied with every feature."""
    weights: dict[Name, Row] = Field(max_length=50_000)
    """By feature, "=" and a word or a pair of words, or a feature, "@" and a hidden need: one
    number a factor, in the order of FACTORS.
    """

    @model_validator(mode="after")
    def _require_every_factor(self) -> Self:
        for field in (self.typical, self.neutral, self.worth):
            if set(field) != set(FACTORS):
                raise ValueError(
                    "typical, neutral and worth must hold a number for each of"
                    f" {', '.join(FACTORS)}"
                )
        return self


class Weights(HashedCard):
    """Everything that calibration found: either `features` with points, from recorded changes
    alone, or `factors`, from rated replies.
    """

    language: Literal["en", "zh"]
    origin: Literal["measured"] = "measured"
    provenance: dict[str, Any]
    default: Name
    presets: dict[Name, Preset] = Field(min_length=1, max_length=MAX_PRESETS)
    relevance: Relevance | None = None
    """None where factors were measured: they know whether a reply is about the person."""
    features: dict[Name, FeatureWeight] = Field(default_factory=dict, max_length=1000)
    factors: Factors | None = None

    @model_validator(mode="after")
    def _default_is_a_preset(self) -> Self:
        if self.default not in self.presets:
            raise ValueError(f"default '{self.default}' is none of the presets")
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
        features, factors = plain.pop("features"), plain.pop("factors")
        parts = [json.dumps(plain, ensure_ascii=False, indent=2)[2:-2]]
        if factors:
            rows = factors.pop("weights")
            inner = json.dumps(factors, indent=2)[2:-2].replace("\n", "\n  ")
            parts.append(
                f'  "factors": {{\n  {inner},\n    "weights": {_rows(rows, "      ")}\n  }}'
            )
        if features or not factors:
            parts.append(f'  "features": {_rows(features, "    ")}')
        return "{\n" + ",\n".join(parts) + "\n}\n"


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
