"""Hold the dialogues of a plan and write them down as they finish. Stopped anywhere, it goes on where it was."""

import json
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from rlver_gym.agents import AgentMaker, agent_maker
from rlver_gym.benchmark.folder import (
    EPISODES,
    MANIFEST,
    append_line,
    locked,
    on_disk,
    read_episodes,
    read_manifest,
    salvage,
    write_whole,
)
from rlver_gym.benchmark.plan import BenchPlan, Case
from rlver_gym.episode import Episode
from rlver_gym.errors import AgentError, RlverError, RunError
from rlver_gym.session import EmpathySession
from rlver_gym.users import make_user


def hold(case: Case, plan: BenchPlan, maker: AgentMaker) -> Episode:
    """One dialogue from start to end. Whatever the agent raises is an AgentError that says with whom and when."""
    persona = plan.library.get(case.persona)
    session = EmpathySession(make_user(plan.user), persona, plan.card, case.seed)
    session.start()
    with _at_fault(case, session):
        agent = maker(persona, case.seed)
    while session.outcome is None:
        with _at_fault(case, session):
            utterance = session.heard(agent.reply(tuple(session.dialogue.messages())))
        session.reply(utterance)
    return Episode.of(session, case.agent)


@contextmanager
def _at_fault(case: Case, session: EmpathySession) -> Iterator[None]:
    place = f"agent {case.agent!r} with {case.persona}, seed {case.seed}, turn {len(session.dialogue.turns) + 1}"
    try:
        yield
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
    makers: dict[str, AgentMaker]
    file: FileIO
    path: Path
    done: frozenset[tuple[str, str, int]]
    """The dialogues that were there when it began."""

    @property
    def already(self) -> int:
        """How many dialogues of the plan were there when it began."""
        return len(self.done)

    def hold_rest(self) -> Iterator[Episode]:
        """Hold every dialogue of the plan that is not there yet; yields each once it is safely on disk."""
        for case in self.plan.cases():
            if case in self.done:
                continue
            episode = hold(case, self.plan, self.makers[case.agent])
            with on_disk(self.path):
                append_line(self.file, episode.to_json())
            yield episode


@contextmanager
def begun(plan: BenchPlan, folder: Path) -> Iterator[Run]:
    """A run of the plan in a folder: new, or going on where it was stopped.

    Nothing that was written before is lost or done twice; only a last line that was cut off is. Raises RunError when the folder
    belongs to another plan, when another process runs in it, or when it cannot be written.
    """
    makers = {agent: agent_maker(agent) for agent in plan.agents}
    path = folder / EPISODES
    with locked(path) as file:
        _claim(plan, folder)
        salvage(path)
        yield Run(plan, makers, file, path, frozenset(episode.key for episode in read_episodes(folder)))


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
