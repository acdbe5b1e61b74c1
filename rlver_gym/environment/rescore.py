"""Dialogues appraised again, by another user than the one who heard them: nothing is said anew."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rlver_gym.core.dialogue import Appraisal, Dialogue, clean_utterance
from rlver_gym.core.emotion import apply_change
from rlver_gym.core.user import AsyncSteps, Moment, ReadsAhead, ReadsDialogues, Scene, SentientUser
from rlver_gym.users import make_user
from rlver_gym.util.errors import UserFailed


class ReappraisedTurn(NamedTuple):
    """What the other user feels at an utterance, and the emotion that it moves to."""

    appraisal: Appraisal
    emotion: int


def reappraise(user: SentientUser, scene: Scene, recorded: Dialogue) -> Iterator[ReappraisedTurn]:
    """The user hears each utterance and answer, and keeps an emotion of its own, anew at an end."""
    card, emotion = scene.card, scene.card.start
    dialogue, turns = Dialogue(recorded.opening), _forget(recorded, emotion).turns
    if isinstance(user, ReadsAhead):
        places = (Dialogue(recorded.opening, turns[:at]) for at in range(len(turns)))
        told = zip(places, turns, strict=True)
        user.read_ahead([Moment(scene, emotion, at.with_utterance(x.utterance)) for at, x in told])
    for turn in turns:
        appraisal = user.appraise(scene, emotion, dialogue.with_utterance(turn.utterance))
        emotion = apply_change(emotion, appraisal.change)
        yield ReappraisedTurn(appraisal, emotion)
        dialogue = dialogue.with_turn(turn._replace(appraisal=appraisal, emotion=emotion))
        if card.is_end(emotion):
            emotion = card.start


async def areappraise(user: AsyncSteps, scene: Scene, recorded: Dialogue) -> list[ReappraisedTurn]:
    """The same by a user that can be waited for; one that reads dialogues whole does."""
    card, emotion, felt = scene.card, scene.card.start, []
    dialogue, turns = Dialogue(recorded.opening), _forget(recorded, emotion).turns
    whole = None
    if isinstance(user, ReadsDialogues):
        whole = iter(await user.aappraise_dialogue(scene, Dialogue(recorded.opening, turns)))
    for turn in turns:
        current = dialogue.with_utterance(turn.utterance)
        appraisal = next(whole) if whole else await user.aappraise(scene, emotion, current)
        emotion = apply_change(emotion, appraisal.change)
        felt.append(ReappraisedTurn(appraisal, emotion))
        dialogue = dialogue.with_turn(turn._replace(appraisal=appraisal, emotion=emotion))
        if card.is_end(emotion):
            emotion = card.start
    return felt


def _forget(recorded: Dialogue, start: int) -> Dialogue:
    """What was said and answered, and nothing of what was felt."""
    said = ((turn.utterance, turn.reply) for turn in recorded.turns)
    return Dialogue.of_words(recorded.opening, said, start)


def make_reference(user: str | SentientUser, **options: Any) -> SentientUser:
    return make_user(user, **options)


def reappraise_texts(
    user: SentientUser, scene: Scene, texts: Sequence[str]
) -> list[ReappraisedTurn] | None:
    """What the user feels from the first words until its own end; None when it fails."""
    card, (opening, *texts) = scene.card, texts
    words = (clean_utterance(text, card.max_utterance_chars, "truncate") for text in texts[::2])
    exchanges = zip(words, [*texts[1::2], ""], strict=False)
    recorded = Dialogue.of_words(opening, exchanges, card.start)
    felt: list[ReappraisedTurn] = []
    try:
        for turn in reappraise(user, scene, recorded):
            felt.append(turn)
            if card.is_end(turn.emotion):
                break
    except UserFailed:
        return None
    return felt
