"""Hold the dialogues of a plan and write them down as they finish. Stopped anywhere, it goes on where it was."""

import json
import traceback
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from io import FileIO
from pathlib import Path
from typing import NamedTuple, cast

from rlver_gym.agents import HUMAN, Agent, AgentMaker, AsyncAgent, agent_maker, answers_at_once
from rlver_gym.agents.base import Quick
from rlver_gym.benchmark.folder import (
    EPISODES,
    MANIFEST,
    TAPE,
    append_line,
    locked,
    on_disk,
    read_episodes,
    read_manifest,
    salvage,
    write_whole,
)
from rlver_gym.benchmark.plan import BenchPlan, Case
from rlver_gym.chat.settings import ChatSettings
from rlver_gym.chat.spending import Spending
from rlver_gym.dialogue import Message
from rlver_gym.episode import Episode
from rlver_gym.errors import STOPPING, AgentError, RlverError, RunError, TapeError
from rlver_gym.rollout import hold as talk
from rlver_gym.rollout import rollout
from rlver_gym.session import EmpathySession
from rlver_gym.users.base import AsyncSentientUser, SentientUser


def hold(case: Case, plan: BenchPlan, maker: AgentMaker) -> Episode:
    """One dialogue from start to end. Whatever the agent raises is an AgentError that says with whom and when."""
    return Episode.of(talk(*_dialogue(case, plan, maker, plan.make_user())), case.agent)


def _dialogue(case: Case, plan: BenchPlan, maker: AgentMaker, user: SentientUser) -> tuple[EmpathySession, Agent]:
    """Who talks in a case: the session, not begun, and the agent."""
    session = EmpathySession(user, plan.library.get(case.persona), plan.card, case.seed)
    with _at_fault(case, session):
        agent = maker(session.scene.persona, case.seed)
    named = _AsyncNamed if isinstance(agent, AsyncAgent) else _QuickNamed if isinstance(agent, Quick) else _Named
    return session, named(agent, case, session)


class _Named:
    """An agent whose faults are named: with whom, and when."""

    def __init__(self, agent: Agent, case: Case, session: EmpathySession) -> None:
        self.agent, self.case, self.session = agent, case, session

    def reply(self, messages: Sequence[Message]) -> str:
        with _at_fault(self.case, self.session):
            return self.session.heard(self.agent.reply(messages))


class _AsyncNamed(_Named):
    async def areply(self, messages: Sequence[Message]) -> str:
        with _at_fault(self.case, self.session):
            return self.session.heard(await cast(AsyncAgent, self.agent).areply(messages))


class _QuickNamed(_Named, Quick):
    pass


@contextmanager
def _at_fault(case: Case, session: EmpathySession) -> Iterator[None]:
    turn = len(session.dialogue.turns) + 1 if session.begun else 1
    place = f"agent {case.agent!r} with {case.persona}, seed {case.seed}, turn {turn}"
    try:
        yield
    except (*STOPPING, TapeError):
        raise  # concerns the whole run
    except RlverError as error:
        raise AgentError(f"{place}: {error}") from error
    except Exception as error:  # an agent is anybody's code
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise AgentError(
            f"{place}: {type(error).__name__}: {error} ({last.filename}, line {last.lineno}). Mend the agent; what was finished is kept."
        ) from error


class Run(NamedTuple):
    """A run under way, the only one that writes to its folder."""

    plan: BenchPlan
    user: SentientUser
    makers: dict[str, AgentMaker]
    chat: ChatSettings
    """How servers are reached, with the tape of the run."""
    file: FileIO
    path: Path
    done: frozenset[tuple[str, str, int]]
    """The dialogues that were there when it began."""

    @property
    def already(self) -> int:
        """How many dialogues of the plan were there when it began."""
        return len(self.done)

    @property
    def rest(self) -> list[Case]:
        """The dialogues of the plan that were not there yet when it began."""
        return [case for case in self.plan.cases() if case not in self.done]

    @property
    def spending(self) -> list[Spending]:
        """What servers were asked for in this run, one for each; empty when none may be asked."""
        servers = [] if self.chat.tape_mode == "replay" else self.plan.servers(self.chat)
        if not servers:
            return []
        from rlver_gym.chat.connect import spending  # noqa: PLC0415 (openai takes half a second to import)

        return list({id(found): found for found in map(spending, servers)}.values())

    def hold_rest(self) -> Iterator[Episode]:
        """Hold every dialogue of the plan that is not there yet; yields each once it is safely on disk, in the plan's order.

        Where the user or an agent waits for a server, `chat.concurrency` dialogues go on at once.
        """
        cases = self.rest
        dialogues = (_dialogue(case, self.plan, self.makers[case.agent], self.user) for case in cases)
        with closing(self._held(dialogues)) as sessions:
            for case, session in zip(cases, sessions, strict=True):
                episode = Episode.of(session, case.agent)
                with on_disk(self.path):
                    append_line(self.file, episode.to_json())
                yield episode

    def _held(self, dialogues: Iterator[tuple[EmpathySession, Agent]]) -> Generator[EmpathySession, None, None]:
        waits = isinstance(self.user, AsyncSentientUser) or any(map(answers_at_once, self.plan.agents))
        if waits and HUMAN not in self.plan.agents:
            yield from rollout(dialogues, concurrency=self.chat.concurrency)
        else:
            yield from (talk(*pair) for pair in dialogues)


@contextmanager
def begun(plan: BenchPlan, folder: Path) -> Iterator[Run]:
    """A run of the plan in a folder: new, or going on where it was stopped.

    Nothing that was written before is lost or done twice; only a last line that was cut off is. What servers answer is kept on the run's
    tape unless the plan has another, so that it is not paid twice. Raises RunError when the folder belongs to another plan, when another
    process runs in it, or when it cannot be written; ServerRefused without a key that is needed.
    """
    chat = plan.chat if plan.chat.tape else plan.chat.model_copy(update={"tape": folder / TAPE})
    plan.servers(chat)
    makers = {agent: agent_maker(agent, chat) for agent in plan.agents}
    path = folder / EPISODES
    with locked(path) as file:
        _claim(plan, folder)
        salvage(path)
        done = frozenset(episode.key for episode in read_episodes(folder))
        under_way = Run(plan, plan.make_user(chat), makers, chat, file, path, done)
        for spending in under_way.spending:
            spending.reset()
        yield under_way


def run(plan: BenchPlan, folder: Path) -> Iterator[Episode]:
    """`begun` and `hold_rest` in one: holds what is missing, yields each episode once it is safely on disk."""
    with begun(plan, folder) as under_way:
        yield from under_way.hold_rest()


def _claim(plan: BenchPlan, folder: Path) -> None:
    """Write the manifest, or see that the one that is there is of the same plan."""
    path = folder / MANIFEST
    if not path.exists():
        if (folder / EPISODES).stat().st_size:
            raise RunError(f"{folder} holds {EPISODES} but no {MANIFEST}. Choose another folder with --out.")
        write_whole(path, json.dumps(plan.manifest(), indent=2, ensure_ascii=False) + "\n")
        return
    there = read_manifest(folder)
    if there.get("fingerprint") != plan.fingerprint:
        raise RunError(
            f"{folder} belongs to another plan, other cards, another agent or another version ({there.get('fingerprint')}, this is {plan.fingerprint}). "
            "Choose another folder with --out."
        )
