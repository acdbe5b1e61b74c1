"""The manifest of a folder as a value: nothing in it is imported, opened or asked."""

import json
from pathlib import Path
from typing import Annotated, Self

from pydantic import ConfigDict, Field, ValidationError, field_validator

from rlver_gym.agents import is_shipped_agent, uses_server
from rlver_gym.bench.folder import MANIFEST, read_manifest
from rlver_gym.bench.plan import (
    MAX_AGENTS,
    MAX_PERSONAS,
    PINNED,
    Name,
    Plan,
    Planned,
    Word,
    compute_manifest_checksum,
    fingerprint,
)
from rlver_gym.core.cards import EnvCard
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.util.errors import RunError
from rlver_gym.util.frozen import Frozen, explain_problem

_MAX_PROBLEMS = 3


class RecordedUser(Frozen):
    """What kind of user felt the run."""

    kind: Word
    version: Word


class Manifest(Frozen):
    """A manifest that has the form of one. Fields that explain more are left out."""

    model_config = ConfigDict(extra="ignore")

    fingerprint: Word
    plan: Plan
    """Names in it are text."""
    env_hash: Word
    personas: Annotated[dict[Name, Word], Field(max_length=MAX_PERSONAS)]
    """Content hashes by id."""
    user: RecordedUser
    package: Word
    agents: Annotated[dict[Name, dict[Word, Name | None]], Field(max_length=MAX_AGENTS)]
    """What tells each agent from another of its name."""
    server: Name | None = None
    omit: Word | None = None
    """Fields that the user's server was not sent."""
    persona_folder: Name | None
    """Where the persona cards were, on the machine of whoever made the run; None for the shipped
    ones.
    """
    response_cache: Name | None = None
    """Where the response cache was, if not in the folder; likewise."""
    env_card: EnvCard
    created: Word
    command: Annotated[tuple[str, ...], Field(max_length=10_000)]
    python: Word
    packages: Annotated[dict[Word, Word | None], Field(max_length=100)]
    check: Word = ""
    pinned: Word
    """The fingerprint of what it pins: computed when it is read."""
    is_as_written: bool
    """Whether its checksum fits: likewise."""

    @field_validator("plan")
    @classmethod
    def _reach_nothing(cls, plan: Plan) -> Plan:
        if known := sorted(set(plan.user_options) & set(ChatSettings.model_fields)):
            raise ValueError(f"no run records how its server is reached ({', '.join(known)})")
        return plan

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The manifest of a run folder. RunError names what in it is not as it was written."""
        plain = read_manifest(folder)
        try:
            computed = {
                "pinned": fingerprint({name: plain[name] for name in PINNED if name in plain}),
                "is_as_written": plain.get("check") == compute_manifest_checksum(plain),
            }
            return cls.model_validate_json(json.dumps(plain | computed), strict=True)
        except ValidationError as error:
            wrong = [
                f"{'.'.join(map(str, one['loc']))[:80]}: {explain_problem(one)}"
                for one in error.errors()[:_MAX_PROBLEMS]
            ]
            raise RunError(
                f"{folder / MANIFEST}: not the manifest of a run ({'; '.join(wrong)}). Was it"
                " edited, or made by another version?"
            ) from error

    @property
    def planned(self) -> Planned:
        return self.plan.expand(self.personas)

    @property
    def edit(self) -> str:
        """What in it no run of its plan would have written; empty when nothing is."""
        plan = self.plan
        shipped = [name for name in self.agents if is_shipped_agent(name)]
        if self.pinned != self.fingerprint:
            return f"its fingerprint is {self.fingerprint}, but what it pins gives {self.pinned}"
        if self.env_card.hash != self.env_hash:
            return f"its env_hash is {self.env_hash}, that of its env card is {self.env_card.hash}"
        if self.agents.keys() != set(plan.agents) or any(self.agents[name] for name in shipped):
            return "the agents that it pins are not those of its plan"
        if (self.server is not None) != uses_server(plan.user):
            return f"its server does not belong to the user {plan.user}"
        if not self.check:
            return "it has no checksum: somebody took it out, or an earlier version wrote it"
        return "" if self.is_as_written else "it was changed after it was written"
