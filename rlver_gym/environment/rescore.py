"""Dialogues appraised again, by another user than the one who heard them: nothing is said anew."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from rlver_gym.core.cards import EnvCard
from rlver_gym.core.dialogue import Dialogue, Turn, clean_utterance
from rlver_gym.core.emotion import Outcome, moved
from rlver_gym.core.library import library
from rlver_gym.core.user import Scene, SentientUser, is_async_user
from rlver_gym.io.errors import UserFailed
from rlver_gym.users import make_user

_AT_ONCE = 16
"""Dialogues under way with a user that waits for a server."""


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
        """It keeps an emotion of its own, and what follows its own end counts no more."""
        card = self._card
        scene = Scene(self._library.get(spoken.persona), card, spoken.seed)
        dialogue, emotion = Dialogue(spoken.texts[0]), card.start
        answers = [*spoken.texts[2::2], ""]
        for text, answer in zip(spoken.texts[1::2], answers, strict=False):
            words = clean_utterance(text, card.max_utterance_chars, "truncate")
            try:
                appraisal = self._user.appraise(scene, emotion, dialogue.with_utterance(words))
            except UserFailed:
                return None
            emotion = moved(emotion, appraisal.change)
            if card.outcome(emotion, 0) in (Outcome.CONTENT, Outcome.LEFT):
                break
            dialogue = dialogue.with_turn(Turn(words, appraisal, emotion, 0.0, None, answer))
        return emotion
