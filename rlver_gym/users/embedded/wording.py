"""Wording: people of the story are introduced when they are first named, and a text is typed as its
person types. Pure.
"""

import re
from typing import NamedTuple

from rlver_gym.core.persona import Persona, Situation
from rlver_gym.core.words import content_stems, split_sentences, split_words
from rlver_gym.users.embedded.english import get_token
from rlver_gym.users.embedded.recall import Moment
from rlver_gym.util.frozen import cache_by_identity

_MOST_WORDS = 10
"""Of what somebody terse says, but for its first sentence."""
_I = re.compile(r"\bI\b(?!\.)")
_CAPITAL = re.compile(
    r"(?:I|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|January|February|March|April"
    r"|May|June|July|August|September|October|November|December)\b"
)


class Introduction(NamedTuple):
    """Somebody's name and how they are introduced."""

    name: str
    word: str
    """The last of the name's words, in lower case."""
    text: str
    """With the name in it: "my neighbour Judith"."""
    name_pattern: re.Pattern[str]
    text_pattern: re.Pattern[str]
    about: frozenset[str]
    """The stems of the introduction without the name: a sentence with one of them beside the name
    introduces them by itself.
    """


@cache_by_identity
def compile_introductions(situation: Situation) -> tuple[Introduction, ...]:
    return tuple(
        Introduction(
            other.name,
            split_words(other.name)[-1],
            other.introduction,
            re.compile(rf"(?<!\w){re.escape(other.name)}(?!\w)"),
            re.compile(rf"(?<!\w){re.escape(other.introduction)}(?!\w)", re.IGNORECASE),
            content_stems(other.introduction) - content_stems(other.name),
        )
        for other in situation.people
        if other.introduction and other.introduction != other.name
    )


def add_introductions(situation: Situation, text: str, moment: Moment | None = None) -> str:
    """The text with everybody introduced whom neither side has named so far; `moment`: None at the
    opening.
    """
    for other in compile_introductions(situation):
        if other.name not in text:
            continue
        if moment is not None and _was_named(moment, other.word):
            text = other.text_pattern.sub(other.name, text)
            continue
        named = other.name_pattern.search(text)
        if named is None:
            continue
        start, end = named.span()
        before = text[:start].rstrip('"“‘ ')
        if not _introduces_itself(other, text, start):
            begins = before[-1:] in (".", "!", "?", "…", "\n", "")
            said = other.text[0].upper() + other.text[1:] if begins else other.text
            text = text[:start] + said + text[end:]
    return text


def _was_named(moment: Moment, word: str) -> bool:
    past, heard = moment.past, moment.heard
    return word in past.told_words or word in heard.words or get_token(word) in past.own


def _introduces_itself(other: Introduction, text: str, at: int) -> bool:
    start = 0
    for sentence in split_sentences(text):
        start = text.index(sentence, start)
        if start <= at < start + len(sentence):
            return not other.about or not other.about.isdisjoint(content_stems(sentence))
        start += len(sentence)
    return False


def apply_typing_style(persona: Persona, text: str) -> str:
    """A text as the person would type it: in lower case, a line a sentence, a few words at a time;
    unchanged for those who write as their card does.
    """
    typing = persona.person.typing
    sentences = list(split_sentences(text)) if typing in ("quick", "terse") else []
    if not sentences:
        return text
    names = {word for other in persona.situation.people for word in other.name.split()}
    if typing == "terse":
        length = 0
        for at, sentence in enumerate(sentences):
            length += len(sentence.split())
            if at and length > _MOST_WORDS:
                del sentences[at:]
                break
    for at, sentence in enumerate(sentences):
        if not _CAPITAL.match(sentence) and re.split(r"\W", sentence, maxsplit=1)[0] not in names:
            sentence = sentence[:1].lower() + sentence[1:]
        sentences[at] = _I.sub("i", sentence.removesuffix("."))
    return "\n".join(sentences)
