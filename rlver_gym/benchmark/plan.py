"""What a benchmark is to do: which agents talk to which personas, how often. And the manifest that pins it down."""

import hashlib
import json
import platform
import sys
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, NamedTuple

from pydantic import Field

from rlver_gym._version import __version__
from rlver_gym.agents import SHIPPED_AGENTS, agent_pin
from rlver_gym.cards import EnvCard, env_card
from rlver_gym.errors import RunError
from rlver_gym.hashed import Frozen
from rlver_gym.library import PersonaLibrary, library
from rlver_gym.users import make_user

PlanSplit = Literal["train", "test", "demo", "all"]
MAX_SEEDS = 10_000


class Case(NamedTuple):
    """One dialogue to hold."""

    agent: str
    persona: str
    seed: int


class BenchPlan(Frozen):
    """A benchmark, completely described: the same plan gives the same episodes."""

    env: str = "SAGE-Sentient-v0"
    """An environment id, or the path of an env card."""
    agents: tuple[str, ...] = Field(default=SHIPPED_AGENTS, min_length=1)
    seeds: int = Field(default=3, ge=1, le=MAX_SEEDS)
    """Dialogues of each agent with each persona; seed 0, 1, … of the user and the agent."""
    user: str = "embedded"
    split: PlanSplit | None = None
    """Which personas; None takes the card's split."""
    persona_ids: tuple[str, ...] = ()
    """Only these personas, whatever their split."""
    personas: str | None = None
    """A folder of persona cards; None takes the shipped ones."""

    @cached_property
    def card(self) -> EnvCard:
        """The environment's card."""
        return env_card(self.env)

    @cached_property
    def library(self) -> PersonaLibrary:
        """Where the personas come from."""
        return library(self.personas)

    def chosen_personas(self) -> tuple[str, ...]:
        """The ids of the personas, in the order of the index."""
        if self.persona_ids:
            return tuple(self.library.get(persona_id).id for persona_id in dict.fromkeys(self.persona_ids))
        ids = self.library.ids(self.split or self.card.split)
        if not ids:
            raise RunError(
                f"there are no personas in split {self.split or self.card.split!r}. See: rlver-gym personas list"
            )
        return ids

    def cases(self) -> list[Case]:
        """Every dialogue to hold, in order."""
        personas = self.chosen_personas()
        return [
            Case(agent, persona, seed)
            for agent in dict.fromkeys(self.agents)
            for seed in range(self.seeds)
            for persona in personas
        ]

    @cached_property
    def judged(self) -> dict[str, Any]:
        """Everything that decides how given utterances are felt and answered: plan, card, personas and user, by content."""
        user = make_user(self.user)
        return {
            "plan": self.model_dump(mode="json", exclude={"personas"}),
            "env_hash": self.card.hash,
            "personas": {persona_id: self.library.get(persona_id).hash for persona_id in self.chosen_personas()},
            "user": {"kind": user.kind, "version": user.version},
        }

    @cached_property
    def pinned(self) -> dict[str, Any]:
        """Everything that decides the episodes: what is judged, and who speaks."""
        return {**self.judged, "package": __version__, "agents": {name: agent_pin(name) for name in self.agents}}

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of all that is pinned."""
        return fingerprint(self.pinned)

    @property
    def folder_name(self) -> str:
        """Where the run lies unless told otherwise: equal plans share it, so that the same command goes on where it stopped."""
        return f"{self.card.id}-{self.fingerprint}"

    def manifest(self) -> dict[str, Any]:
        """What is written beside the episodes."""
        return {
            "format": 2,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": ["rlver-gym", *sys.argv[1:]],
            "fingerprint": self.fingerprint,
            **self.pinned,
            "persona_folder": self.personas,
            "env_card": self.card.model_dump(mode="json"),
            "python": platform.python_version(),
            "packages": {name: _version(name) for name in ("rlver-gym", "gymnasium", "numpy", "pydantic", "openai")},
        }


def fingerprint(pinned: dict[str, Any]) -> str:
    """8 hex digits of SHA-256 over the values."""
    return hashlib.sha256(json.dumps(pinned, sort_keys=True).encode()).hexdigest()[:8]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
