"""The prompts: words in files, a folder a language, filled with plain text.

Knows no persona and no request.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from string import Template
from typing import Annotated, Literal

from pydantic import StringConstraints

from rlver_gym.core.library import parse_card
from rlver_gym.core.persona import Disposition, HiddenNeed
from rlver_gym.util.frozen import Frozen
from rlver_gym.util.yaml_file import parse_yaml

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
_LOW_BELOW, _HIGH_FROM = 35, 65
_FILES = ("who", "appraise", "speak", "both", "open", "form_json", "form_text", "ask", "repair")


class Words(Frozen):
    """The short texts of a language that prompts are filled with."""

    needs: Mapping[HiddenNeed, str]
    """What each hidden need is."""
    named: Mapping[HiddenNeed, tuple[str, ...]]
    """Phrases that would name it; no reply may hold them."""
    never_said: tuple[str, ...]
    """What no person says, whatever they need."""
    dispositions: Mapping[Disposition, str]
    difficulty: Mapping[Literal["moderate", "challenging"], str]
    hints: Mapping[Literal["moderate", "challenging"], str]
    """How much of the need may show."""
    chat: str
    """What the need is of somebody who wants to talk about an interest, and how they are."""
    chat_reached_by: str
    joint: str
    """What stands between the two halves of a mood."""
    reached_by: Mapping[HiddenNeed, str]
    """What reaches somebody with this need, and what does not."""
    moods: Mapping[Annotated[str, StringConstraints(pattern=r"^\d{1,3}$")], str]
    """How they stand to the talk, by the lowest emotion of each level."""
    manners: Mapping[Disposition, Mapping[Literal["low", "middle", "high"], str]]
    """How that shows in such a person."""
    withheld: str
    """What stands in a record for words that were not meant for a person."""
    labels: Mapping[str, str]
    """The labels of labelled lines, by field."""
    but: str
    """How the form says that the change is a number."""
    and_told: str
    """How the form says that the ids are a list."""
    change_line: str
    told_line: str
    meant_for_line: str
    rest_of_line: str
    unreadable: Mapping[str, str]
    """What is wrong with an answer, by code."""

    def mood(self, emotion: int, disposition: Disposition) -> str:
        """The mood in words: how they stand to this talk, and how it shows in such a person.

        Never what they feel, which the appraisal says.
        """
        level = max((level for level in self.moods if int(level) <= emotion), key=int)
        zone = "low" if emotion < _LOW_BELOW else "high" if emotion >= _HIGH_FROM else "middle"
        return f"{self.moods[level]}{self.joint}{self.manners[disposition][zone]}"


def fill_prompt(language: Language, name: str, **values: str) -> str:
    """The prompt file with its $names replaced, once: a value that itself holds a $name stays as it
    is. KeyError when one is missing.
    """
    return Template(_text(language, f"{name}.md")).substitute(values).strip()


@lru_cache(maxsize=4)
def words(language: Language, *, is_chat: bool = False) -> Words:
    """The short texts of a language; `is_chat`: for people who bring an interest, not a story."""
    name = f"{language}/words.yaml"
    usual = parse_card(Words, parse_yaml(_text(language, "words.yaml"), name), name)
    chat = {"needs": usual.chat, "reached_by": usual.chat_reached_by}
    changed = {field: dict.fromkeys(HiddenNeed, text) for field, text in chat.items()}
    return usual.model_copy(update=changed) if is_chat else usual


@lru_cache(maxsize=1)
def prompts_hash() -> str:
    """SHA-256 over every prompt file, in hex."""
    names = [*(f"{name}.md" for name in _FILES), "words.yaml"]
    texts = [_text(language, name) for language in LANGUAGES for name in names]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


@lru_cache(maxsize=64)
def _text(language: Language, name: str) -> str:
    return (
        (files("rlver_gym.users.llm") / "prompts" / language / name)
        .read_text(encoding="utf-8")
        .replace("\r\n", "\n")
    )
