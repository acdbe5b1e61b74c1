"""Appraise: what an utterance does to a person, every point as a reason. Pure."""

from rlver_gym.core.dialogue import Dialogue, Reason
from rlver_gym.core.ledger import Ledger, round_and_clip
from rlver_gym.core.persona import Disposition, Persona
from rlver_gym.users.embedded.chat import weigh_chat
from rlver_gym.users.embedded.english import weigh_reply
from rlver_gym.users.embedded.perception import perceive

_BIAS = {Disposition.NEGATIVE: -0.22, Disposition.PASSIVE: 0.187, Disposition.AVOIDANT: 0.042}
"""Points a turn by disposition: how far readers of rated replies differ from the mean."""
_CHALLENGING_GAIN = 0.65
"""What everything good counts for with difficulty "challenging"."""


def reasons_for(
    persona: Persona,
    emotion: int,
    dialogue: Dialogue,
    *,
    challenging: bool = False,
    is_chat: bool = False,
) -> tuple[Reason, ...]:
    """Why the emotion changes; the points add up to a whole number in [-10, 10] that keeps the
    emotion within [0, 100]. `is_chat`: they have an interest and no burden.
    """
    ledger = Ledger()
    gain = _CHALLENGING_GAIN if challenging else 1.0
    weigh = weigh_chat if is_chat else weigh_reply
    for code, points, note in weigh(perceive(persona, dialogue)):
        ledger.add(code, points * (gain if points > 0 else 1.0), note)
    disposition = persona.person.disposition
    ledger.add(f"temper:{disposition}", _BIAS[disposition], f"their nature: {disposition}")
    round_and_clip(ledger, emotion)
    return tuple(ledger.reasons)
