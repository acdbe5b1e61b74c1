"""Wording: people are introduced when first named; a text is typed as its person types."""

import re

from rlver_gym.core.persona import Persona, Situation
from rlver_gym.core.words import content_stems, split_sentences, split_words
from rlver_gym.users.embedded.english import LEXICON, word_set
from rlver_gym.users.embedded.recall import Moment

_MOST_WORDS = 10  # of what somebody terse says, but for its first sentence
_I = re.compile(r"\bI\b(?!\.)")
_DATES = word_set("weekdays", "months") | {"i"}


def add_introductions(situation: Situation, text: str, moment: Moment | None = None) -> str:
    """The text with everybody introduced whom nobody has named; `moment`: None at the opening."""
    seen = moment.told_words.union(moment.heard.words) if moment else ()
    for other in situation.people:
        name, said = other.name, other.introduction
        if not said or name not in text:
            continue
        known = rf"(?i:{re.escape(said)})|{re.escape(name)}"  # with its introduction, or without
        pattern = re.compile(rf"(?<!\w)(?:{known})(?!\w)")
        word = (split_words(name) or ("",))[-1]
        if moment and word and (word in seen or LEXICON[word].token in moment.own):
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


def apply_typing_style(persona: Persona, text: str) -> str:
    """As the person types: in lower case, a line a sentence, few words; or as the card does."""
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
