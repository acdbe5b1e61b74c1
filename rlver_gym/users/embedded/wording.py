"""Wording: people of the story are introduced when they are first named, and a text is typed as its
person types. Pure.
"""

import re
from functools import lru_cache

from rlver_gym.core.persona import Persona, Situation
from rlver_gym.core.words import content_stems, split_sentences, split_words
from rlver_gym.users.embedded.english import get_token, word_set
from rlver_gym.users.embedded.recall import Moment

_MOST_WORDS = 10
"""Of what somebody terse says, but for its first sentence."""
_I = re.compile(r"\bI\b(?!\.)")
_DATES = word_set("weekdays") | word_set("months") | {"i"}


@lru_cache(maxsize=2_048)
def _compile_name(name: str, introduction: str) -> re.Pattern[str]:
    """A name, with or without the introduction around it."""
    return re.compile(rf"(?<!\w)(?:(?i:{re.escape(introduction)})|{re.escape(name)})(?!\w)")


def add_introductions(situation: Situation, text: str, moment: Moment | None = None) -> str:
    """The text with everybody introduced whom neither side has named so far, and nobody twice;
    `moment`: None at the opening.
    """
    for other in situation.people:
        name, said = other.name, other.introduction
        if not said or name not in text:
            continue
        pattern = _compile_name(name, said)
        if moment is not None and _was_named(moment, split_words(name)[-1]):
            text = pattern.sub(name, text)
            continue
        named = pattern.search(text)
        if named is None or len(named.group()) > len(name):
            continue
        start, end = named.span()
        before = re.split(r"(?<=[.!?…\n])", text[:start])[-1]
        after = re.split(r"[.!?…\n]", text[end:], maxsplit=1)[0]
        about = content_stems(said) - content_stems(name)
        if about.isdisjoint(content_stems(before + after)):  # else "Judith is my neighbour"
            said = said if before.strip(' "“‘') else said[0].upper() + said[1:]
            text = text[:start] + said + text[end:]
    return text


def _was_named(moment: Moment, word: str) -> bool:
    past, heard = moment.past, moment.heard
    return word in past.told_words or word in heard.words or get_token(word) in past.own


def apply_typing_style(persona: Persona, text: str) -> str:
    """A text as the person would type it: in lower case, a line a sentence, a few words at a time;
    unchanged for those who write as their card does.
    """
    if persona.person.typing not in ("quick", "terse"):
        return text
    names = {word for other in persona.situation.people for word in other.name.split()}
    typed, length = [], 0
    for sentence in split_sentences(text):
        length += len(sentence.split())
        if typed and length > _MOST_WORDS and persona.person.typing == "terse":
            break
        first = re.split(r"\W", sentence, maxsplit=1)[0]
        if first.lower() not in _DATES and first not in names:
            sentence = sentence[:1].lower() + sentence[1:]
        typed.append(_I.sub("i", sentence.removesuffix(".")))
    return "\n".join(typed) or text
