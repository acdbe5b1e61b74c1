"""Recorded dialogues read again through a simulated user: it hears the recorded words and keeps its
own emotion.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rlver_gym.core.cards import EnvCard, env_card
from rlver_gym.core.dialogue import Dialogue, Turn
from rlver_gym.core.emotion import Outcome, moved
from rlver_gym.core.user import Scene, SentientUser
from rlver_gym.data.recordings import RatedUtterance, Recording
from rlver_gym.io.errors import UserFailed


class ReplayedTurn(NamedTuple):
    """One recorded utterance, with its recorded rating and the replayed one."""

    rated: RatedUtterance
    change: int
    """What the simulated user made of it."""


class ReplayedDialogue(NamedTuple):
    """One recorded dialogue as the simulated user felt it."""

    recording: Recording
    turns: tuple[ReplayedTurn, ...]
    final: int
    """The simulated user's emotion when it was content, had left, or the recording ended."""


OnFailure = Callable[[Recording, UserFailed], None]
"""What to do about a recording that its user failed at; it is left out."""


def raise_failure(recording: Recording, failure: UserFailed) -> None:
    """Let the first failure end the replay."""
    raise failure


def replay(
    user_of: Callable[[Recording], SentientUser],
    recordings: Iterable[Recording],
    *,
    on_progress: Callable[[], None] = lambda: None,
    on_failure: OnFailure = raise_failure,
) -> list[ReplayedDialogue]:
    """Each recording through the user that `user_of` gives for it. Recorded emotions are never
    shown to it.

    Utterances after its own end are still appraised, at the start emotion, for the checks of single
    turns. `on_progress` is called after each.
    """
    card, replayed = env_card("SAGE-Sentient-v0"), []
    for recording in recordings:
        try:
            replayed.append(_replay_recording(user_of(recording), recording, card))
        except UserFailed as failure:
            on_failure(recording, failure)
        on_progress()
    return replayed


def _replay_recording(user: SentientUser, recording: Recording, card: EnvCard) -> ReplayedDialogue:
    scene = Scene(recording.persona, card, 0)
    dialogue, emotion, final, turns = Dialogue(recording.opening), card.start, None, []
    for rated, exchange in zip(recording.rated_utterances(), recording.exchanges, strict=True):
        appraisal = user.appraise(scene, emotion, dialogue.with_utterance(exchange.utterance))
        turns.append(ReplayedTurn(rated, appraisal.change))
        emotion = moved(emotion, appraisal.change)
        dialogue = dialogue.with_turn(
            Turn(exchange.utterance, appraisal, emotion, 0.0, None, exchange.reply)
        )
        if card.outcome(emotion, 0) in (Outcome.CONTENT, Outcome.LEFT):
            final = emotion if final is None else final
            emotion = card.start
    return ReplayedDialogue(recording, tuple(turns), emotion if final is None else final)


class Swap(NamedTuple):
    """A recorded utterance, and one of the same agent at the same turn to somebody else, in the
    same place.
    """

    own: int
    """The change that the utterance meant for this person brings."""
    others: int


def swap_replies(
    user_of: Callable[[Recording], SentientUser],
    recordings: Sequence[Recording],
    *,
    on_progress: Callable[[], None] = lambda: None,
    on_failure: OnFailure = raise_failure,
) -> list[Swap]:
    """For each dialogue and each turn: what a reply to somebody else would have brought.

    The other person is the next one, in the order of ids, to whom the same agent said something at
    that turn.
    """
    swaps: list[Swap] = []
    said: dict[tuple[str, str, int], list[tuple[str, str]]] = {}
    for one in recordings:
        for turn, exchange in enumerate(one.exchanges):
            said.setdefault((one.simulator, one.agent, turn), []).append(
                (one.persona.id, exchange.utterance)
            )
    for replies in said.values():
        replies.sort()
    for one in recordings:
        others = [
            _find_next_reply(said[one.simulator, one.agent, turn], one.persona.id)
            for turn in range(len(one.exchanges))
        ]
        try:
            swaps += _swap_recording(user_of(one), one, others)
        except UserFailed as failure:
            on_failure(one, failure)
        on_progress()
    return swaps


def _find_next_reply(replies: Sequence[tuple[str, str]], person: str) -> str | None:
    """Of sorted replies, the first to the next person; None when there is nobody else."""
    behind = bisect_right(replies, person, key=lambda one: one[0]) % len(replies)
    return replies[behind][1] if replies[behind][0] != person else None


def _swap_recording(
    user: SentientUser, recording: Recording, others: Sequence[str | None]
) -> list[Swap]:
    scene, swaps = Scene(recording.persona, env_card("SAGE-Sentient-v0"), 0), []
    for rated, other in zip(recording.rated_utterances(), others, strict=True):
        if other is not None:
            plain = Dialogue(rated.dialogue.opening, _reset_emotions(rated.dialogue.turns))
            said = (rated.dialogue.utterance or "", other)
            swaps.append(
                Swap(
                    *(
                        user.appraise(scene, scene.card.start, plain.with_utterance(text)).change
                        for text in said
                    )
                )
            )
    return swaps


def _reset_emotions(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """The same words without the recorded changes."""
    return tuple(
        turn._replace(appraisal=turn.appraisal._replace(change=0), emotion=40) for turn in turns
    )
