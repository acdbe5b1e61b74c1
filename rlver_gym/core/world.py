"""Worlds: how the same people differ from one environment to another, as numbers of an env card."""

from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from rlver_gym.util.frozen import Frozen

Move = Literal[
    "mood_reversal", "escalation", "gaslighting", "fact_against_feeling", "flooding", "pressure",
    "flattery_trap",
]  # fmt: skip
"""What a person does of their own accord, whatever was said to them."""
MOVES: tuple[Move, ...] = get_args(Move)


class World(Frozen):
    """Beside the usual: what the person takes in, what they show, and what they do."""

    rules: Literal[2] = 2
    """How a world adds to what is felt: a change of rewards makes another card of each."""
    topic: Literal["story", "interests"] = "story"
    """What they talk about: what happened to them, or something that they like."""
    warming: float = Field(default=1.0, ge=0, le=2)
    """Acceptance: what gains of emotion are multiplied by."""
    cooling: int = Field(default=0, ge=0, le=5)
    """Points that every turn costs."""
    expression: float = Field(default=1.0, ge=0, le=1)
    """The share of replies in which they say what they have to say, and do not stay short."""
    rupture: int | None = Field(default=None, ge=-10, le=-1)
    """A change of emotion, in points, at or below which they withdraw; None: they never do."""
    retreat: int = Field(default=2, ge=1, le=8)
    """Turns for which who has withdrawn says next to nothing, unless something brings them back."""
    moves: tuple[Move, ...] = ()
    """What they may do; each is drawn at most once a dialogue while there are others."""
    slots: tuple[tuple[int, int], ...] = Field(default=(), max_length=8)
    """For each move, between which of their replies (from 1, both included) it comes."""

    @model_validator(mode="after")
    def _moves_have_their_place(self) -> Self:
        if bool(self.moves) != bool(self.slots):
            raise ValueError("moves and slots go together: name both, or neither")
        last = 0
        for low, high in self.slots:
            if not last < low <= high:
                raise ValueError("slots must rise and not overlap, such as [[1, 2], [3, 4]]")
            last = high
        return self
