"""Whose life a story of a library can be part of."""

import re

from pydantic import Field

from rlver_gym.core.lean import LibraryPerson, Story
from rlver_gym.core.persona import MAX_LINES, Line

_NOT = "not "


class LibraryStory(Story):
    """A story with what the card of whoever lived it must say of their work and home."""

    work: tuple[Line, ...] = Field(default=(), max_length=MAX_LINES)
    """Groups of alternatives, such as "nurse|care assistant": one of each stands in the person's
    `work`, and none of a group that begins with "not ".
    """
    home: tuple[Line, ...] = Field(default=(), max_length=MAX_LINES)
    """The same of the person's `home`: "UK|Ireland", "not flat|narrowboat"."""


def explain_misfit(person: LibraryPerson, story: LibraryStory) -> str | None:
    """Why a story cannot be a person's; None when it can."""
    if misfit := person.explain_misfit(story):
        return misfit
    for field in ("work", "home"):
        said = getattr(person, field) or ""
        for group in getattr(story, field):
            if _stands(group.removeprefix(_NOT), said) == group.startswith(_NOT):
                return f"the {field} of {person.name} is {said!r}, the story is for {group!r}"
    return None


def _stands(group: str, said: str) -> bool:
    """Whether one of the alternatives stands there, as whole words."""
    return any(re.search(rf"\b{re.escape(one)}\b", said, re.IGNORECASE) for one in group.split("|"))
