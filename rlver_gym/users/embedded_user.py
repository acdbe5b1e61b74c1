"""The embedded user: a sentient user without a model or a network, that explains every point."""

from collections.abc import Sequence

from rlver_gym.core.dialogue import Appraisal, Dialogue, Reason
from rlver_gym.core.emotion import Band
from rlver_gym.core.ledger import Ledger, round_and_clip
from rlver_gym.core.persona import Disposition
from rlver_gym.core.user import Moment, Scene
from rlver_gym.users.embedded.appraise import appraise_moment, weigh_chat
from rlver_gym.users.embedded.compile import compile_card
from rlver_gym.users.embedded.recall import recall
from rlver_gym.users.embedded.speak import Speaker, choose_thought
from rlver_gym.users.embedded.wording import add_introductions, apply_typing_style
from rlver_gym.util.errors import UserFailed

# points a turn by disposition: how far readers of rated replies differ from the mean
_BIAS = {Disposition.NEGATIVE: -0.22, Disposition.PASSIVE: 0.187, Disposition.AVOIDANT: 0.042}
_CHALLENGING_GAIN = 0.65  # what everything good counts for with difficulty "challenging"


class EmbeddedUser:
    """A deterministic appraisal of English words: compile the card, hear, appraise, speak.

    A pure function of persona, emotion, dialogue and seed: a linear score of named inputs, fitted
    to replies that readers rated from the person's place (research/corpus.md), and rules that cost.
    It reads words, not meaning: a fixture for tests, smoke trainings and first looks, which hears
    bad from good, not good from better.
    """

    kind = "embedded"
    version = "13"  # one more whenever the same words would be felt or answered differently

    def open(self, scene: Scene, emotion: int) -> str:
        """The situation's opening, in the tone of the emotion."""
        situation = scene.persona.situation
        said = situation.openings.in_tone(Band.of(emotion).tone)
        return apply_typing_style(scene.persona, add_introductions(situation, said))

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        """The change with its reasons, and a thought. UserFailed for another language."""
        reasons = self._reasons(scene, emotion, dialogue)
        change = int(sum([reason.points for reason in reasons]))
        if scene.persona.person.thoughts.touched:
            return Appraisal(change, choose_thought(scene, dialogue, reasons), reasons)
        strongest = max(reasons, key=lambda reason: abs(reason.points), default=None)
        return Appraisal(change, strongest.note if strongest else "", reasons)

    def _reasons(self, scene: Scene, emotion: int, dialogue: Dialogue) -> tuple[Reason, ...]:
        persona, ledger, is_chat = scene.persona, Ledger(), scene.card.is_chat
        if persona.language != "en":
            raise UserFailed(
                f"{persona.id} speaks {persona.language!r}, and the {self.kind} user understands"
                " English alone. Other languages are for LLM users and replay: --user openai:MODEL."
            )
        gain = _CHALLENGING_GAIN if scene.card.difficulty == "challenging" else 1.0
        [moment] = recall([(compile_card(persona), dialogue)])
        parts = weigh_chat(moment) if is_chat else appraise_moment(moment, persona.need, gain)
        for code, points, note in parts:
            ledger.add(code, points * (gain if points > 0 else 1.0), note)
        disposition = persona.person.disposition
        ledger.add(f"temper:{disposition}", _BIAS[disposition], f"their nature: {disposition}")
        round_and_clip(ledger, emotion)
        return tuple(ledger.reasons)

    def appraise_many(self, moments: Sequence[Moment]) -> list[Appraisal]:
        """What was said at each of the moments."""
        self.hear_moments(moments)
        return [self.appraise(*moment) for moment in moments]

    def hear_moments(self, moments: Sequence[Moment]) -> None:
        """Hear what was said at each of the moments at once, and keep it with the dialogues."""
        english = [moment for moment in moments if moment.scene.persona.language == "en"]
        recall([(compile_card(scene.persona), dialogue) for scene, _, dialogue in english])

    def speak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
        """The person's answer. UserFailed for a profile that has no lines to say."""
        if not scene.persona.situation.disclosures:
            raise UserFailed(
                f"{scene.persona.id} is a profile without lines: the embedded user can appraise for"
                " it, not speak. Make a lean card of it (`rlver-gym personas import`) or use an LLM"
                " user."
            )
        [moment] = recall([(compile_card(scene.persona), dialogue)])
        dialogue.memory.now, dialogue.memory.before = moment.keep(), None
        return Speaker(scene, emotion, dialogue, appraisal, moment).reply()
