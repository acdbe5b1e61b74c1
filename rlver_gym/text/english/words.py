"""Lists of words of the language, by name. Knows no card."""

from rlver_gym.io.files import load_json

_LISTS: dict[str, str] = load_json("rlver_gym.text", "english/words.json")


def groups_of(name: str) -> list[list[str]]:
    """The groups of a list: words that mean the same, or pairs."""
    return [group.split() for group in _LISTS[name].split("|")]


def words_of(name: str) -> frozenset[str]:
    """A list as one set of words."""
    return frozenset(_LISTS[name].replace("|", " ").split())
