"""The prompts: words in files, one a language, filled with plain text.

Knows no persona and no request.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from string import Template
from typing import Annotated, Literal, get_args

from pydantic import StringConstraints

from rlver_gym.core.languages import Language
from rlver_gym.core.persona import Disposition, HiddenNeed
from rlver_gym.util.field_errors import parse_card
from rlver_gym.util.frozen import Frozen
from rlver_gym.util.yaml_file import parse_yaml

LANGUAGES: tuple[Language, ...] = get_args(Language)
_LOW_BELOW, _HIGH_FROM = 35, 65


class Words(Frozen):
    """The texts of a language: its prompts, and the short ones that they are filled with."""

    prompts: Mapping[str, str]
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
    took_up_line: str
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
    """The prompt with its $names replaced, once: a value that itself holds a $name stays as it is.
    KeyError when one is missing.
    """
    return Template(words(language).prompts[name]).substitute(values).strip()


@lru_cache(maxsize=2 * len(LANGUAGES))
def words(language: Language, *, is_chat: bool = False) -> Words:
    """The short texts of a language; `is_chat`: for people who bring an interest, not a story."""
    name = f"{language}.yaml"
    usual = parse_card(Words, parse_yaml(_text(language), name), name)
    chat = {"needs": usual.chat, "reached_by": usual.chat_reached_by}
    changed = {field: dict.fromkeys(HiddenNeed, text) for field, text in chat.items()}
    return usual.model_copy(update=changed) if is_chat else usual


@lru_cache(maxsize=1)
def prompts_hash() -> str:
    """SHA-256 over the files of all languages, in hex."""
    return hashlib.sha256("\0".join(map(_text, LANGUAGES)).encode()).hexdigest()


def _text(language: Language) -> str:
    path = files("rlver_gym.users.llm") / "prompts" / f"{language}.yaml"
    return path.read_text(encoding="utf-8").replace("\r\n", "\n")
