"""The state of a dialogue as a value, and whether its turns follow from one another."""

from typing import NamedTuple

from rlver_gym.core.cards import EnvCard
from rlver_gym.core.dialogue import Appraisal, Dialogue, Turn
from rlver_gym.core.emotion import MAX_CHANGE, REWARDS, Outcome, apply_change
from rlver_gym.util.errors import DialogueError


class Snapshot(NamedTuple):
    """Everything that moves in a session: restore it to go on from there, as often as wanted."""

    emotion: int
    dialogue: Dialogue | None
    outcome: Outcome | None


def check_snapshot(snapshot: object, card: EnvCard) -> None:
    if not isinstance(snapshot, Snapshot):
        raise DialogueError(
            f"cannot restore a {type(snapshot).__name__}. Give what snapshot() gave."
        )
    try:
        emotion, outcome = replay_turns(snapshot.dialogue, card)
        _require(snapshot.emotion == emotion, f"the emotion must be {emotion}")
        _require(snapshot.outcome is outcome, f"the outcome must be {outcome}")
    except (ValueError, TypeError) as error:
        raise DialogueError(
            f"cannot restore this snapshot: {error}. Give what snapshot() gave, to a session with"
            " the same card."
        ) from None


def replay_turns(dialogue: object, card: EnvCard) -> tuple[int, Outcome | None]:
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
        is_turn = isinstance(turn, Turn) and isinstance(turn.appraisal, Appraisal)
        _require(is_turn, f"turn {number} is none")
        outcome = _check_turn(turn, emotion, number, card)
        emotion = turn.emotion
    return emotion, outcome


def _check_turn(turn: Turn, before: int, number: int, card: EnvCard) -> Outcome | None:
    if turn.outcome is Outcome.FAILED:
        change, outcome, reward = 0, Outcome.FAILED, 0.0
    else:
        change = turn.appraisal.change
        outcome = card.outcome(apply_change(before, change), number)
        reward = REWARDS[card.reward](before, apply_change(before, change), outcome)
    fits = (turn.appraisal.change, turn.emotion, turn.reward) == (
        change,
        apply_change(before, change),
        reward,
    )
    _require(
        fits and turn.outcome is outcome and abs(turn.appraisal.change) <= MAX_CHANGE,
        f"turn {number} does not follow from the one before",
    )
    return outcome


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
