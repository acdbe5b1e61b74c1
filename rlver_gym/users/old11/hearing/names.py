"""Names: people of the story are introduced when they are first mentioned.

Pure; what was said is read from the text.
"""

import re
from typing import NamedTuple

from rlver_gym.core.persona import Situation
from rlver_gym.core.words import content_stems, split_sentences
from rlver_gym.util.frozen import Memo, cache_by_identity


class Introduction(NamedTuple):
    """Somebody's name and how they are introduced."""

    name: str
    text: str
    """With the name in it: "my neighbour Judith"."""
    name_pattern: re.Pattern[str]
    introduction_pattern: re.Pattern[str]
    about: frozenset[str]
    """The stems of the introduction without the name: who says one of them beside the name has
    introduced them.
    """


class Introductions:
    """The introductions of a story, and what lines are without them."""

    def __init__(self, situation: Situation) -> None:
        self.each = _compile_introductions(situation)
        self.remove = Memo(self._remove, 1_000).__getitem__
        """The text as the card has it: introductions are names again."""

    def _remove(self, text: str) -> str:
        for one in self.each:
            if one.name in text:
                text = one.introduction_pattern.sub(one.name, text)
        return text


@cache_by_identity
def compile_introductions(situation: Situation) -> Introductions:
    return Introductions(situation)


def _compile_introductions(situation: Situation) -> tuple[Introduction, ...]:
    return tuple(
        Introduction(
            other.name,
            other.introduction,
            re.compile(rf"(?<!\w){re.escape(other.name)}(?!\w)"),
            re.compile(rf"(?<!\w){re.escape(other.introduction)}(?!\w)", re.IGNORECASE),
            content_stems(other.introduction) - content_stems(other.name),
        )
        for other in situation.people
        if other.introduction and other.introduction != other.name
    )


def add_introductions(situation: Situation, text: str, earlier_text: str) -> str:
    """The text with everybody introduced whose name is not in `earlier_text`, what either side has
    said so far.
    """
    for one in compile_introductions(situation).each:
        if one.name not in text:
            continue
        if one.name_pattern.search(earlier_text):
            text = one.introduction_pattern.sub(one.name, text)
            continue
        found = one.name_pattern.search(text)
        if found and not _introduces_itself(one, text, found.start()):
            begins = found.start() == 0 or text[: found.start()].rstrip('"“‘ ')[-1:] in (
                ".",
                "!",
                "?",
                "…",
                "",
            )
            introduction = one.text[0].upper() + one.text[1:] if begins else one.text
            text = text[: found.start()] + introduction + text[found.end() :]
    return text


def _introduces_itself(one: Introduction, text: str, at: int) -> bool:
    start = 0
    for sentence in split_sentences(text):
        start = text.index(sentence, start)
        if start <= at < start + len(sentence):
            return not one.about or not one.about.isdisjoint(content_stems(sentence))
        start += len(sentence)
    return False


def remove_introductions(situation: Situation, text: str) -> str:
    """The text as the card has it: introductions are names again."""
    return compile_introductions(situation).remove(text)
