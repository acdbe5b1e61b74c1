"""React: which of the person's manners answers what a sentence does, or the words themselves.

Knows no lines.
"""

from collections.abc import Sequence

from rlver_gym.conversation.parse import Act, ParsedUtterance
from rlver_gym.conversation.sentences import Sentence
from rlver_gym.core.dialogue import Reason
from rlver_gym.core.inquiries import Remark

REACTION_TO = {
    Remark.SYMPATHY: "sympathised",
    Remark.VALIDATE: "normalised",
    Remark.REFLECT: "seen",
    Remark.RETELL: "retold",
    Remark.PRAISE: "warmed",
    Remark.SIDE: "warmed",
    Remark.REASSURE: "reassured",
    Remark.BELITTLE: "belittled",
    Remark.CLICHE: "cold",
    Remark.ADVISE: "suggested",
    Remark.LISTEN: "invited",
    Remark.PERMIT: "given_time",
    Remark.CONFIDE: "confided",
    Remark.MOTIVE: "other_minds",
    Remark.REFRAME: "thinking",
    Remark.BLAME: "hurt",
    Remark.INSULT: "hurt",
    Remark.JOKE: "teased",
    Remark.SORRY: "apologised",
    Remark.THANKS: "thanked",
    Remark.GREET: "greets",
    Remark.BYE: "farewell",
    Remark.ENCOURAGE: "encouraged",
    Remark.EXPLAIN: "explained",
    Remark.OFFER: "offered",
    Remark.CHECK: "confirmed",
    Remark.MACHINE: "machine",
    Remark.OFFTOPIC: "puzzled",
}
_WEIGHT_OF = {
    Remark.INSULT: 5.0,
    Remark.BLAME: 4.0,
    Remark.BELITTLE: 3.5,
    Remark.ADVISE: 3.0,
    Remark.REFLECT: 3.0,
    Remark.MOTIVE: 2.8,
    Remark.REFRAME: 2.6,
    Remark.CONFIDE: 2.5,
    Remark.PRAISE: 2.4,
    Remark.SIDE: 2.4,
    Remark.VALIDATE: 2.2,
    Remark.MACHINE: 2.0,
    Remark.RETELL: 2.0,
}
"""How much a remark asks to be answered, beside others in the same utterance; 1.5 for the rest."""
_HURTING = frozenset({Remark.INSULT, Remark.BLAME, Remark.BELITTLE})
_HURTING_ACTS = ("act:insult", "act:blame", "act:threat", "act:minimise")
ALONE = frozenset({"hurt", "belittled", "greets", "farewell", "puzzled", "machine"})
"""Reactions after which nothing more is told."""
GENTLE = frozenset(
    "seen retold sympathised normalised warmed other_minds thinking invited given_time encouraged"
    " apologised".split()
)
"""Reactions that may stand before a piece of the story."""
YOU_WORDS = frozenset({"you", "you're", "your", "yourself", "u", "ur"})
_OWN = frozenset({"i", "i'm", "i've", "i'd", "my", "me"})
_FELT = frozenset(
    """sounds sound must feel feels felt feeling seem seems are you're be been imagine guess so
    hear""".split()
)
_DENIED = frozenset({"not", "isn't", "don't", "doesn't", "aren't", "never", "no", "because", "if"})
_GUESS = 16
"""Words of a sentence that guesses a feeling, at most."""
_REMARKED = 0.3
"""The probability from which a remark is reacted to."""
_SURELY = 0.5
"""That from which it is taken for something that hurts, or a question for advice."""
_ASKED = 0.6
"""That from which a sentence without the form of a question asks."""
_OF_FORM = {"repeated": ("copying", "repetition"), "puzzled": ("nonsense", "foreign", "broken")}
"""Reasons that stand for themselves, whatever the words do, by the manner that answers them."""
_LEAST = 2.5
"""Points that such a reason must have cost."""
_ELSEWHERE = ("elsewhere", "strangers")
_ELSEWHERE_LEAST = 2.0
_APOLOGY = 30
"""Words of an utterance that is an apology and nothing more, at most."""


def manner_of_act(parsed: ParsedUtterance, is_content: bool) -> str | None:
    """The manner that answers an act done with the words themselves, whatever is felt; None when
    there is none.
    """
    for act in (Act.SILENCE, Act.COMMAND, Act.FOREIGN, Act.SHOUTS, Act.FAREWELL):
        if act in parsed.acts:
            return "puzzled" if act is Act.COMMAND else act.value
    if Act.INSULTS in parsed.acts and not parsed.questions:
        return Act.INSULTS.value
    if Act.APOLOGISES in parsed.acts and parsed.word_count <= _APOLOGY and not parsed.questions:
        return Act.APOLOGISES.value
    if is_content or parsed.questions:
        return None
    for act in (Act.GREETS, Act.THANKS):
        if act in parsed.acts:
            return act.value
    return None


def manner_of_form(reasons: Sequence[Reason]) -> str | None:
    """The manner that answers words that say nothing of their own: no language, or the same again;
    None for others.
    """
    for code, points, _ in reasons:
        for manner, codes in _OF_FORM.items():
            if points <= -_LEAST and code.partition("/")[0] in codes:
                return manner
    return None


def is_about_others(reasons: Sequence[Reason]) -> bool:
    """Whether an utterance was felt to be about somebody else's story."""
    return (
        sum(points for code, points, _ in reasons if code.partition("/")[0] in _ELSEWHERE)
        <= -_ELSEWHERE_LEAST
    )


def asks(sentence: Sentence) -> bool:
    """Whether a sentence asks for an answer."""
    if sentence.suggests:
        return False
    label, probability = sentence.classification.ranked[0]
    if sentence.question is not None:
        return label != Remark.ADVISE or probability < _SURELY
    return label not in REACTION_TO and probability >= _ASKED and len(sentence.words) >= 3


def suggests(sentence: Sentence) -> bool:
    """Whether a sentence suggests to do something."""
    remark = sentence.remark
    return sentence.suggests or (
        remark is not None and remark[0] is Remark.ADVISE and remark[1] >= _REMARKED
    )


def guesses_a_feeling(sentence: Sentence) -> bool:
    """Whether a sentence says that the person may have a feeling, and not much else."""
    words = frozenset(sentence.words)
    return (
        len(sentence.words) <= _GUESS
        and not words.isdisjoint(_FELT)
        and words.isdisjoint(_DENIED)
        and not (sentence.words[0] in _OWN and YOU_WORDS.isdisjoint(words))
    )


def reaction(sentence: Sentence, reasons: Sequence[Reason], least: float = _REMARKED) -> str | None:
    """The manner that answers what a sentence does; None when that is less probable than `least`.

    What hurts must have cost something too.
    """
    if sentence.remark is None:
        return None
    label, probability = sentence.remark
    if label in _HURTING and not (probability >= _SURELY and _hurts(reasons)):
        return None
    return REACTION_TO[label] if probability >= least else None


def sentence_to_react_to(sentences: Sequence[Sentence], reasons: Sequence[Reason]) -> Sentence:
    """The sentence that asks most to be replied to."""
    return max(sentences, key=lambda sentence: _weight(sentence, reasons))


def _weight(sentence: Sentence, reasons: Sequence[Reason]) -> float:
    worth = 0.0
    if sentence.remark is not None:
        label, probability = sentence.remark
        worth = _WEIGHT_OF.get(label, 1.5) * min(1.0, probability + 0.3)
        if label in _HURTING and not _hurts(reasons):
            worth = 0.5
    return worth + 0.8 * bool(sentence.feelings) + 1.0 * sentence.suggests


def _hurts(reasons: Sequence[Reason]) -> bool:
    return any(points < 0 and code.startswith(_HURTING_ACTS) for code, points, _ in reasons)
