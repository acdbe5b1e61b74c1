"""React: which of the person's manners answers what a sentence does. Knows no lines."""

from rlver_gym.core.inquiries import Remark
from rlver_gym.users.embedded.speech.moment import Moment
from rlver_gym.util.yaml_file import load_yaml

_KNOWN: dict[str, dict] = load_yaml("rlver_gym.users.embedded.speech", "reactions.yaml")
REACTION_TO: dict[str, str] = _KNOWN["reaction_to"]
"""By remark, a field of `rlver_gym.core.persona.Manner`."""
ALONE, GENTLE, HURTING, _PLEASED = (
    frozenset(_KNOWN[name]) for name in ("alone", "gentle", "hurting", "pleased")
)
_REMARKS = frozenset(map(str, Remark))
_SURELY = 0.5
"""The probability from which a remark is taken for one that hurts."""
_WELCOME = 3
"""The change from which on advice is taken."""
_CHILLED = -3
"""The change from which on kind words are answered coldly."""


def find_substitute_manner(manner: str) -> str:
    """The manner that stands in for one that a card lacks."""
    return _KNOWN["stands_for"].get(manner, manner)


def classify_remark(moment: Moment, at: int) -> tuple[str, float] | None:
    """What the sentence at a place does most probably, besides asking."""
    for label, probability in moment.labels(at).ranked:
        if label in _REMARKS:
            return label, probability
    return None


def choose_reaction_manner(moment: Moment, at: int, least: float) -> str | None:
    """The manner that answers what a sentence does; None when that is less probable than `least`,
    or does not go with what it was worth to them.
    """
    remark = classify_remark(moment, at)
    if remark is None:
        return None
    label, probability = remark
    change = moment.appraisal.change
    if label in HURTING:
        return REACTION_TO[label] if probability >= _SURELY and change < 0 else None
    if probability < least:
        return None
    if label == "advise":
        return choose_advice_manner(change)
    manner = REACTION_TO[label]
    if manner == "confirmed" and change < 0:
        return "unconfirmed"
    if manner in _PLEASED and change < 0:
        return "cold" if change <= _CHILLED else None
    return manner


def choose_advice_manner(change: int) -> str:
    return "helped" if change >= _WELCOME else "pushed" if change <= _CHILLED else "suggested"


def score_reply_urgency(moment: Moment, at: int) -> float:
    """How much the sentence at a place asks to be replied to."""
    sentence, remark, worth = moment.heard.sentences[at], classify_remark(moment, at), 0.0
    if remark is not None:
        label, probability = remark
        worth = _KNOWN["weight_of"].get(label, 1.5) * min(1.0, probability + 0.3)
        if label in HURTING and moment.appraisal.change >= 0:
            worth = 0.5
    return worth + 0.8 * bool(sentence.feelings) + 1.0 * sentence.suggests
