"""Hold the dialogues of a plan and write them down; stopped anywhere, it goes on from there."""

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from io import FileIO
from pathlib import Path
from typing import NamedTuple, Self

from rlver_gym.agents import HUMAN, Agent, AgentMaker, is_async_agent
from rlver_gym.bench.costs import read_spent
from rlver_gym.bench.folder import (
    EPISODES,
    MANIFEST,
    find_response_cache,
    read_episodes,
    read_manifest,
)
from rlver_gym.bench.guard import AGENT_TIMEOUT_S, guard_agent, guard_user
from rlver_gym.bench.plan import BenchPlan, Case
from rlver_gym.bench.planned import Key
from rlver_gym.bench.records import read_run
from rlver_gym.core.user import AsyncSentientUser, SentientUser
from rlver_gym.environment.episode import Episode
from rlver_gym.environment.rollout import rollout
from rlver_gym.environment.rollout import run_episode as talk
from rlver_gym.environment.session import EmpathySession
from rlver_gym.io.atomic import (
    append_line,
    convert_write_errors,
    drop_partial_line,
    open_locked,
    rewrite_locked,
    write_atomically,
)
from rlver_gym.io.errors import RunError
from rlver_gym.io.user_code import CodeRunner
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.llm_client.spending import Spending


def run_case(case: Case, plan: BenchPlan, maker: AgentMaker) -> Episode:
    """Run one dialogue. An AgentError says with whom and when an agent failed."""
    session = EmpathySession(plan.make_user(), plan.library.get(case.persona), plan.card, case.seed)
    agent = guard_agent(case, session, maker, CodeRunner(AGENT_TIMEOUT_S))
    return Episode.of(talk(session, agent), case.agent)


class Participants(NamedTuple):
    """Who talks in the dialogues of a plan, as this process has made them."""

    plan: BenchPlan
    user: SentientUser
    makers: dict[str, AgentMaker]
    code: CodeRunner
    """Where agents of one's own are called."""

    @classmethod
    def of(
        cls,
        plan: BenchPlan,
        chat: ChatSettings,
        makers: dict[str, AgentMaker],
        agent_timeout_s: float | None,
    ) -> Self:
        """Those of a plan; `chat` says how the user's server is reached."""
        user = guard_user(plan.user, plan.make_user(chat), CodeRunner(agent_timeout_s))
        return cls(plan, user, makers, CodeRunner(agent_timeout_s))

    @property
    def is_async(self) -> bool:
        """Whether the user or an agent waits for a server, so that many dialogues go on at once."""
        waits = isinstance(self.user, AsyncSentientUser) or any(
            map(is_async_agent, self.plan.agents)
        )
        return waits and HUMAN not in self.plan.agents

    def prepare(self, case: Case, bypass_cache_from: int | None) -> tuple[EmpathySession, Agent]:
        """Who talks in a case: the session, not begun, and the agent."""
        session = EmpathySession(
            self.user, self.plan.library.get(case.persona), self.plan.card, case.seed
        )
        session.bypass_cache_from = bypass_cache_from
        return session, guard_agent(case, session, self.makers[case.agent], self.code)


class Run(NamedTuple):
    """A run under way, the only one that writes to its folder."""

    plan: BenchPlan
    participants: Participants
    chat: ChatSettings
    """How servers are reached, with the response cache of the run."""
    file: FileIO
    folder: Path
    finished_keys: tuple[Key, ...]
    """The dialogues that were there at the start and had not failed, in the file's order."""
    failed_before: Mapping[Key, int]
    """Those that had failed, and in which turn, from 1: they are held again."""
    num_dropped: int
    """How many lines were no record, edited or cut off: these dialogues are held again too."""
    spending: list[Spending]
    """What servers are asked for now, one for each; empty when none may be asked."""
    has_earlier_answers: bool
    """Whether the response cache held answers at the start."""

    @property
    def num_finished_before(self) -> int:
        """How many dialogues of the plan were there when it began."""
        return len(self.finished_keys)

    @property
    def missing_cases(self) -> list[Case]:
        """The dialogues of the plan that were not there yet when it began."""
        done = frozenset(self.finished_keys)
        return [case for case in self.plan.cases() if case not in done]

    def on_outage(self, tell: Callable[[str], None]) -> None:
        """Have `tell` called with a sentence when a server's outage begins, is put off and ends."""
        if not self.spending:
            return
        # openai takes half a second to import
        from rlver_gym.llm_client.connect import outage  # noqa: PLC0415

        for settings in self.plan.servers(self.chat):
            outage(settings).on_change = tell

    def run_missing(self) -> Iterator[Episode]:
        """Run every dialogue of the plan that is not there yet; yields each once it is safely on
        disk.

        Where the user or an agent waits for a server `chat.concurrency` of them go on at once. At
        the end the file is in the plan's order, also when some were held again after they had
        failed.
        """
        order = [*self.finished_keys]
        with closing(_run_cases(self)) as episodes:
            for episode in episodes:
                with convert_write_errors(self.folder / EPISODES):
                    append_line(self.file, episode.to_json())
                order.append(episode.key)
                yield episode
        if order != [tuple(case) for case in self.plan.cases()]:
            _sort_episodes(self.folder, self.plan)


def _run_cases(run: Run) -> Generator[Episode, None, None]:
    """Hold the missing dialogues in this process."""
    cases, participants = run.missing_cases, run.participants
    dialogues = (participants.prepare(case, run.failed_before.get(case)) for case in cases)
    sessions = (
        rollout(dialogues, concurrency=run.chat.concurrency)
        if participants.is_async
        else (talk(*pair) for pair in dialogues)
    )
    with closing(sessions):
        for case, session in zip(cases, sessions, strict=True):
            yield Episode.of(session, case.agent)


@contextmanager
def open_run(
    plan: BenchPlan, folder: Path, *, agent_timeout_s: float | None = AGENT_TIMEOUT_S
) -> Iterator[Run]:
    """Open a run of the plan in a folder: a new one, or one that was stopped.

    Nothing that was written before is lost or done twice, but for a last line that was cut off, and
    dialogues that failed or whose record was edited: those are held again. What servers answer is
    kept in the run's response cache unless the plan has another, so that it is not paid twice.
    `agent_timeout_s`: how long a reply of an agent, or of a user, of one's own may take; None for
    ever.

    Raises RunError when the folder belongs to another plan, when another process runs in it, or
    when it cannot be written; ServerRefused without a key that is needed.
    """
    chat = (
        plan.chat
        if plan.chat.response_cache
        else plan.chat.model_copy(update={"response_cache": find_response_cache(folder)})
    )
    plan.servers(chat)
    makers = {agent: plan.agent_maker(agent, chat) for agent in plan.agents}
    path = folder / EPISODES
    with open_locked(path) as file, ExitStack() as opened:
        _write_or_check_manifest(plan, folder)
        drop_partial_line(path)
        before = _find_finished(folder)
        done = tuple(one.key for one in before.episodes)
        if before.failed or before.num_dropped:
            lines = "".join(f"{one.to_json()}\n" for one in before.episodes)
            file = opened.enter_context(rewrite_locked(path, lines))
        participants = Participants.of(plan, chat, makers, agent_timeout_s)
        yield Run(
            plan,
            participants,
            chat,
            file,
            folder,
            done,
            before.failed,
            before.num_dropped,
            count_spending(plan, chat),
            read_spent(chat.response_cache).calls > 0,
        )


def run(plan: BenchPlan, folder: Path) -> Iterator[Episode]:
    """Open the run and run what is missing; yields each episode once it is safely on disk."""
    with open_run(plan, folder) as bench_run:
        yield from bench_run.run_missing()


class _Before(NamedTuple):
    """What an earlier command has left in a folder."""

    episodes: list[Episode]
    """The dialogues that need not be held any more."""
    failed: dict[Key, int]
    """Those that failed, with the turn in which they did."""
    num_dropped: int
    """How many lines were edited or cut off."""


def _find_finished(folder: Path) -> _Before:
    """What need not be held again. RunError for a dialogue that nobody here has written."""
    records = read_run(folder)
    strange = records.problems.lines.keys() & {"doubled", "unplanned"}
    if strange:
        kinds = {kind: records.problems.lines[kind] for kind in sorted(strange)}
        lines = {kind: ", ".join(map(str, found[:3])) for kind, found in kinds.items()}
        told = "; ".join(f"{kind}: line {which}" for kind, which in lines.items())
        raise RunError(
            f"{folder / EPISODES} holds dialogues that a run of this plan has not written ({told})."
            " Take these lines out, or choose another folder with --out."
        )
    intact = [one for one in records.episodes if one.key not in records.edited]
    failed = {one.key: len(one.turns) for one in intact if one.failed_by}
    keep = [one for one in intact if not one.failed_by]
    return _Before(keep, failed, records.problems.total - len(keep) - len(failed))


def _sort_episodes(folder: Path, plan: BenchPlan) -> None:
    """Write the episodes anew in the plan's order."""
    place = {tuple(case): number for number, case in enumerate(plan.cases())}
    episodes = sorted(read_episodes(folder), key=lambda one: place.get(one.key, len(place)))
    write_atomically(folder / EPISODES, "".join(f"{one.to_json()}\n" for one in episodes))


def count_spending(plan: BenchPlan, chat: ChatSettings) -> list[Spending]:
    """What the servers of a run are asked for, counted from now."""
    servers = [] if chat.cache_mode == "replay" else plan.servers(chat)
    if not servers:
        return []
    # openai takes half a second to import
    from rlver_gym.llm_client.connect import spending  # noqa: PLC0415

    found = list({id(one): one for one in map(spending, servers)}.values())
    for one in found:
        one.reset()
    return found


def _write_or_check_manifest(plan: BenchPlan, folder: Path) -> None:
    """Write the manifest, or see that the one that is there is of the same plan."""
    path = folder / MANIFEST
    if not path.exists():
        if (folder / EPISODES).stat().st_size:
            raise RunError(
                f"{folder} holds {EPISODES} but no {MANIFEST}. Choose another folder with --out."
            )
        write_atomically(path, json.dumps(plan.manifest(), indent=2, ensure_ascii=False) + "\n")
        return
    there = read_manifest(folder)
    pins = json.loads(json.dumps({"fingerprint": plan.fingerprint, **plan.episode_pins}))
    if any(there.get(name) != value for name, value in pins.items()):
        raise RunError(
            f"{folder} belongs to another plan, other cards, another agent or another version"
            f" ({there.get('fingerprint')}, this is {plan.fingerprint}). Choose another folder with"
            " --out."
        )
