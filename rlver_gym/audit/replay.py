"""Recorded dialogues read again through a simulated user: it hears the recorded words and keeps its own emotion."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rlver_gym.core.cards import EnvCard, env_card
from rlver_gym.core.dialogue import Dialogue, Turn
from rlver_gym.core.emotion import Outcome, moved
from rlver_gym.core.user import Scene, SentientUser
from rlver_gym.data.recordings import Judged, Recording
from rlver_gym.io.errors import UserFailed


class Heard(NamedTuple):
    """One recorded utterance, judged twice."""

    judged: Judged
    change: int
    """What the simulated user made of it."""


class Replayed(NamedTuple):
    """One recorded dialogue as the simulated user felt it."""

    recording: Recording
    heard: tuple[Heard, ...]
    final: int
    """The simulated user's emotion when it was content, had left, or the recording ended."""


Failed = Callable[[Recording, UserFailed], None]
"""What to do about a recording that its user failed at; it is left out."""


def give_up(recording: Recording, failure: UserFailed) -> None:
    """One failure ends all."""
    raise failure


def replay(
    user_of: Callable[[Recording], SentientUser],
    recordings: Iterable[Recording],
    *,
    done: Callable[[], None] = lambda: None,
    failed: Failed = give_up,
) -> list[Replayed]:
    """Each recording through the user that `user_of` gives for it. Recorded emotions are never shown to it.

    Utterances after its own end are still appraised, at the start emotion, for the checks of single turns. `done` is called after each.
    """
    card, replayed = env_card("SAGE-Sentient-v0"), []
    for recording in recordings:
        try:
            replayed.append(_replayed(user_of(recording), recording, card))
        except UserFailed as failure:
            failed(recording, failure)
        done()
    return replayed


def _replayed(user: SentientUser, recording: Recording, card: EnvCard) -> Replayed:
    scene = Scene(recording.persona, card, 0)
    dialogue, emotion, final, heard = Dialogue(recording.opening), card.start, None, []
    for judged, exchange in zip(recording.judged(), recording.exchanges, strict=True):
        appraisal = user.appraise(scene, emotion, dialogue.said(exchange.utterance))
        heard.append(Heard(judged, appraisal.change))
        emotion = moved(emotion, appraisal.change)
        dialogue = dialogue.answered(Turn(exchange.utterance, appraisal, emotion, 0.0, None, exchange.reply))
        if card.outcome(emotion, 0) in (Outcome.CONTENT, Outcome.LEFT):
            final = emotion if final is None else final
            emotion = card.start
    return Replayed(recording, tuple(heard), emotion if final is None else final)


class Swap(NamedTuple):
    """A recorded utterance, and one of the same agent at the same turn to somebody else, in the same place."""

    own: int
    """The change that the utterance meant for this person brings."""
    others: int


def swapped(
    user_of: Callable[[Recording], SentientUser],
    recordings: Sequence[Recording],
    *,
    done: Callable[[], None] = lambda: None,
    failed: Failed = give_up,
) -> list[Swap]:
    """For each dialogue and each turn: what a reply to somebody else would have brought.

    The other person is the next one, in the order of ids, to whom the same agent said something at that turn.
    """
    swaps: list[Swap] = []
    said: dict[tuple[str, str, int], list[tuple[str, str]]] = {}
    for one in recordings:
        for turn, exchange in enumerate(one.exchanges):
            said.setdefault((one.simulator, one.agent, turn), []).append((one.persona.id, exchange.utterance))
    for replies in said.values():
        replies.sort()
    for one in recordings:
        others = [
            _next_others(said[one.simulator, one.agent, turn], one.persona.id) for turn in range(len(one.exchanges))
        ]
        try:
            swaps += _swaps(user_of(one), one, others)
        except UserFailed as failure:
            failed(one, failure)
        done()
    return swaps


def _next_others(replies: Sequence[tuple[str, str]], person: str) -> str | None:
    """Of sorted replies, the first to the next person; None when there is nobody else."""
    behind = bisect_right(replies, person, key=lambda one: one[0]) % len(replies)
    return replies[behind][1] if replies[behind][0] != person else None


def _swaps(user: SentientUser, recording: Recording, others: Sequence[str | None]) -> list[Swap]:
    scene, swaps = Scene(recording.persona, env_card("SAGE-Sentient-v0"), 0), []
    for judged, other in zip(recording.judged(), others, strict=True):
        if other is not None:
            plain = Dialogue(judged.dialogue.opening, _unfelt(judged.dialogue.turns))
            said = (judged.dialogue.utterance or "", other)
            swaps.append(Swap(*(user.appraise(scene, scene.card.start, plain.said(text)).change for text in said)))
    return swaps


def _unfelt(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """The same words without the recorded changes."""
    return tuple(turn._replace(appraisal=turn.appraisal._replace(change=0), emotion=40) for turn in turns)
