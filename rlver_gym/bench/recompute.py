"""What a run is recomputed with: cards and a user, which its manifest cannot bring along."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rlver_gym.agents import Agent, AgentMaker, agent_maker, agent_pin, is_shipped_agent
from rlver_gym.bench.folder import find_response_cache
from rlver_gym.bench.guard import AGENT_TIMEOUT_S, guard_user
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.plan import Planned, pin_scenes
from rlver_gym.core.cards import EnvCard, env_card, is_card_file, shipped_env_ids
from rlver_gym.environment.episode import Case, Episode
from rlver_gym.environment.session import EmpathySession
from rlver_gym.library.personas import PersonaLibrary, are_shipped, library
from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.users import SentientUser, is_shipped_user, make_user
from rlver_gym.users.reader import ReaderUser
from rlver_gym.util.errors import RunError, SourceNeeded
from rlver_gym.util.model_names import uses_server
from rlver_gym.util.terminal import one_line
from rlver_gym.util.user_code import CodeRunner


class Sources(NamedTuple):
    """What the caller says about a run that its manifest cannot be believed about, because it would
    run code or open files of this machine.

    None and empty: nothing was said, and only what comes with the package is used.
    """

    user: str | None = None
    """As `make_user` takes it, such as "my_module:MyUser" or "reader:my_head.npz"."""
    user_options: Mapping[str, Any] = {}
    personas: str | None = None
    env: str | None = None
    """An environment id or a card's file; None for the card that the manifest holds."""


NO_SOURCES = Sources()


@dataclass(frozen=True)
class RecomputedScenes:
    """Every dialogue that the plan of a run has, ready to be held again."""

    user: SentientUser
    card: EnvCard
    library: PersonaLibrary
    planned: Planned
    makers: Mapping[str, AgentMaker]
    """Of the agents that say the same again, by name."""
    agent_seeds: int
    """How many seeds an agent has: every replicate begins with the first."""

    def agent(self, case: Case) -> Agent | None:
        """The agent of a dialogue; None for one that cannot be asked again."""
        maker = self.makers.get(case.agent)
        seed = case.seed % self.agent_seeds
        return maker(self.library.get(case.persona), seed) if maker else None

    def session(self, case: Case, recorded: Episode, *, rerun: bool = False) -> EmpathySession:
        """The dialogue, not begun; its user recalls what cannot be computed exactly again."""
        user = self.user
        if isinstance(user, ReaderUser):
            user = user.recall(recorded.turns, rerun=rerun)
        return EmpathySession(user, self.library.get(case.persona), self.card, case.seed)


def load_scenes(
    folder: Path, manifest: Manifest, response_cache: Path | None, sources: Sources
) -> RecomputedScenes:
    """What a run is recomputed with. RunError when it is not what the manifest pins."""
    card, cards = find_cards(folder, manifest, sources)
    user = _make_recorded_user(folder, manifest, response_cache, sources)
    pins, there = pin_scenes(manifest.plan, card, cards, user), manifest.model_dump(mode="json")
    for name, value in {**pins, "env_card": card.model_dump(mode="json")}.items():
        if there[name] != value:
            raise RunError(
                f"{folder} was made with other cards, another user version or an edited manifest:"
                f" {name} is {format_excerpt(there[name])}, here it is {format_excerpt(value)}. So"
                " it cannot be recomputed. Use the package version in its manifest."
            )
    makers = find_repeatable(folder, manifest, response_cache).makers
    return RecomputedScenes(user, card, cards, manifest.planned, makers, manifest.plan.seeds)


class Repeatable(NamedTuple):
    """Which agents of a run say the same again."""

    makers: dict[str, AgentMaker]
    unasked: dict[str, str]
    """Why each of the others is not asked again."""
    lost: tuple[str, ...]
    """Those of the others that a whole run of this version would let be asked."""


def find_repeatable(
    folder: Path, manifest: Manifest, response_cache: Path | None = None
) -> Repeatable:
    """Shipped agents, and chat models whose answers are in the run's response cache."""
    agents = manifest.plan.agents
    makers = {name: agent_maker(name) for name in agents if is_shipped_agent(name)}
    unasked = {name: "it is not part of rlver-gym" for name in agents if name not in makers}
    models = [*filter(uses_server, agents)]
    path = response_cache or find_response_cache(folder)
    if not path.exists():
        return Repeatable(
            makers, unasked | dict.fromkeys(models, _explain_missing_cache(manifest)), tuple(models)
        )
    replay = ChatSettings(base_url="http://localhost", response_cache=path, cache_mode="replay")
    for name in models:
        here, there = agent_pin(name, replay), manifest.agents[name]
        # neither the server nor what it was not sent is asked for by a replay
        if here | {key: there[key] for key in ("base_url", "omit") if key in there} == there:
            makers[name] = agent_maker(name, replay, manifest.plan.agent_options)
            del unasked[name]
        else:
            unasked[name] = "what it was asked with is not what this version asks with"
    return Repeatable(makers, unasked, tuple(name for name in models if name in unasked))


def find_other_servers(
    folder: Path, manifest: Manifest, response_cache: Path | None = None
) -> Iterator[str]:
    """Where the manifest names another server than the one that the answers are kept from."""
    named = {
        name.partition(":")[2]: manifest.agents[name].get("base_url")
        for name in filter(uses_server, manifest.agents)
    }
    if manifest.server is not None:
        named[manifest.plan.user.partition(":")[2]] = manifest.server
    path = response_cache or find_response_cache(folder)
    if not named or not path.exists():
        return
    asked: dict[str, set[str | None]] = {}
    for row in ResponseCache(path, read_only=True).rows():
        asked.setdefault(row.model, set()).add(row.server)
    for model, server in named.items():
        if server not in (others := asked.get(model, {server})):
            yield f"{model} was asked at {', '.join(sorted(map(str, others)))}, not at {server}"


def _explain_missing_cache(manifest: Manifest) -> str:
    there = manifest.response_cache
    elsewhere = f" (its manifest says that it was at {format_excerpt(there)})" if there else ""
    return f"its response cache is missing{elsewhere}: name it with verify --response-cache"


def find_cards(
    folder: Path, manifest: Manifest, sources: Sources
) -> tuple[EnvCard, PersonaLibrary]:
    """The env card and the people of a run; SourceNeeded for what has to be named."""
    card = find_env_card(folder, manifest, sources)
    return card, _find_persona_library(folder, manifest, sources)


def format_excerpt(value: object) -> str:
    return one_line(repr(value), max_chars=160)


def find_env_card(folder: Path, manifest: Manifest, sources: Sources) -> EnvCard:
    """The env card of a run; SourceNeeded where its file has to be named."""
    if sources.env is not None:
        return env_card(sources.env)
    if manifest.plan.env in shipped_env_ids():
        return env_card(manifest.plan.env)
    if not is_card_file(manifest.plan.env):
        raise SourceNeeded(
            f"{folder} was made with the environment {format_excerpt(manifest.plan.env)}, which"
            " does not come with this rlver-gym. If you have its card, name its file:"
            " --env CARD.yaml"
        )
    card = manifest.env_card
    if card.id in shipped_env_ids() and card.hash != env_card(card.id).hash:
        raise SourceNeeded(
            f"{folder} was made with an env card that calls itself {card.id}, but is not the one"
            " that comes with rlver-gym. If it is yours, name its file: --env CARD.yaml"
        )
    return card


def _find_persona_library(folder: Path, manifest: Manifest, sources: Sources) -> PersonaLibrary:
    if sources.personas is not None:
        return library(sources.personas)
    if are_shipped(manifest.persona_folder):
        return library(manifest.persona_folder)
    raise SourceNeeded(
        f"{folder} was made with the persona cards in {format_excerpt(manifest.persona_folder)}, a"
        " folder of whoever made it, which is not opened on its word. If you have these cards, name"
        " their folder: --personas DIR"
    )


def _make_recorded_user(
    folder: Path, manifest: Manifest, response_cache: Path | None, sources: Sources
) -> SentientUser:
    """The user as the package or the caller brings it; one behind a server replays alone."""
    plan = manifest.plan
    if sources.user is None and not is_shipped_user(plan.user):
        raise SourceNeeded(
            f"{folder} was made with the user {format_excerpt(plan.user)}, which does not come with"
            " rlver-gym, and on a manifest's word no code is run and no file opened. If you have"
            " that user and trust it, name it: --user MODULE:NAME (or --user reader:FILE)"
        )
    name, options = sources.user or plan.user, plan.user_options
    if not is_shipped_user(name):
        named = sources.user_options
        if {key: named[key] for key in named.keys() - ChatSettings.model_fields} != options:
            raise SourceNeeded(
                f"{folder} was made with the options {format_excerpt(plan.user_options)} of its"
                " user. Name the same: --user-option NAME=VALUE"
            )
        user = make_user(name, **sources.user_options)
        return guard_user(name, user, CodeRunner(AGENT_TIMEOUT_S))
    if uses_server(name):
        cache = _find_response_cache(folder, manifest, response_cache)
        options = {**dict(ChatSettings(response_cache=cache, cache_mode="replay")), **options}
    return make_user(name, **options)


def _find_response_cache(folder: Path, manifest: Manifest, response_cache: Path | None) -> Path:
    path = response_cache or find_response_cache(folder)
    if not path.exists():
        raise (SourceNeeded if manifest.response_cache else RunError)(
            f"{path}: there is no response cache, so nothing can be recomputed without the server:"
            f" {_explain_missing_cache(manifest)}."
        )
    return path
