"""The embedded user: a sentient user that needs no model and no network, and explains every
point.
"""

from pathlib import Path

from rlver_gym.core.dialogue import Appraisal, Dialogue, Reason
from rlver_gym.core.user import Scene
from rlver_gym.io.errors import UserFailed
from rlver_gym.users.embedded.appraise import reasons_for
from rlver_gym.users.embedded.speech import speak
from rlver_gym.users.embedded.weights import Weights, read_weights, shipped_weights

_VERSION = 11
"""One more whenever the same words would be felt or answered differently."""


class EmbeddedUser:
    """A deterministic appraisal of words: hear, fit, touch, temper, feel; then an answer from the
    persona's own cards.

    A pure function of persona, emotion, dialogue and seed, by weights that were measured: English
    on replies that readers rated from the person's place (research/corpus.md), Chinese on recorded
    dialogues. It reads words, not meaning: a score far above what strong honest agents reach should
    be read as exploitation.
    """

    kind = "embedded"

    def __init__(
        self,
        weights: Weights | str | Path | None = None,
        preset: str | None = None,
        *,
        gated: bool = True,
    ) -> None:
        """`weights`: measured weights or their file, for personas in the weights' language; None
        for the shipped ones. `preset`: whose level and dynamics, the weights' default unless given.
        `gated=False` opens the gates of measured weights, to measure what they cost: never for
        training. Raises CardError or UnknownName when they cannot be used.
        """
        self._gated = gated
        self._weights = (
            weights
            if isinstance(weights, Weights)
            else read_weights(Path(weights))
            if weights
            else None
        )
        self._preset = preset
        known = self._weights or (shipped_weights("zh") if preset else None)
        open_gates = "" if gated else "/ungated"
        self.version = (
            f"{_VERSION}{open_gates}"
            if known is None
            else f"{_VERSION}/{known.hash}/{known.preset(preset)[0]}{open_gates}"
        )

    def open(self, scene: Scene, emotion: int) -> str:
        """The situation's opening, in the tone of the emotion."""
        return speak.opening(scene, emotion)

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        """The change in points with its reasons, and a thought in the person's own words."""
        reasons = self._reasons(scene, emotion, dialogue)
        change = int(sum([reason.points for reason in reasons]))
        if not scene.persona.person.thoughts.touched:
            strongest = max(reasons, key=lambda reason: abs(reason.points), default=None)
            return Appraisal(change, strongest.note if strongest else "", reasons)
        return Appraisal(change, speak.thought(scene, dialogue, reasons, change), reasons)

    def _reasons(self, scene: Scene, emotion: int, dialogue: Dialogue) -> tuple[Reason, ...]:
        persona, weights = scene.persona, self._weights
        if weights is None or weights.language != persona.language:
            weights = shipped_weights(persona.language)
        named = self._weights.language if self._weights else "zh"
        preset = weights.preset(self._preset if weights.language == named else None)[1]
        challenging = scene.card.difficulty == "challenging"
        return reasons_for(
            weights,
            preset,
            persona,
            emotion,
            dialogue,
            challenging=challenging,
            gated=self._gated,
            is_chat=scene.card.is_chat,
        )

    def speak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
        """Reaction, disclosure and hint, or goodbye; UserFailed for a profile that has no lines to
        say.
        """
        if not scene.persona.situation.disclosures or scene.persona.language != "en":
            raise UserFailed(
                f"{scene.persona.id} is a profile without lines in English: the embedded user can"
                " appraise for it, not speak. Write a card, or use an LLM user."
            )
        return speak.answer(scene, emotion, dialogue, appraisal)
