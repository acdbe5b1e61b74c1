"""Recompute a run: every appraisal, emotion, reward and answer must come out as it was recorded."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rlver_gym.bench.folder import EPISODES, episode_lines
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.plan import Case
from rlver_gym.bench.recompute import NO_SOURCES, Scenes, Sources, excerpt, load_scenes
from rlver_gym.core.agent import Agent
from rlver_gym.core.dialogue import Dialogue, clean_utterance
from rlver_gym.environment.episode import Episode
from rlver_gym.environment.session import EmpathySession, give_up_reason
from rlver_gym.io.errors import AgentFailed, NotInCache, RlverError, RunError
from rlver_gym.io.files import open_regular, path_inside
from rlver_gym.io.terminal import format_count, one_line


class Divergence(NamedTuple):
    """The first thing in an episode that is not as recorded; turn 0 is the opening or a field."""

    line: int
    episode: str
    turn: int
    what: str
    num_episodes: int = 1
    """How many it stands for; missing ones only where no damaged or renamed line may be them."""

    def __str__(self) -> str:
        episode = one_line(self.episode, max_chars=160)
        what = one_line(self.what, max_chars=1_000)
        return f"line {self.line}, episode {episode}, turn {self.turn}: {what}"


def verify(
    folder: Path,
    response_cache: Path | None = None,
    sources: Sources = NO_SOURCES,
    *,
    rerun: bool = False,
) -> Iterator[Divergence | None]:
    """One result an episode of the run: None when it is sound, else its first divergence. At the
    end, one for what is missing.

    Episodes may stand in any order, each at most once, and each has to have ended. Needs no server:
    what agents said is recorded, those that come with the package are asked again, and what a
    server answered, for an LLM user or an agent, is in the run's response cache (or in
    `response_cache`). The folder may come from a stranger: nothing that it names is imported, asked
    or opened outside of it, unless the caller names it in `sources`. Raises RunError when the
    folder or its response cache cannot be read, needs something named, or was made with cards or a
    user that are not these.

    What the reader's network made of an utterance is recorded and taken from there; with `rerun` it
    reads again, and a difference of more than a point is one.
    """
    manifest = Manifest.read(folder)
    scenes = load_scenes(folder, manifest, response_cache, sources)
    if _is_cut(folder):
        raise RunError(
            f"{folder / EPISODES}: the last line is cut off. Run the same bench command again to"
            " finish it."
        )
    seen: set[Case] = set()
    number = 0
    for number, line in episode_lines(folder):
        yield _check_line(line, number, scenes, seen, rerun)
    if missing := scenes.planned.count - len(seen):
        unexplained = max(0, missing - (number - len(seen)))
        first = next(key for key in scenes.planned if key not in seen)
        verb = "is" if missing == 1 else "are"
        what = f"{format_count(missing, 'episode')} of the plan {verb} missing"
        yield Divergence(number + 1, "/".join(map(str, first)), 0, what, unexplained)


def _is_cut(folder: Path) -> bool:
    """Whether the last line does not end."""
    with open_regular(
        path_inside(folder, EPISODES, error=RunError),
        error=RunError,
        hint=f"Is {folder} the folder of a run?",
    ) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) not in (b"", b"\n")


def _check_line(
    line: str, number: int, scenes: Scenes, seen: set[Case], rerun: bool
) -> Divergence | None:
    """What is wrong with a line; a sound one is added to those `seen`."""
    try:
        recorded = Episode.from_json(line)
    except RunError as error:
        return Divergence(number, "?", 0, str(error))
    case = Case(*recorded.key)
    name = "/".join(map(str, case))
    if case not in scenes.planned:
        return Divergence(number, name, 0, "the plan has no such episode")
    if case in seen:
        return Divergence(number, name, 0, "it stands twice")
    seen.add(case)
    session = scenes.session(case, recorded, rerun=rerun)
    try:
        again = replay_episode(session, recorded).to_json()
    except RlverError as error:
        return Divergence(
            number,
            name,
            len(session.dialogue.turns) + 1 if session.has_begun else 0,
            _NOT_IN_CACHE if isinstance(error, NotInCache) else str(error),
        )
    found = _first_difference(json.loads(line), json.loads(again))
    if found:
        return Divergence(number, name, *found)
    if recorded.outcome is None:
        turns = len(recorded.turns)
        what = f"it is cut off after {format_count(turns, 'turn')}: nobody has ended it"
        return Divergence(number, name, turns, what)
    if (agent := scenes.agent(case)) and (found := _find_foreign_words(agent, recorded, session)):
        return Divergence(number, name, *found)
    return (
        None
        if line == again
        else Divergence(number, name, 0, "its values are right, but they were written anew")
    )


def _find_foreign_words(
    agent: Agent, recorded: Episode, session: EmpathySession
) -> "_Difference | None":
    """The first turn in which an agent, asked again, does not say what is recorded."""
    card, name = session.scene.card, recorded.agent
    turns = () if session.has_failed_to_open else recorded.turns
    for number, turn in enumerate(turns, 1):
        before = Dialogue(recorded.opening, recorded.turns[: number - 1])
        has_failed = give_up_reason(turn) is not None
        try:
            words = agent.reply(tuple(before.messages()))
        except (AgentFailed, NotInCache) as error:
            if has_failed:
                return None
            said = (
                str(error)
                if isinstance(error, AgentFailed)
                else "nothing: the response cache lacks it"
            )
            return _Difference(
                number,
                f"{name} is recorded to say {excerpt(turn.utterance)}, asked again it says {said}",
            )
        words = clean_utterance(words, card.max_utterance_chars, card.overlong)
        if has_failed or words != turn.utterance:
            was = "fail" if has_failed else f"say {excerpt(turn.utterance)}"
            return _Difference(
                number, f"{name} is recorded to {was}, asked again it says {excerpt(words)}"
            )
    return None


class _Difference(NamedTuple):
    turn: int
    what: str


_SUMMARY = ("outcome", "final", "return")
_NOT_IN_CACHE = (
    "the response cache holds no answer to this: what was said or felt was changed after it was"
    " recorded, or it is not the run's response cache"
)


def _first_difference(theirs: dict[str, Any], ours: dict[str, Any]) -> _Difference | None:
    """Header fields, then turn by turn, then the summary; None when the records are equal."""
    if found := _find_field_mismatch(theirs, ours) or _find_value_mismatch(
        theirs, ours, [name for name in ours if name not in (*_SUMMARY, "turns")]
    ):
        return _Difference(0, found)
    their_turns, our_turns = theirs["turns"], ours["turns"]
    for turn, (recorded, recomputed) in enumerate(zip(their_turns, our_turns, strict=False), 1):
        if found := _find_field_mismatch(recorded, recomputed) or _find_value_mismatch(
            recorded, recomputed, recomputed
        ):
            return _Difference(turn, found)
    last = len(our_turns)
    if len(their_turns) != last:
        count = format_count(len(their_turns), "turn")
        return _Difference(last, f"the record has {count}, but it ends after {last}")
    found = _find_value_mismatch(theirs, ours, _SUMMARY)
    return _Difference(last, found) if found else None


def replay_episode(session: EmpathySession, recorded: Episode) -> Episode:
    """The episode that the recorded utterances, or silences, give now in this session."""
    session.start()
    for turn in recorded.turns:
        if session.outcome is not None:
            break
        if (why := give_up_reason(turn)) is not None:
            session.give_up(AgentFailed(why))
        else:
            session.reply(turn.utterance)
    return Episode.of(session, recorded.agent)


def _find_field_mismatch(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str | None:
    """The first field that one has and the other has not."""
    for name in theirs:
        if name not in ours:
            return f"the field {name!r} does not belong there"
    for name in ours:
        if name not in theirs:
            return f"the field {name!r} is missing"
    return None


def _find_value_mismatch(
    theirs: Mapping[str, Any], ours: Mapping[str, Any], names: Iterable[str]
) -> str | None:
    """The first of the named fields in which they differ."""
    for name in names:
        if theirs[name] != ours[name] or type(theirs[name]) is not type(ours[name]):
            if name == "check":
                return "its text was changed after it was recorded (the checksum does not fit)"
            return (
                f"{name} is recorded as {excerpt(theirs[name])}, recomputed it is"
                f" {excerpt(ours[name])}"
            )
    return None
