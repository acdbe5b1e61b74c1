"""React: which of the person's manners answers what a sentence does. Knows no lines."""

from rlver_gym.core.inquiries import Remark
from rlver_gym.users.embedded.speech.moment import Moment

REACTION_TO = {
    Remark.SYMPATHY: "sympathised", Remark.VALIDATE: "normalised", Remark.REFLECT: "seen",
    Remark.RETELL: "retold", Remark.PRAISE: "warmed", Remark.SIDE: "warmed",
    Remark.REASSURE: "reassured", Remark.BELITTLE: "belittled", Remark.CLICHE: "cold",
    Remark.ADVISE: "suggested", Remark.LISTEN: "invited", Remark.PERMIT: "given_time",
    Remark.CONFIDE: "confided", Remark.MOTIVE: "other_minds", Remark.REFRAME: "thinking",
    Remark.BLAME: "hurt", Remark.INSULT: "hurt", Remark.JOKE: "teased",
    Remark.SORRY: "apologised", Remark.THANKS: "thanked", Remark.GREET: "greets",
    Remark.BYE: "farewell", Remark.ENCOURAGE: "encouraged", Remark.EXPLAIN: "explained",
    Remark.OFFER: "offered", Remark.CHECK: "confirmed", Remark.MACHINE: "machine",
    Remark.OFFTOPIC: "puzzled",
}  # fmt: skip
"""By remark, a field of `rlver_gym.core.persona.Manner`."""
_STANDS_FOR = {
    "greets": "puzzled", "thanked": "cold", "apologised": "cold", "shouted": "hurt",
    "foreign": "puzzled", "silence": "puzzled", "farewell": "goodbye_content",
    "unknown": "puzzled", "not_yet": "cold", "seen": "heard", "retold": "heard",
    "sympathised": "heard", "normalised": "heard", "reassured": "cold", "belittled": "hurt",
    "invited": "asked", "given_time": "asked", "confided": "cold", "teased": "cold",
    "encouraged": "warmed", "explained": "thinking", "offered": "asked", "confirmed": "heard",
    "unconfirmed": "cold", "machine": "cold", "unsure": "thinking", "suggested": "thinking",
    "other_minds": "thinking",
}  # fmt: skip
"""Which older manner stands in where a card has none of a newer one."""
ALONE = frozenset({"hurt", "belittled", "greets", "farewell", "puzzled", "machine"})
"""Reactions after which nothing more is told."""
GENTLE = frozenset(
    """seen retold sympathised normalised warmed other_minds thinking invited given_time encouraged
    apologised""".split()
)
"""Reactions that may stand before a piece of the story."""
_PLEASED = frozenset(
    {"seen", "retold", "sympathised", "normalised", "warmed", "encouraged", "confirmed"}
)
"""Reactions of somebody whom it did good."""
HURTING = frozenset({Remark.INSULT, Remark.BLAME, Remark.BELITTLE})
_WEIGHT_OF = {
    Remark.INSULT: 5.0, Remark.BLAME: 4.0, Remark.BELITTLE: 3.5, Remark.ADVISE: 3.0,
    Remark.REFLECT: 3.0, Remark.MOTIVE: 2.8, Remark.REFRAME: 2.6, Remark.CONFIDE: 2.5,
    Remark.PRAISE: 2.4, Remark.SIDE: 2.4, Remark.VALIDATE: 2.2, Remark.MACHINE: 2.0,
    Remark.RETELL: 2.0,
}  # fmt: skip
"""How much a remark asks to be answered, beside others in the same utterance; 1.5 for the rest."""
_REMARKS = frozenset(map(str, Remark))
_SURELY = 0.5
"""The probability from which a remark is taken for one that hurts."""
_WELCOME = 3
"""The change from which on advice is taken."""
_CHILLED = -3
"""The change from which on kind words are answered coldly."""


def stands_for(manner: str) -> str:
    """The manner that stands in for one that a card lacks."""
    return _STANDS_FOR.get(manner, manner)


def remark_of(moment: Moment, at: int) -> tuple[Remark, float] | None:
    """What the sentence at a place does most probably, besides asking."""
    for label, probability in moment.labels(at).ranked:
        if label in _REMARKS:
            return Remark(label), probability
    return None


def reaction_to(moment: Moment, at: int, least: float) -> str | None:
    """The manner that answers what a sentence does; None when that is less probable than `least`,
    or does not go with what it was worth to them.
    """
    remark = remark_of(moment, at)
    if remark is None:
        return None
    label, probability = remark
    change = moment.appraisal.change
    if label in HURTING:
        return REACTION_TO[label] if probability >= _SURELY and change < 0 else None
    if probability < least:
        return None
    if label is Remark.ADVISE:
        return to_advice(change)
    manner = REACTION_TO[label]
    if manner == "confirmed" and change < 0:
        return "unconfirmed"
    if manner in _PLEASED and change < 0:
        return "cold" if change <= _CHILLED else None
    return manner


def to_advice(change: int) -> str:
    """The manner that answers advice which the card has no answer to."""
    return "helped" if change >= _WELCOME else "pushed" if change <= _CHILLED else "suggested"


def weigh_remark(moment: Moment, at: int) -> float:
    """How much the sentence at a place asks to be replied to."""
    sentence, remark, worth = moment.heard.sentences[at], remark_of(moment, at), 0.0
    if remark is not None:
        label, probability = remark
        worth = _WEIGHT_OF.get(label, 1.5) * min(1.0, probability + 0.3)
        if label in HURTING and moment.appraisal.change >= 0:
            worth = 0.5
    return worth + 0.8 * bool(sentence.feelings) + 1.0 * sentence.suggests
