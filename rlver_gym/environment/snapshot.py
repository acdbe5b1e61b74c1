"""The state of a dialogue as a value, and whether it can be one: it may come out of any file."""

from math import isfinite
from numbers import Real
from typing import Any, NamedTuple

from rlver_gym.core.cards import EnvCard
from rlver_gym.core.dialogue import Appraisal, Dialogue, Reason, Turn
from rlver_gym.core.emotion import MAX_CHANGE, MAX_EMOTION, MIN_EMOTION, REWARDS, Outcome, moved
from rlver_gym.io.errors import DialogueError


class Snapshot(NamedTuple):
    """Everything that moves in a session: restore it to go on from there, as often as wanted."""

    emotion: int
    dialogue: Dialogue | None
    outcome: Outcome | None


def check_snapshot(snapshot: object, card: EnvCard) -> None:
    """DialogueError for what is no snapshot, or one that no dialogue under this card comes to."""
    if not isinstance(snapshot, Snapshot):
        raise DialogueError(
            f"cannot restore a {type(snapshot).__name__}. Give what snapshot() gave."
        )
    try:
        emotion, outcome = follow_turns(snapshot.dialogue, card)
        _require(
            snapshot.emotion == emotion and _is_number(snapshot.emotion),
            f"the emotion must be {emotion}",
        )
        _require(snapshot.outcome is outcome, f"the outcome must be {outcome}")
    except (ValueError, TypeError) as error:
        raise DialogueError(
            f"cannot restore this snapshot: {error}. Give what snapshot() gave, to a session with"
            " the same card."
        ) from None


def follow_turns(dialogue: object, card: EnvCard) -> tuple[int, Outcome | None]:
    """Where the dialogue has come to; ValueError or TypeError for a turn that does not follow."""
    if dialogue is None:
        return card.start, None
    if not isinstance(dialogue, Dialogue):
        raise ValueError("its dialogue is none")
    _require(
        isinstance(dialogue.opening, str) and dialogue.utterance is None,
        "its dialogue is not between two turns",
    )
    _require(isinstance(dialogue.turns, tuple), "its turns are no tuple")
    emotion, outcome = card.start, None
    for number, turn in enumerate(dialogue.turns, 1):
        _require(outcome is None, f"turn {number} comes after the end")
        _require(_is_turn(turn), f"turn {number} is none")
        outcome = _check_turn(turn, emotion, number, card)
        emotion = turn.emotion
    return emotion, outcome


def _check_turn(turn: Turn, before: int, number: int, card: EnvCard) -> Outcome | None:
    """The turn's outcome, when it follows from the emotion before and the change."""
    if turn.outcome is Outcome.FAILED:
        change, outcome, reward = 0, Outcome.FAILED, 0.0
    else:
        change = turn.appraisal.change
        outcome = card.outcome(moved(before, change), number)
        reward = REWARDS[card.reward](before, moved(before, change), outcome)
    fits = (turn.appraisal.change, turn.emotion, turn.reward) == (
        change,
        moved(before, change),
        reward,
    )
    _require(fits and turn.outcome is outcome, f"turn {number} does not follow from the one before")
    return outcome


def _is_turn(turn: Any) -> bool:
    if not isinstance(turn, Turn) or not isinstance(turn.appraisal, Appraisal):
        return False
    appraisal, texts = (
        turn.appraisal,
        (turn.utterance, turn.reply, turn.appraisal.thought, *_ids(turn.disclosures)),
    )
    numbers = (
        turn.emotion,
        turn.reward,
        appraisal.change,
        0 if appraisal.spread is None else appraisal.spread,
    )
    return (
        all(isinstance(text, str) for text in texts)
        and all(map(_is_number, numbers))
        and MIN_EMOTION <= turn.emotion <= MAX_EMOTION
        and -MAX_CHANGE <= appraisal.change <= MAX_CHANGE
        and appraisal.draft is None
        and isinstance(appraisal.reasons, tuple)
        and all(map(_is_reason, appraisal.reasons))
    )


def _ids(disclosures: Any) -> tuple[Any, ...]:
    """The ids, or something that is no text."""
    if disclosures is None:
        return ()
    return disclosures if isinstance(disclosures, tuple) else (None,)


def _is_reason(reason: Any) -> bool:
    return (
        isinstance(reason, Reason)
        and isinstance(reason.code, str)
        and isinstance(reason.note, str)
        and _is_number(reason.points)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
