"""Recompute a run: every appraisal, emotion, reward and answer must come out as it was recorded."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlver_gym.bench.check import Finding, Line, match_lines
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.recompute import (
    NO_SOURCES,
    RecomputedScenes,
    Sources,
    format_excerpt,
    load_scenes,
)
from rlver_gym.core.agent import Agent
from rlver_gym.core.dialogue import Dialogue, clean_utterance
from rlver_gym.environment.episode import Case, Episode
from rlver_gym.environment.session import EmpathySession, give_up_reason
from rlver_gym.util.errors import AgentFailed, NotInCache, RlverError
from rlver_gym.util.terminal import format_count


def verify(
    folder: Path,
    response_cache: Path | None = None,
    sources: Sources = NO_SOURCES,
    *,
    rerun: bool = False,
) -> Iterator[Finding | None]:
    """One result an episode of the run: None when it is sound, else the first thing in
    it that is not as recorded. At the end, one for what is missing.

    Episodes may stand in any order, each at most once, and each has to have ended. Needs no server:
    what agents said is recorded, those that come with the package are asked again, and what a
    server answered, for an LLM user or an agent, is in the run's response cache (or in
    `response_cache`). The folder may come from a stranger: nothing that it names is imported, asked
    or opened outside of it, unless the caller names it in `sources`. Raises RunError when the
    folder or its response cache cannot be read, needs something named, or was made with cards or a
    user that are not these.

    What the reader read in an utterance is recorded and taken from there; with `rerun` it
    reads again, and a difference of more than a point is one.
    """
    manifest = Manifest.read(folder)
    scenes = load_scenes(folder, manifest, response_cache, sources)
    seen: set[Case] = set()
    number = 0
    for line in match_lines(folder, scenes.planned):
        number = line.number
        if line.episode is None or line.problem:
            yield line.problem
            continue
        case = line.episode.key
        seen.add(case)
        difference = _check_episode(line, line.episode, case, scenes, rerun)
        yield difference and Finding("diverging", number, str(case), *difference)
    if missing := scenes.planned.count - len(seen):
        # a line that is damaged or renamed may be one of them, and was counted
        unexplained = max(0, missing - (number - len(seen)))
        first = next(str(case) for case in scenes.planned if case not in seen)
        verb = "is" if missing == 1 else "are"
        what = f"{format_count(missing, 'episode')} of the plan {verb} missing"
        yield Finding("missing", number + 1, first, what, num_episodes=unexplained)


_Difference = tuple[str, int]
"""What is not as recorded, and in which turn."""


def _check_episode(
    line: Line, recorded: Episode, case: Case, scenes: RecomputedScenes, rerun: bool
) -> _Difference | None:
    session = scenes.session(case, recorded, rerun=rerun)
    try:
        again = replay_episode(session, recorded).to_json()
    except RlverError as error:
        turn = len(session.dialogue.turns) + 1 if session.has_begun else 0
        return _NOT_IN_CACHE if isinstance(error, NotInCache) else str(error), turn
    if line.text != again:
        anew = "its values are right, but they were written anew", 0
        return _find_first_difference(json.loads(line.text), json.loads(again)) or anew
    if recorded.outcome is None:
        turns = len(recorded.turns)
        return f"it is cut off after {format_count(turns, 'turn')}: nobody has ended it", turns
    agent = scenes.agent(case)
    return _find_unrepeatable_turn(agent, recorded, session) if agent else None


def _find_unrepeatable_turn(
    agent: Agent, recorded: Episode, session: EmpathySession
) -> _Difference | None:
    """The first turn in which an agent, asked again, does not say what is recorded."""
    card = session.scene.card
    turns = () if session.has_failed_to_open else recorded.turns
    for number, turn in enumerate(turns, 1):
        before = Dialogue(recorded.opening, recorded.turns[: number - 1])
        has_failed = give_up_reason(turn) is not None
        try:
            words = agent.reply(tuple(before.messages()))
            words = clean_utterance(words, card.max_utterance_chars, card.overlong)
            if words == turn.utterance and not has_failed:
                continue
            now = format_excerpt(words)
        except (AgentFailed, NotInCache) as error:
            if has_failed:
                return None
            is_lost = isinstance(error, NotInCache)
            now = "nothing: the response cache lacks it" if is_lost else str(error)
        was = "fail" if has_failed else f"say {format_excerpt(turn.utterance)}"
        return f"{recorded.agent} is recorded to {was}, asked again it says {now}", number
    return None


_NOT_IN_CACHE = (
    "the response cache holds no answer to this: what was said or felt was changed after it was"
    " recorded, or it is not the run's response cache"
)


def _find_first_difference(
    theirs: Mapping[str, Any], ours: Mapping[str, Any], turn: int = 0
) -> _Difference | None:
    """Between two records or two turns, field by field in the order of a record."""
    for name in {**theirs, **ours}:
        if name not in ours:
            return f"the field {name!r} does not belong there", turn
        if name not in theirs:
            return f"the field {name!r} is missing", turn
        recorded, recomputed = theirs[name], ours[name]
        if name == "turns":
            turn = len(recomputed)
            for number, turns in enumerate(zip(recorded, recomputed, strict=False), 1):
                if difference := _find_first_difference(*turns, number):
                    return difference
            if len(recorded) != turn:
                count = format_count(len(recorded), "turn")
                return f"the record has {count}, but it ends after {turn}", turn
        elif recorded != recomputed or type(recorded) is not type(recomputed):
            if name == "check":
                return "its text was changed after it was recorded (the checksum does not fit)", 0
            was, is_now = format_excerpt(recorded), format_excerpt(recomputed)
            return f"{name} is recorded as {was}, recomputed {is_now}", turn
    return None


def replay_episode(session: EmpathySession, recorded: Episode) -> Episode:
    """The episode that the recorded utterances, or silences, give now in this session."""
    session.start()
    for turn in recorded.turns:
        if session.outcome is not None:
            break
        if (why := give_up_reason(turn)) is not None:
            session.give_up(AgentFailed(why))
        elif turn.siblings:
            texts = [turn.utterance, *(sibling.utterance for sibling in turn.siblings)]
            session.reply_from(session.appraise_replies(texts), 0)
        else:
            session.reply(turn.utterance)
    return Episode.of(session, recorded.agent)
