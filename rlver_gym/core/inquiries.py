"""What supporters ask about any story, ask of another person in it, and do without asking: the
vocabulary of cards and of the recogniser. `inquiries.yaml` has the names with examples. Knows no
card.
"""

from enum import StrEnum

from rlver_gym.io.yaml_file import load_yaml

EXAMPLES: dict[str, dict[str, str]] = load_yaml("rlver_gym.core", "inquiries.yaml")
"""By kind and name: what people say for it; for a feeling, the words that name it."""

Inquiry = StrEnum("Inquiry", {name.upper(): name for name in EXAMPLES["inquiry"]})
"""What is asked of a person, whatever their story."""
InquiryAboutOther = StrEnum(
    "InquiryAboutOther", {name.upper(): name for name in EXAMPLES["about_other"]}
)
"""What is asked about somebody else of the story."""
Remark = StrEnum("Remark", {name.upper(): name for name in EXAMPLES["remark"]})
"""What a supporter does in a sentence that asks nothing."""
Feeling = StrEnum("Feeling", {name.upper(): name for name in EXAMPLES["feeling"]})
"""A feeling that a supporter may name."""

PERSONAL_INQUIRIES = frozenset(map(Inquiry, ("talk", "rest", "safe")))
"""Asked of the person rather than of their story: the person's card answers first."""
