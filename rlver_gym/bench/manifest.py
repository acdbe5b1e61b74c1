"""The manifest of a folder as a value: nothing in it is imported, opened or asked."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from rlver_gym.agents import check_agent_name, is_shipped_agent
from rlver_gym.bench.folder import MANIFEST, read_manifest
from rlver_gym.bench.plan import MAX_AGENTS, MAX_PERSONAS, Name, Plan, Planned, Word, fingerprint
from rlver_gym.core.cards import EnvCard
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.users import check_user_name
from rlver_gym.util.errors import RunError, UnknownName
from rlver_gym.util.frozen import Frozen, explain_problems
from rlver_gym.util.model_names import uses_server

_MAX_PROBLEMS = 3


class _RecordedUser(Frozen):
    """What kind of user felt the run."""

    kind: Word
    version: Word


class Manifest(Frozen):
    """A manifest that has the form of one. Fields that explain more are left out."""

    model_config = ConfigDict(extra="ignore")

    fingerprint: Word
    """Of what it pins: computed when it is read."""
    plan: Plan
    """Names in it are text."""
    env_hash: Word
    personas: Annotated[dict[Name, Word], Field(max_length=MAX_PERSONAS)]
    """Content hashes by id."""
    user: _RecordedUser
    package: Word
    agents: Annotated[dict[Name, dict[Word, Name | None]], Field(max_length=MAX_AGENTS)]
    """What tells each agent from another of its name."""
    server: Name | None = None
    omit: Word | None = None
    """Fields that the user's server was not sent."""
    persona_folder: Name | None
    """Where the persona cards were when the run was made; None for the shipped ones."""
    response_cache: Name | None = None
    """Where the response cache was, if not in the folder; likewise."""
    env_card: EnvCard
    created: Word
    command: Annotated[tuple[str, ...], Field(max_length=10_000)]
    python: Word
    packages: Annotated[dict[Word, Word | None], Field(max_length=100)]

    @field_validator("plan")
    @classmethod
    def _reach_nothing(cls, plan: Plan) -> Plan:
        if known := sorted(set(plan.user_options) & set(ChatSettings.model_fields)):
            raise ValueError(f"no run records how its server is reached ({', '.join(known)})")
        return plan

    @model_validator(mode="after")
    def _contradict_nothing(self) -> Self:
        try:
            for name in self.plan.agents:
                check_agent_name(name)
            check_user_name(self.plan.user)
        except UnknownName as error:
            raise ValueError(str(error)) from None
        if self.env_card.hash != self.env_hash:
            raise ValueError(f"env_hash is not that of its env card, {self.env_card.hash}")
        shipped = filter(is_shipped_agent, self.agents)
        if self.agents.keys() != set(self.plan.agents) or any(
            self.agents[agent] for agent in shipped
        ):
            raise ValueError("the agents that it pins are not those of its plan")
        if (self.server is not None) != uses_server(self.plan.user):
            raise ValueError(f"its server does not belong to the user {self.plan.user}")
        return self

    @classmethod
    def parse(cls, plain: Mapping[str, Any]) -> Self:
        computed = {**plain, "fingerprint": fingerprint({**plain})}
        return cls.model_validate_json(json.dumps(computed), strict=True)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The manifest of a run folder. RunError names what in it is not as it was written."""
        try:
            return cls.parse(read_manifest(folder))
        except ValidationError as error:
            raise RunError(
                f"{folder / MANIFEST}: not the manifest of a run ({explain_problems(error)})."
            ) from error

    @property
    def planned(self) -> Planned:
        return self.plan.expand(self.personas)
