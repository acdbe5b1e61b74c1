"""How a person types what they say: in lower case, a line a sentence, a few words at a time."""

import re
from collections.abc import Set

from rlver_gym.core.persona import Persona
from rlver_gym.core.words import split_sentences

_MOST_WORDS = 10
"""Of what somebody terse says, but for its first sentence."""
_I = re.compile(r"\bI\b(?!\.)")
_CAPITAL = re.compile(
    r"(?:I|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|January|February|March|April"
    r"|May|June|July|August|September|October|November|December)\b"
)


def apply_typing_style(persona: Persona, text: str) -> str:
    """A text as the person would type it; unchanged for those who write as their card does."""
    typing = persona.person.typing
    sentences = list(split_sentences(text))
    if typing in ("careful", "plain") or not sentences:
        return text
    names = {word for other in persona.situation.people for word in other.name.split()}
    if typing == "terse":
        sentences = _keep_first_sentences(sentences)
    return "\n".join(_type_sentence_carelessly(one, names) for one in sentences)


def _keep_first_sentences(sentences: list[str]) -> list[str]:
    kept, length = sentences[:1], len(sentences[0].split())
    for sentence in sentences[1:]:
        length += len(sentence.split())
        if length > _MOST_WORDS:
            break
        kept.append(sentence)
    return kept


def _type_sentence_carelessly(sentence: str, names: Set[str]) -> str:
    if not _CAPITAL.match(sentence) and re.split(r"\W", sentence, maxsplit=1)[0] not in names:
        sentence = sentence[:1].lower() + sentence[1:]
    return _I.sub("i", sentence.removesuffix("."))
