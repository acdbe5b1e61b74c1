"""Hold the dialogues of a plan and write them down as they finish. Stopped anywhere, it goes on where it was."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from rlver_gym.agents import AgentMaker, agent_maker
from rlver_gym.benchmark.plan import BenchPlan, Case
from rlver_gym.episode import Episode
from rlver_gym.errors import RunError
from rlver_gym.session import EmpathySession
from rlver_gym.users import make_user

EPISODES = "episodes.jsonl"
MANIFEST = "manifest.json"


def hold(case: Case, plan: BenchPlan, maker: AgentMaker) -> Episode:
    """One dialogue from start to end."""
    persona = plan.library.get(case.persona)
    session = EmpathySession(make_user(plan.user), persona, plan.card, case.seed)
    agent = maker(persona, case.seed)
    session.start()
    while session.outcome is None:
        session.reply(agent.reply(tuple(session.dialogue.messages())))
    return Episode.of(session, case.agent)


def run(plan: BenchPlan, folder: Path) -> Iterator[Episode]:
    """Hold every dialogue of the plan that is not in the folder yet; yields each once it is safely on disk.

    Raises RunError when the folder belongs to another plan. Nothing that was written before is lost or done twice.
    """
    makers = {agent: agent_maker(agent) for agent in plan.agents}
    folder.mkdir(parents=True, exist_ok=True)
    _claim(plan, folder)
    done = {episode.key for episode in _salvaged(folder)}
    with (folder / EPISODES).open("a", encoding="utf-8", newline="\n") as file:
        for case in plan.cases():
            if case in done:
                continue
            episode = hold(case, plan, makers[case.agent])
            file.write(episode.to_json() + "\n")
            file.flush()
            yield episode


def _claim(plan: BenchPlan, folder: Path) -> None:
    """Write the manifest, or see that the one that is there is of the same plan."""
    path = folder / MANIFEST
    if not path.exists():
        if (folder / EPISODES).exists():
            raise RunError(f"{folder} holds {EPISODES} but no {MANIFEST}. Choose another folder with --out.")
        write_whole(path, json.dumps(plan.manifest(), indent=2, ensure_ascii=False) + "\n")
        return
    there = read_manifest(folder)
    if there.get("fingerprint") != plan.fingerprint:
        raise RunError(
            f"{folder} belongs to another plan, other cards or another user version ({there.get('fingerprint')}, this is {plan.fingerprint}). "
            "Choose another folder with --out."
        )


def _salvaged(folder: Path) -> list[Episode]:
    """The whole episodes on disk; a last line that was cut off while being written is removed from the file."""
    path = folder / EPISODES
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.truncate(path, len(whole))
    return read_episodes(folder)


def read_manifest(folder: Path) -> dict[str, object]:
    """The manifest of a run folder; RunError when there is none to read."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}). Is {folder} the folder of a run?") from error
    except ValueError as error:
        raise RunError(f"{path}: not valid JSON ({error}). Was it edited or cut?") from error
    if not isinstance(manifest, dict):
        raise RunError(f"{path}: not a manifest. Was it edited?")
    return manifest


def read_episodes(folder: Path) -> list[Episode]:
    """The episodes of a run folder, in the order of the file."""
    path = folder / EPISODES
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}). Is {folder} the folder of a run?") from error
    except UnicodeDecodeError as error:
        raise RunError(f"{path}: not UTF-8 text (byte {error.start}). Was it edited?") from error
    return [Episode.from_json(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line]


def write_whole(path: Path, text: str) -> None:
    """Write a file all or nothing."""
    draft = path.with_name(path.name + ".part")
    with draft.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
