"""Dialogues appraised again, by another user than the one who heard them: nothing is said anew."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rlver_gym.core.dialogue import Appraisal, Dialogue, Turn, clean_utterance
from rlver_gym.core.emotion import apply_change
from rlver_gym.core.user import AsyncSteps, Moment, ReadsAhead, ReadsDialogues, Scene, SentientUser
from rlver_gym.users import make_user
from rlver_gym.util.errors import UserFailed


class ReappraisedTurn(NamedTuple):
    """What the other user feels at an utterance, and the emotion that it moves to."""

    appraisal: Appraisal
    emotion: int


def reappraise(
    user: SentientUser, scene: Scene, opening: str, exchanges: Iterable[tuple[str, str]]
) -> Iterator[ReappraisedTurn]:
    """The user hears each utterance and answer, and keeps an emotion of its own, anew at an end."""
    card, dialogue, emotion = scene.card, Dialogue(opening), scene.card.start
    if isinstance(user, ReadsAhead):
        exchanges = list(exchanges)
        user.read_ahead(_list_moments(scene, opening, exchanges))
    for utterance, answer in exchanges:
        appraisal = user.appraise(scene, emotion, dialogue.with_utterance(utterance))
        emotion = apply_change(emotion, appraisal.change)
        yield ReappraisedTurn(appraisal, emotion)
        dialogue = dialogue.with_turn(Turn(utterance, appraisal, emotion, 0.0, None, answer))
        if card.is_end(emotion):
            emotion = card.start


def _list_moments(scene: Scene, opening: str, exchanges: Iterable[tuple[str, str]]) -> list[Moment]:
    dialogue, moments, start = Dialogue(opening), [], scene.card.start
    for utterance, answer in exchanges:
        moments.append(Moment(scene, start, dialogue.with_utterance(utterance)))
        turn = Turn(utterance, Appraisal(0, "", ()), start, 0.0, None, answer)
        dialogue = dialogue.with_turn(turn)
    return moments


async def areappraise(
    user: AsyncSteps, scene: Scene, opening: str, exchanges: Iterable[tuple[str, str]]
) -> list[ReappraisedTurn]:
    """The same by a user that can be waited for; one that reads dialogues whole does."""
    card, emotion, felt = scene.card, scene.card.start, []
    nothing, dialogue = Appraisal(0, "", ()), Dialogue(opening)
    turns = [Turn(words, nothing, emotion, 0.0, None, answer) for words, answer in exchanges]
    whole = None
    if isinstance(user, ReadsDialogues):
        whole = iter(await user.aappraise_dialogue(scene, Dialogue(opening, tuple(turns))))
    for turn in turns:
        current = dialogue.with_utterance(turn.utterance)
        appraisal = next(whole) if whole else await user.aappraise(scene, emotion, current)
        emotion = apply_change(emotion, appraisal.change)
        felt.append(ReappraisedTurn(appraisal, emotion))
        dialogue = dialogue.with_turn(turn._replace(appraisal=appraisal, emotion=emotion))
        if card.is_end(emotion):
            emotion = card.start
    return felt


def make_reference(user: str | SentientUser, **options: Any) -> SentientUser:
    return make_user(user, **options)


def reappraise_texts(
    user: SentientUser, scene: Scene, texts: Sequence[str]
) -> list[ReappraisedTurn] | None:
    """What the user feels from the first words until its own end; None when it fails."""
    card, (opening, *texts) = scene.card, texts
    words = (clean_utterance(text, card.max_utterance_chars, "truncate") for text in texts[::2])
    exchanges = zip(words, [*texts[1::2], ""], strict=False)
    felt: list[ReappraisedTurn] = []
    try:
        for turn in reappraise(user, scene, opening, exchanges):
            felt.append(turn)
            if card.is_end(turn.emotion):
                break
    except UserFailed:
        return None
    return felt
