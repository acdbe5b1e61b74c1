"""Choices: what an either-or question offers. A pure function of the text; knows no card."""

import re

from rlver_gym.core.words import split_words
from rlver_gym.text.english.listen import Ask, Sentence

Alternatives = tuple[tuple[str, ...], ...]
"""The words of each thing that a question offers."""

_OR = re.compile(r",?\s+or\s+", re.IGNORECASE)
_AUX = r"(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|should|might)(?:n't)?"
_SUBJECT = r"(?:you|u|he|she|it|they|we|that|this|there)"
_FRONT = re.compile(
    rf"^(?:.*[,;:–—]\s*)?(?:(?:and|but|so|well|then)\s+)*(?:{_AUX}\s+(?:{_SUBJECT}\b\s*(?:think\b\s*)?)?)?",
    re.I,
)
"""What stands before the first alternative."""
_FILLER = re.compile(
    rf"^(?:(?:is|was|are|were) it\b|{_AUX}\s+{_SUBJECT}\b|it's|more|rather|just|only|mostly"
    r"|maybe)\s+",
    re.IGNORECASE,
)
_NO_CHOICE = re.compile(
    r"^(?:not|so|no|something|anything|anybody|anyone|whatever|what|whether|who|when|where|why|how"
    r"|am i|are we|have i|did i|should i|shall)\b|^(?:two|three|more|less)?\W*$",
    re.IGNORECASE,
)
"""What follows an "or" that offers nothing: "or not", "or so", "or am I wrong"."""
_NO_FIRST = re.compile(
    rf"\b(?:any|anyone|anybody|anything|ever|either)\b|\b{_AUX} there\b"
    r"|^(?:and |so |but )*(?:who|what|which|where|when|how)\b[^,;:–—]*$",
    re.IGNORECASE,
)
"""What stands before an "or" that offers nothing."""
HARM = re.compile(r"\b(?:kill|hurt|harm|cut|end)(?:ing)? (?:yourself|your life|it all)", re.I)
"""A question for danger, which is answered as that, whatever else it offers."""
_ASKS = frozenset({Ask.YES_NO, Ask.WHO, Ask.WHAT, Ask.WHERE, Ask.WHEN, Ask.HOW, Ask.ABOUT})
_MOST_WORDS = 12


def choices_in(sentence: Sentence) -> Alternatives:
    """What a question offers to choose between: two things or none."""
    text = sentence.text.rstrip("?!.\"'”’) ")
    found = list(_OR.finditer(text))
    if sentence.ask not in _ASKS or "?" not in sentence.text or not found:
        return ()
    left, right = text[: found[-1].start()], text[found[-1].end() :]
    if HARM.search(text) or _NO_CHOICE.match(right) or _NO_FIRST.search(left):
        return ()
    second = split_words(_FILLER.sub("", right))
    whole = split_words(left)
    first = split_words(_FILLER.sub("", _FRONT.sub("", left)))[-_MOST_WORDS:]
    if len(second) <= 3 and len(first) > len(second) + 3:
        first = first[-len(second) - 1 :]  # "Will you go with your mum or your dad?"
    if not first or not second or not whole or len(second) > _MOST_WORDS:
        return ()
    return first, second


def join_choices(text: str, sentences: tuple[Sentence, ...]) -> tuple[Sentence, ...]:
    """The sentences, those two as one that are an either-or: "Was he cross, or was he sad?"."""
    found: list[Sentence] = []
    plain = text.replace("’", "'").replace("‘", "'")
    for one in sentences:
        before = found[-1] if found else None
        if before is not None and Ask.YES_NO is before.ask is one.ask and before.text[-1] == "?":
            whole = re.search(
                rf"{re.escape(before.text[:-1])},?\s+or\s+{re.escape(one.text)}", plain
            )
            if whole and not HARM.search(whole.group()):
                found[-1] = before._replace(
                    text=whole.group(),
                    words=(*before.words, "or", *one.words),
                    asked=(*before.asked, "or", *one.asked),
                    feelings=(*before.feelings, *one.feelings),
                )
                continue
        found.append(one)
    return tuple(found)
