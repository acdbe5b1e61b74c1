"""Hold the dialogues of a plan and write them down; stopped anywhere, it goes on from there."""

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from rlver_gym.agents import HUMAN, Agent, AgentMaker, is_async_agent
from rlver_gym.bench.check import read_run
from rlver_gym.bench.costs import read_response_cache_spending
from rlver_gym.bench.folder import (
    EPISODES,
    MANIFEST,
    compute_manifest_checksum,
    find_response_cache,
    read_episodes,
    read_manifest,
)
from rlver_gym.bench.guard import AGENT_TIMEOUT_S, guard_agent, guard_user
from rlver_gym.bench.plan import BenchPlan, fingerprint
from rlver_gym.core.user import SentientUser, is_async_user
from rlver_gym.environment.episode import Case, Episode
from rlver_gym.environment.rollout import rollout
from rlver_gym.environment.rollout import run_episode as talk
from rlver_gym.environment.session import EmpathySession, Retry
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.llm_client.spending import Spending
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import RunError
from rlver_gym.util.json_lines import open_locked, rewrite_locked, write_lines
from rlver_gym.util.request_origin import number_dialogue
from rlver_gym.util.user_code import CodeRunner


def run_case(case: Case, plan: BenchPlan, maker: AgentMaker) -> Episode:
    """Run one dialogue. An AgentError says with whom and when an agent failed."""
    session = EmpathySession(plan.make_user(), plan.library.get(case.persona), plan.card, case.seed)
    agent = guard_agent(case, session, maker, CodeRunner(AGENT_TIMEOUT_S))
    return Episode.of(talk(session, agent), case.agent)


class Run(NamedTuple):
    """A run under way, the only one that writes to its folder."""

    plan: BenchPlan
    user: SentientUser
    makers: Mapping[str, AgentMaker]
    code: CodeRunner
    """Where agents of one's own are called."""
    chat: ChatSettings
    """How servers are reached, with the response cache of the run."""
    file: FileIO
    folder: Path
    finished_keys: tuple[Case, ...]
    """The dialogues that were there at the start and had not failed, in the file's order."""
    failed_before: Mapping[Case, int]
    """Those that had failed, and in which turn, from 1 (0: before the first words): they are held
    again.
    """
    num_dropped: int
    """How many lines were no record, edited or cut off: these dialogues are held again too."""
    spending: list[Spending]
    """What servers are asked for now, one for each; empty when none may be asked."""
    has_earlier_answers: bool
    """Whether the response cache held answers at the start."""

    @property
    def num_finished_before(self) -> int:
        return len(self.finished_keys)

    @property
    def missing_cases(self) -> list[Case]:
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
        order: list[tuple[str, str, int]] = [*self.finished_keys]
        with closing(_run_cases(self)) as episodes:
            for episode in episodes:
                write_lines(self.file, self.folder / EPISODES, [episode.to_json()])
                order.append(episode.key)
                yield episode
        planned = self.plan.planned
        if order != list(planned):
            episodes = sorted(
                read_episodes(self.folder), key=lambda episode: planned.place(episode.key)
            )
            text = "".join(f"{episode.to_json()}\n" for episode in episodes)
            write_atomically(self.folder / EPISODES, text)


def _run_cases(run: Run) -> Generator[Episode, None, None]:
    """Hold the missing dialogues: many at once where the user or an agent waits for a server."""
    cases, plan, attempt = run.missing_cases, run.plan, number_dialogue()
    waits = is_async_user(run.user) or any(map(is_async_agent, plan.agents))

    def prepare(case: Case) -> tuple[EmpathySession, Agent]:
        persona = plan.library.get(case.persona)
        session = EmpathySession(run.user, persona, plan.card, case.seed)
        if case in run.failed_before:
            session.retry = Retry(run.failed_before[case], attempt)
        return session, guard_agent(case, session, run.makers[case.agent], run.code)

    sessions = (
        rollout(map(prepare, cases), concurrency=run.chat.concurrency)
        if waits and HUMAN not in plan.agents
        else (talk(*prepare(case)) for case in cases)
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
    dialogues that failed or whose record was edited: those are held again, but in a suite what
    failed stays so. What servers answer is kept in the run's response cache unless the plan has
    another, so that it is not paid twice.
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
        done, failed, num_dropped = _find_finished(folder, keep_failed=bool(plan.suite))
        if failed or num_dropped:
            lines = rewrite_locked(path, (episode.to_json() for episode in done))
            file = opened.enter_context(lines)
        yield Run(
            plan,
            guard_user(plan.user, plan.make_user(chat), CodeRunner(agent_timeout_s)),
            makers,
            CodeRunner(agent_timeout_s),
            chat,
            file,
            folder,
            tuple(episode.key for episode in done),
            failed,
            num_dropped,
            _count_spending(plan, chat),
            read_response_cache_spending(chat.response_cache).calls > 0,
        )


def run(plan: BenchPlan, folder: Path) -> Iterator[Episode]:
    """Open the run and run what is missing; yields each episode once it is safely on disk."""
    with open_run(plan, folder) as bench_run:
        yield from bench_run.run_missing()


def _find_finished(
    folder: Path, *, keep_failed: bool
) -> tuple[list[Episode], dict[Case, int], int]:
    """What is finished, what failed and in which turn, and how many lines were damaged."""
    records = read_run(folder)
    strange = [
        finding for finding in records.problems.findings if finding.kind in ("doubled", "unplanned")
    ]
    if strange:
        told = "; ".join(f"{finding.kind}: line {finding.line}" for finding in strange[:3])
        raise RunError(
            f"{folder / EPISODES} holds dialogues that a run of this plan has not written ({told})."
            " Take these lines out, or choose another folder with --out."
        )
    intact = [episode for episode in records.episodes if episode.key not in records.edited]
    again = [episode for episode in intact if episode.failed_by and not keep_failed]
    failed = {
        episode.key: len(episode.turns) if episode.opening or episode.turns[0].utterance else 0
        for episode in again
    }
    done = [episode for episode in intact if episode.key not in failed]
    return done, failed, records.problems.total - len(intact)


def _count_spending(plan: BenchPlan, chat: ChatSettings) -> list[Spending]:
    servers = [] if chat.cache_mode == "replay" else plan.servers(chat)
    if not servers:
        return []
    # openai takes half a second to import
    from rlver_gym.llm_client.connect import spending  # noqa: PLC0415

    distinct = list({id(server): server for server in map(spending, servers)}.values())
    for server in distinct:
        server.reset()
    return distinct


def _write_or_check_manifest(plan: BenchPlan, folder: Path) -> None:
    path = folder / MANIFEST
    if not path.exists():
        if (folder / EPISODES).stat().st_size:
            raise RunError(
                f"{folder} holds {EPISODES} but no {MANIFEST}. Choose another folder with --out."
            )
        write_atomically(path, json.dumps(plan.manifest(), indent=2, ensure_ascii=False) + "\n")
        return
    there = read_manifest(folder)
    if (begun := fingerprint(there)) != plan.fingerprint:
        raise RunError(
            f"{folder} belongs to another plan, other cards, another agent or another version"
            f" ({begun}, this is {plan.fingerprint}). Choose another folder with"
            " --out."
        )
    if there.get("suite", {}) != plan.suite and plan.suite:
        there["suite"] = plan.suite
        there["check"] = compute_manifest_checksum(there)
        write_atomically(path, json.dumps(there, indent=2, ensure_ascii=False) + "\n")
