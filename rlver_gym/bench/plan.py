"""What a benchmark is to do, who talks to whom and how often, and the manifest that pins it."""

import hashlib
import json
import platform
import re
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import Field, JsonValue, SecretStr, field_validator, model_validator

from rlver_gym.agents import SHIPPED_AGENTS, AgentMaker, agent_maker, agent_pin, uses_server
from rlver_gym.bench.folder import MANIFEST_FORMAT
from rlver_gym.bench.planned import Planned
from rlver_gym.core.cards import EnvCard, env_card
from rlver_gym.core.library import PersonaLibrary, library
from rlver_gym.core.persona import SplitChoice
from rlver_gym.io.errors import RunError
from rlver_gym.io.frozen import Frozen
from rlver_gym.io.version import __version__
from rlver_gym.llm_client.settings import ChatSettings, public_url, resolve_settings
from rlver_gym.users import SentientUser, is_shipped_user, make_user

MAX_SEEDS = 10_000
MAX_USER_SEEDS = 1_000
_OFFLINE_CHAT = ChatSettings(base_url="http://localhost", api_key=SecretStr("unused"))
"""For a user that is looked at and never asked: it needs neither server nor key."""


class Case(NamedTuple):
    """One dialogue to hold."""

    agent: str
    persona: str
    seed: int
    """The user's."""


class BenchPlan(Frozen):
    """A benchmark, completely described: the same plan gives the same episodes."""

    env: str = "SAGE-Sentient-v0"
    """An environment id, or the path of an env card."""
    agents: tuple[str, ...] = Field(default=SHIPPED_AGENTS, min_length=1)
    seeds: int = Field(default=3, ge=1, le=MAX_SEEDS)
    """Dialogues of each agent with each persona; seed 0, 1, … of the user and the agent."""
    user_seeds: int = Field(default=1, ge=1, le=MAX_USER_SEEDS)
    """Replicates: all that once more with other seeds of the user and equal ones of the agents."""
    user: str = "embedded"
    user_options: dict[str, JsonValue] = Field(default_factory=dict)
    """What `make_user` takes beside the name, such as `samples` of "openai:MODEL". What only says
    how its server is reached is not recorded.
    """
    agent_options: dict[str, JsonValue] = Field(default_factory=dict)
    """What agents that are chat models are asked with, such as `temperature`."""
    split: SplitChoice | None = None
    """Which personas; None takes the card's split."""
    persona_ids: tuple[str, ...] = ()
    """Only these personas, whatever their split."""
    personas: str | None = None
    """A folder of persona cards; None takes the shipped ones."""
    chat: ChatSettings = Field(default=ChatSettings(), exclude=True)
    """How chat servers are reached; only the address is recorded."""

    @field_validator("user_options")
    @classmethod
    def _without_secrets(cls, options: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if "api_key" in options:
            raise ValueError(
                "keys are read from OPENAI_API_KEY, so that none is written into a run. Leave"
                " api_key out"
            )
        return options

    @model_validator(mode="after")
    def _apply_options(self) -> Self:
        if self.agent_options and not any(map(uses_server, self.agents)):
            raise ValueError("agent_options are for agents that are chat models (openai:MODEL)")
        if both := sorted(set(self.agent_options) & set(self.chat.omit)):
            raise ValueError(f"{both[0]} is both an agent option and omitted. Leave one out")
        return self

    @property
    def names_behind_servers(self) -> tuple[str, ...]:
        """The user and the agents that are chat models behind a server."""
        return tuple(name for name in (self.user, *self.agents) if uses_server(name))

    def user_chat(self, chat: ChatSettings | None = None) -> ChatSettings:
        """How the user's server is reached: as `chat` (None: the plan's) and its options say."""
        own = {
            name: value
            for name, value in self.user_options.items()
            if name in ChatSettings.model_fields
        }
        return ChatSettings.model_validate({**dict(chat or self.chat), **own})

    def servers(self, chat: ChatSettings | None = None) -> list[ChatSettings]:
        """How the user's, then the agents' servers are reached. ServerRefused without a key."""
        reached = [self.user_chat(chat)] if uses_server(self.user) else []
        reached += [chat or self.chat] if any(map(uses_server, self.agents)) else []
        return [resolve_settings(settings) for settings in reached]

    def make_user(self, chat: ChatSettings | None = None) -> SentientUser:
        """The user of the plan, its server reached as `chat` says."""
        reached = dict(chat or self.chat) if uses_server(self.user) else {}
        return make_user(self.user, **{**reached, **self.user_options})

    @cached_property
    def card(self) -> EnvCard:
        """The environment's card."""
        return env_card(self.env)

    @cached_property
    def library(self) -> PersonaLibrary:
        """Where the personas come from."""
        return library(self.personas)

    def select_personas(self) -> tuple[str, ...]:
        """The ids of the personas, in the order of the index."""
        return select_personas(self.library, self.persona_ids, self.split or self.card.split)

    @property
    def planned(self) -> Planned:
        """Every dialogue to hold."""
        agents = tuple(dict.fromkeys(self.agents))
        return Planned(agents, self.select_personas(), self.seeds * self.user_seeds)

    def cases(self) -> list[Case]:
        """Every dialogue to hold, in order."""
        return [Case(*key) for key in self.planned]

    def agent_maker(self, agent: str, chat: ChatSettings) -> AgentMaker:
        """Makes an agent of the plan for a case, with the same seed in every replicate."""
        make = agent_maker(agent, chat, self.agent_options)
        return lambda persona, seed: make(persona, seed % self.seeds)

    @cached_property
    def scene_pins(self) -> dict[str, Any]:
        """What decides how utterances are felt and answered: plan, card, personas and user."""
        user = self.make_user(_OFFLINE_CHAT)
        options = {
            name: value
            for name, value in self.user_options.items()
            if name not in ChatSettings.model_fields
        }
        # as before there were any
        default = {"user_seeds"} if self.user_seeds == 1 else set[str]()
        default |= set[str]() if self.agent_options else {"agent_options"}
        plan = self.model_dump(mode="json", exclude={"personas", "user_options"} | default)
        plan |= {"user_options": options} if options else {}
        return pin_scenes(plan, self.card, self.library, self.select_personas(), user)

    @cached_property
    def episode_pins(self) -> dict[str, Any]:
        """Everything that decides the episodes: what is judged, and who speaks."""
        pins = {name: agent_pin(name, self.chat) for name in self.agents}
        return {**self.scene_pins, "package": __version__, "agents": pins, **self._server}

    @property
    def _server(self) -> dict[str, str]:
        """The user's server, without credentials, and what it is not sent; empty without one."""
        if not uses_server(self.user):
            return {}
        chat = self.user_chat()
        omitted = {"omit": ",".join(sorted(chat.omit))} if chat.omit else {}
        return {"server": public_url(chat), **omitted}

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of all that is pinned."""
        return fingerprint(self.episode_pins)

    @property
    def folder_name(self) -> str:
        """Where the run lies unless told otherwise: equal plans share it, so that the same command
        goes on where it stopped.
        """
        return f"{self.card.id}-{self.fingerprint}"

    def verify_command(self, folder: Path) -> str:
        """How to verify a run of this plan, with what its manifest does not bring along."""
        words = ["rlver-gym", "verify", str(folder)]
        if not is_shipped_user(self.user):
            words += ["--user", self.user]
            shown = {
                name: value if isinstance(value, str) else json.dumps(value)
                for name, value in self.user_options.items()
            }
            words += [
                word
                for name, value in shown.items()
                for word in ("--user-option", f"{name}={value}")
            ]
        words += ["--personas", self.personas] if self.personas else []
        words += (
            ["--response-cache", str(self.chat.response_cache)]
            if self.chat.response_cache and uses_server(self.user)
            else []
        )
        return shlex.join(words)

    def manifest(self) -> dict[str, Any]:
        """What is written beside the episodes."""
        plain = {
            "format": MANIFEST_FORMAT,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": ["rlver-gym", *map(_without_credentials, sys.argv[1:])],
            "fingerprint": self.fingerprint,
            **self.episode_pins,
            "persona_folder": self.personas,
            **(
                {"response_cache": str(self.chat.response_cache)}
                if self.names_behind_servers and self.chat.response_cache
                else {}
            ),
            "env_card": self.card.model_dump(mode="json"),
            "python": platform.python_version(),
            "packages": {
                name: _version(name)
                for name in ("rlver-gym", "gymnasium", "numpy", "pydantic", "openai")
            },
        }
        return {**plain, "check": manifest_check(plain)}


def select_personas(
    library: PersonaLibrary, persona_ids: Sequence[str], split: SplitChoice
) -> tuple[str, ...]:
    """These personas, or those of the split. RunError when there are none."""
    if persona_ids:
        return tuple(library.get(persona_id).id for persona_id in dict.fromkeys(persona_ids))
    ids = library.ids(split)
    if not ids:
        raise RunError(f"there are no personas in split {split!r}. See: rlver-gym personas list")
    return ids


def pin_scenes(
    plan: dict[str, Any],
    card: EnvCard,
    library: PersonaLibrary,
    personas: Sequence[str],
    user: SentientUser,
) -> dict[str, Any]:
    """What decides how utterances are felt and answered; `plan` is a manifest's plain one."""
    return {
        "plan": plan,
        "env_hash": card.hash,
        "personas": {persona_id: library.get(persona_id).hash for persona_id in personas},
        "user": {"kind": user.kind, "version": user.version},
    }


def manifest_check(plain: dict[str, Any]) -> str:
    """The checksum of a manifest: 12 hex digits of SHA-256 over all else in it."""
    rest = {name: value for name, value in plain.items() if name != "check"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()[:12]


def fingerprint(pinned: dict[str, Any]) -> str:
    """8 hex digits of SHA-256 over the values."""
    return hashlib.sha256(json.dumps(pinned, sort_keys=True).encode()).hexdigest()[:8]


def _without_credentials(word: str) -> str:
    """A word of a command, addresses in it without user, password and query."""
    return re.sub(r"(https?://)(?:[^/\s]*@)?([^?\s]*)(?:\?\S*)?", r"\1\2", word)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
