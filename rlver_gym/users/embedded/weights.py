"""Measured weights: what calibration found, as a card that says where it comes from. One small JSON file."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from rlver_gym.errors import CardError, UnknownName
from rlver_gym.hashed import Frozen, HashedCard
from rlver_gym.persona import Disposition, HiddenNeed
from rlver_gym.users.embedded.lexicon import load_data


class FeatureWeight(Frozen):
    """What one feature is worth per unit, in points of emotion: to anyone, and more or less by hidden need."""

    anyone: float
    error: float
    """Standard error of `anyone`, clustered by persona."""
    by_need: dict[HiddenNeed, float] = Field(default_factory=dict)

    def of(self, need: HiddenNeed) -> float:
        """The worth to a person with that need."""
        return self.anyone + self.by_need.get(need, 0.0)


class Relevance(Frozen):
    """What tells a reply to this person from one to somebody else: a logit of `features.NEARNESS`, and three values of it.

    At `low` an utterance is not relevant at all; midway from `high` to `home` the relevance gate is fully open; at `home` nothing is felt to be missing.
    """

    intercept: float
    weights: dict[str, float]
    low: float
    high: float
    home: float


class Preset(Frozen):
    """How one kind of user turns what it hears into a change: level, spread and dynamics."""

    about: str
    base: float
    """Points of a turn before anything is weighed."""
    gain: float
    """What the reply's worth is multiplied by, so that changes spread as widely as recorded ones."""
    temper: dict[Disposition, float]
    momentum: float
    """Share of the last change that lasts on."""
    pull: float
    """Points per 20 points of emotion above 40."""
    residual_sd: float
    """Spread of recorded changes that the appraisal does not explain, in points."""
    mean: float
    """Mean recorded change, in points."""
    values: tuple[int, ...]
    """The changes that make up nine tenths of the recorded ones."""


class Weights(HashedCard):
    """Everything that calibration found."""

    language: Literal["en", "zh"]
    origin: Literal["measured"] = "measured"
    provenance: dict[str, Any]
    default: str
    presets: dict[str, Preset]
    relevance: Relevance
    features: dict[str, FeatureWeight]

    def preset(self, name: str | None) -> tuple[str, Preset]:
        """The preset of that name or beginning (None: the default) with its whole name; UnknownName lists them."""
        name = name or self.default
        found = [known for known in self.presets if known.startswith(name)]
        if name in self.presets or len(found) != 1:
            found = [name]
        if found[0] not in self.presets:
            raise UnknownName.of("preset", name, self.presets, ", ".join(self.presets))
        return found[0], self.presets[found[0]]

    def to_json(self) -> str:
        """The file's text: sorted, a feature a line."""
        plain = self.model_dump(mode="json")
        features = ",\n".join(
            f"    {json.dumps(name)}: {json.dumps(one)}" for name, one in sorted(plain.pop("features").items())
        )
        head = json.dumps(plain, ensure_ascii=False, indent=2)
        return f'{head[:-2]},\n  "features": {{\n{features}\n  }}\n}}\n'


def read_weights(path: Path) -> Weights:
    """A weights file; CardError says what is wrong with it."""
    try:
        return Weights.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise CardError(f"{path}: there is no such file. Make one with `rlver-gym calibrate`.") from None
    except (ValidationError, ValueError) as error:
        raise CardError(
            f"{path}: is no weights file of `rlver-gym calibrate` ({str(error).splitlines()[0]})."
        ) from None


@lru_cache(maxsize=1)
def shipped_weights() -> Weights:
    """The shipped Chinese weights."""
    return Weights.model_validate(load_data("weights_zh.json"))


@lru_cache(maxsize=1)
def priors() -> dict[str, Any]:
    """What recordings cannot teach."""
    return load_data("priors.json")
