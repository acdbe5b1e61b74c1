"""The types of what pages may ask. What they hold is checked before anything is done."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from rlver_gym.core.cards import MAX_TURNS
from rlver_gym.core.emotion import MAX_CHANGE, MAX_EMOTION, MIN_EMOTION
from rlver_gym.core.persona import check_printable_text

Name = Annotated[str, StringConstraints(max_length=5_000)]
Words = Annotated[str, StringConstraints(max_length=20_000)]
Rater = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=60, pattern=r"^[^/\\\n]+$"),
    AfterValidator(check_printable_text),
]
Change = Annotated[int, Field(ge=-MAX_CHANGE, le=MAX_CHANGE)]
TurnNumber = Annotated[int, Field(ge=1, le=MAX_TURNS)]
NoteTurn = Annotated[int, Field(ge=0, le=MAX_TURNS)]
"""0 is the dialogue as a whole."""
Seed = Annotated[int, Field(ge=0, le=10**9)]
Final = Annotated[int, Field(ge=MIN_EMOTION, le=MAX_EMOTION)]
Natural = Annotated[int, Field(ge=1, le=7)]
Fit = Annotated[int, Field(ge=0, le=2)]
"""Whether the person's answer responds to what was said: 2 yes, 1 partly, 0 not at all."""
Thought = Annotated[str, StringConstraints(max_length=400)]
FalseWords = Annotated[str, StringConstraints(max_length=1_000)]
