"""What supporters ask about any story, ask of another person in it, and do without asking: the
vocabulary of cards and of the recogniser. `inquiries.yaml` has the names with examples. Knows no
card.
"""

from enum import StrEnum

from rlver_gym.util.yaml_file import load_yaml

EXAMPLES: dict[str, dict[str, str]] = load_yaml("rlver_gym.core", "inquiries.yaml")
"""By kind and name: what people say for it; for a feeling, the words that name it."""


def _make_enum_members(kind: str) -> dict[str, str]:
    return {name.upper(): name for name in EXAMPLES[kind]}


class Inquiry(StrEnum):
    """What is asked of a person, whatever their story."""

    locals().update(_make_enum_members("inquiry"))


class InquiryAboutOther(StrEnum):
    """What is asked about somebody else of the story."""

    locals().update(_make_enum_members("about_other"))


class Feeling(StrEnum):
    """A feeling that a supporter may name."""

    locals().update(_make_enum_members("feeling"))


PERSONAL_INQUIRIES = frozenset(map(Inquiry, ("talk", "rest", "safe")))
"""Asked of the person rather than of their story: the person's card answers first."""
