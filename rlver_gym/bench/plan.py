"""What a benchmark is to do, who talks to whom and how often, and the manifest that pins it."""

import hashlib
import json
import platform
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, JsonValue, SecretStr, StringConstraints, model_validator

from rlver_gym.agents import SHIPPED_AGENTS, AgentMaker, agent_maker, agent_pin, takes_options
from rlver_gym.bench.folder import MANIFEST_FORMAT, compute_manifest_checksum
from rlver_gym.core.cards import EnvCard, env_card
from rlver_gym.core.persona import SplitChoice
from rlver_gym.environment.episode import Case
from rlver_gym.library.personas import PersonaLibrary, library
from rlver_gym.llm_client.settings import ChatSettings, locate_server, public_url, resolve_settings
from rlver_gym.users import SentientUser, make_user
from rlver_gym.util import __version__
from rlver_gym.util.errors import RunError
from rlver_gym.util.frozen import Frozen
from rlver_gym.util.model_names import uses_server
from rlver_gym.util.secret_words import find_secret, hide_credentials

MAX_SEEDS = 10_000
MAX_USER_SEEDS = 1_000
MAX_AGENTS = 1_000
MAX_PERSONAS = 10_000
_OFFLINE_CHAT = ChatSettings(base_url="http://localhost", api_key=SecretStr("unused"))
"""For a user that is looked at and never asked: it needs neither server nor key."""


PINNED = ("plan", "env_hash", "personas", "user", "package", "agents", "server", "omit")
"""The fields of a manifest that decide its episodes: of them is the fingerprint."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
"""As long as a path may be: agents and users can be named by one."""
Word = Annotated[str, StringConstraints(max_length=1000)]


@dataclass(frozen=True)
class Planned:
    """Each agent with each persona under each seed: counted, never listed."""

    agents: tuple[str, ...]
    personas: tuple[str, ...]
    seeds: int
    """Of all replicates together."""

    @property
    def count(self) -> int:
        return len(self.agents) * len(self.personas) * self.seeds

    def __contains__(self, case: tuple[str, str, int]) -> bool:
        agent, persona, seed = case
        return agent in self._agents and persona in self._personas and 0 <= seed < self.seeds

    def place(self, case: tuple[str, str, int]) -> tuple[int, int, int]:
        agent, persona, seed = case
        return self._agents[agent], seed, self._personas[persona]

    def __iter__(self) -> Iterator[Case]:
        return (
            Case(agent, persona, seed)
            for agent in self.agents
            for seed in range(self.seeds)
            for persona in self.personas
        )

    @cached_property
    def _agents(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.agents)}

    @cached_property
    def _personas(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.personas)}


class Plan(Frozen):
    """What of a benchmark is written into its manifest."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    env: Name = "SAGE-Sentient-v0"
    """Environment id, or the path of an env card (.yaml)."""
    agents: tuple[Name, ...] = Field(default=SHIPPED_AGENTS, min_length=1, max_length=MAX_AGENTS)
    seeds: int = Field(default=3, ge=1, le=MAX_SEEDS)
    """Dialogues of each agent with each persona."""
    user_seeds: int = Field(default=1, ge=1, le=MAX_USER_SEEDS)
    """Hold all that so often, each time under other seeds of the user and equal ones of the agents,
    and say how far scores and order move: the noise floor. 5 is a good number.
    """
    user: Name = "embedded"
    """Who is talked to: embedded, reader, openai:MODEL, or MODULE:NAME."""
    user_options: dict[Word, JsonValue] = Field(default_factory=dict, max_length=100)
    """What `make_user` takes beside the name, such as `samples` of "openai:MODEL". What only says
    how its server is reached is not recorded.
    """
    agent_options: dict[Word, JsonValue] = Field(default_factory=dict, max_length=100)
    """What agents that are language models are asked with, such as `temperature`; of hf:PATH also
    `system`.
    """
    split: SplitChoice | None = None
    """train, validation, test, demo or all; default: the card's."""
    persona_ids: tuple[Name, ...] = Field(default=(), max_length=MAX_PERSONAS)
    """Only this persona, whatever its split; there may be several."""

    def to_dict(self) -> dict[str, Any]:
        plain = self.model_dump(mode="json", include=set(Plan.model_fields))
        for name in ChatSettings.model_fields:
            plain["user_options"].pop(name, None)
        return plain

    def expand(self, personas: Iterable[str]) -> Planned:
        agents = tuple(dict.fromkeys(self.agents))
        return Planned(agents, tuple(personas), self.seeds * self.user_seeds)


class BenchPlan(Plan):
    """A benchmark, completely described: the same plan gives the same episodes."""

    personas: str | None = None
    """A folder of persona cards; None takes the shipped ones."""
    chat: ChatSettings = Field(default=ChatSettings(), exclude=True)
    """How chat servers are reached; only the address is recorded."""
    suite: dict[str, JsonValue] = Field(default_factory=dict, exclude=True)
    """What a suite's file says, where there is one: of the manifest, and of no fingerprint."""

    @model_validator(mode="after")
    def _refuse_secrets(self) -> Self:
        told = {**self.to_dict(), "personas": self.personas}
        told |= {"api_key": self.user_options.get("api_key")}
        if where := find_secret(told):
            raise ValueError(
                f"{where}: a key or a password would stand in the run. Set OPENAI_API_KEY and"
                " OPENAI_BASE_URL instead"
            )
        return self

    @model_validator(mode="after")
    def _apply_options(self) -> Self:
        if self.agent_options and not any(map(takes_options, self.agents)):
            raise ValueError(
                "agent_options are for agents that are language models (openai:MODEL, hf:PATH)"
            )
        if both := sorted(set(self.agent_options) & set(self.chat.omit)):
            raise ValueError(f"{both[0]} is both an agent option and omitted. Leave one out")
        return self

    def _user_chat(self, chat: ChatSettings) -> ChatSettings:
        own = self.user_options
        known = {name: own[name] for name in ChatSettings.model_fields if name in own}
        return locate_server(self.user, ChatSettings.model_validate({**dict(chat), **known}))

    def servers(self, chat: ChatSettings) -> list[ChatSettings]:
        """How the user's, then the agents' servers are reached. ServerRefused without a key."""
        reached = [self._user_chat(chat)] if uses_server(self.user) else []
        reached += [locate_server(agent, chat) for agent in self.agents if uses_server(agent)]
        return list(dict.fromkeys(map(resolve_settings, reached)))

    def make_user(self, chat: ChatSettings | None = None) -> SentientUser:
        reached = dict(self._user_chat(chat or self.chat)) if uses_server(self.user) else {}
        return make_user(self.user, **{**reached, **self.user_options})

    @cached_property
    def card(self) -> EnvCard:
        return env_card(self.env)

    @cached_property
    def library(self) -> PersonaLibrary:
        return library(self.personas)

    @property
    def planned(self) -> Planned:
        return self.expand(_select_personas(self.library, self, self.card))

    def cases(self) -> list[Case]:
        return list(self.planned)

    def agent_maker(self, agent: str, chat: ChatSettings) -> AgentMaker:
        """Makes an agent of the plan for a case, with the same seed in every replicate."""
        make = agent_maker(agent, chat, self.agent_options)
        return lambda persona, seed: make(persona, seed % self.seeds)

    @cached_property
    def pins(self) -> dict[str, Any]:
        """Everything that decides the episodes, by the names in `PINNED`, without credentials."""
        user, server = self.make_user(_OFFLINE_CHAT), {}
        if uses_server(self.user):
            chat = self._user_chat(self.chat)
            server = {"server": public_url(chat)}
            server |= {"omit": ",".join(sorted(chat.omit))} if chat.omit else {}
        return {
            "plan": self.to_dict(),
            **pin_scenes(self, self.card, self.library, user),
            "package": __version__,
            "agents": {name: agent_pin(name, self.chat) for name in self.agents},
            **server,
        }

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.pins)

    @property
    def folder_name(self) -> str:
        """Where the run lies unless told otherwise: equal plans share it, and so go on."""
        return f"{self.card.id}-{self.fingerprint}"

    def manifest(self) -> dict[str, Any]:
        plain = {
            "format": MANIFEST_FORMAT,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": ["rlver-gym", *map(hide_credentials, sys.argv[1:])],
            **self.pins,
            "persona_folder": self.personas,
            **({"suite": self.suite} if self.suite else {}),
            **(
                {"response_cache": str(self.chat.response_cache)}
                if self.chat.response_cache and any(map(uses_server, (self.user, *self.agents)))
                else {}
            ),
            "env_card": self.card.model_dump(mode="json"),
            "python": platform.python_version(),
            "packages": {
                name: _find_package_version(name)
                for name in ("rlver-gym", "gymnasium", "numpy", "pydantic", "openai")
            },
        }
        return {**plain, "check": compute_manifest_checksum(plain)}


def _select_personas(library: PersonaLibrary, plan: Plan, card: EnvCard) -> tuple[str, ...]:
    """The personas that a plan names, or those of its split. RunError when there are none."""
    if plan.persona_ids:
        return tuple(library.get(persona_id).id for persona_id in dict.fromkeys(plan.persona_ids))
    split = plan.split or card.split
    ids = library.ids(split)
    if not ids:
        raise RunError(f"there are no personas in split {split!r}. See: {library.listed_by}")
    return ids


def pin_scenes(
    plan: Plan, card: EnvCard, library: PersonaLibrary, user: SentientUser
) -> dict[str, Any]:
    """The pins that whoever has the cards and the user can compute anew."""
    chosen = _select_personas(library, plan, card)
    return {
        "env_hash": card.hash,
        "personas": {name: library.get(name).hash for name in chosen},
        "user": {"kind": user.kind, "version": user.version},
    }


def fingerprint(plain: dict[str, Any]) -> str:
    """8 hex digits of SHA-256 over what of a manifest decides its episodes."""
    pinned = {name: plain[name] for name in PINNED if name in plain}
    return hashlib.sha256(json.dumps(pinned, sort_keys=True).encode()).hexdigest()[:8]


def _find_package_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
