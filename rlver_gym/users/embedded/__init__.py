"""The embedded user: a sentient user that needs no model and no network, and explains every point."""

from rlver_gym.dialogue import Appraisal, Dialogue
from rlver_gym.users.base import Scene
from rlver_gym.users.embedded import speak
from rlver_gym.users.embedded.appraise import reasons_for


class EmbeddedUser:
    """A deterministic appraisal of words: hear, fit, touch, temper, feel; then an answer from the persona's own cards.

    A pure function of persona, emotion, dialogue and seed. It reads words, not meaning: a score far above what strong
    honest agents reach should be read as exploitation.
    """

    kind = "embedded"
    version = "1"

    def open(self, scene: Scene, emotion: int) -> str:
        """The situation's opening, in the tone of the emotion."""
        return speak.opening(scene, emotion)

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        """The change in points with its reasons, and a thought in the person's own words."""
        reasons = reasons_for(scene.persona, emotion, dialogue, challenging=scene.card.difficulty == "challenging")
        change = int(sum(reason.points for reason in reasons))
        return Appraisal(change, speak.thought(scene, dialogue, reasons, change), reasons)

    def speak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
        """Reaction, disclosure and hint, or goodbye."""
        return speak.answer(scene, emotion, dialogue, appraisal)
