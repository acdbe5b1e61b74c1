"""Dialogues appraised again, by another user than the one who heard them: nothing is said anew."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from rlver_gym.core.cards import EnvCard
from rlver_gym.core.dialogue import Appraisal, Dialogue, Turn, clean_utterance
from rlver_gym.core.emotion import Outcome, moved
from rlver_gym.core.library import library
from rlver_gym.core.user import Scene, SentientUser, is_async_user
from rlver_gym.users import make_user
from rlver_gym.util.errors import UserFailed

_AT_ONCE = 16
"""Dialogues under way with a user that waits for a server."""


class Felt(NamedTuple):
    """What the other user feels at an utterance, and the emotion that it moves to."""

    appraisal: Appraisal
    emotion: int


def reappraise(
    user: SentientUser, scene: Scene, opening: str, exchanges: Iterable[tuple[str, str]]
) -> Iterator[Felt]:
    """The user hears each utterance and the recorded answer, is shown no recorded score and keeps
    an emotion of its own. What is said after its own end is appraised at the start emotion.
    """
    card, dialogue, emotion = scene.card, Dialogue(opening), scene.card.start
    for utterance, answer in exchanges:
        appraisal = user.appraise(scene, emotion, dialogue.with_utterance(utterance))
        emotion = moved(emotion, appraisal.change)
        yield Felt(appraisal, emotion)
        dialogue = dialogue.with_turn(Turn(utterance, appraisal, emotion, 0.0, None, answer))
        if _ends(card, emotion):
            emotion = card.start


def final_emotion(card: EnvCard, felt: Iterable[Felt]) -> int:
    """The emotion at the other user's own end, after which nothing more is asked for; else the
    last.
    """
    emotion = card.start
    for _, emotion in felt:
        if _ends(card, emotion):
            break
    return emotion


def _ends(card: EnvCard, emotion: int) -> bool:
    return card.outcome(emotion, 0) in (Outcome.CONTENT, Outcome.LEFT)


class SpokenDialogue(NamedTuple):
    """The words of a dialogue, and with whom."""

    persona: str
    seed: int
    texts: Sequence[str]
    """The person's first words, and so on in turn."""


class Rescorer:
    """A user that appraises what was said to another one."""

    def __init__(
        self,
        card: EnvCard,
        user: str | SentientUser,
        personas: str | None = None,
        **options: Any,
    ) -> None:
        """`personas`: the folder of the persona cards; None for the shipped ones. Raises what
        `make_user` raises.
        """
        self._card, self._library = card, library(personas)
        self._user = make_user(user, **options)

    def score(self, dialogues: Sequence[SpokenDialogue]) -> list[int | None]:
        """The final emotion of each dialogue; None for one at which the user failed."""
        at_once = _AT_ONCE if is_async_user(self._user) else 1
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(self._score_one, dialogues))

    def _score_one(self, spoken: SpokenDialogue) -> int | None:
        card, (opening, *texts) = self._card, spoken.texts
        scene = Scene(self._library.get(spoken.persona), card, spoken.seed)
        words = (clean_utterance(text, card.max_utterance_chars, "truncate") for text in texts[::2])
        exchanges = zip(words, [*texts[1::2], ""], strict=False)
        try:
            return final_emotion(card, reappraise(self._user, scene, opening, exchanges))
        except UserFailed:
            return None
