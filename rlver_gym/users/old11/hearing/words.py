"""What is known of English, by name: lists of words and patterns. Knows no card."""

import re

from rlver_gym.util.files import load_json
from rlver_gym.util.yaml_file import load_yaml

_LISTS: dict[str, str] = load_json("rlver_gym.users.embedded.hearing", "words.json")


def load_word_groups(name: str) -> list[list[str]]:
    """The groups of a list: words that mean the same, or pairs."""
    return [group.split() for group in _LISTS[name].split("|")]


def load_word_set(name: str) -> frozenset[str]:
    """A list as one set of words."""
    return frozenset(_LISTS[name].replace("|", " ").split())


def _load_patterns() -> dict[str, re.Pattern[str]]:
    data = load_yaml("rlver_gym.users.embedded.hearing", "patterns.yaml")

    def compile_(pattern: str | list[str], flags: int) -> re.Pattern[str]:
        text = pattern if isinstance(pattern, str) else "|".join(pattern)
        for name, fragment in data["fragments"].items():
            text = text.replace(f"{{{name}}}", fragment)
        return re.compile(text, flags)

    return {name: compile_(one, re.IGNORECASE) for name, one in data["any_case"].items()} | {
        name: compile_(one, 0) for name, one in data["case_sensitive"].items()
    }


PATTERNS = _load_patterns()
