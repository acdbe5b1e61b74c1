"""What a reply, or a dialogue as a whole, is judged on beside the emotion."""

from typing import Annotated

from pydantic import Field

from rlver_gym.util.frozen import JsonObject

DIMENSIONS = (
    "empathic_depth",
    "core_insight",
    "solution_crafting",
    "style_adaptability",
    "dialogue_guidance",
)
"""RLVER's five core capabilities (arXiv:2507.03112)."""
AXES = ("creativity", "empathy_orientation")
"""Of SAGE's social-cognition coordinate (arXiv:2505.02847): structured to creative, solution- to
empathy-oriented. Where somebody stands, not how good they are.
"""
JUDGED = (*DIMENSIONS, *AXES)
LOWEST, HIGHEST = 1, 5
JUDGEMENTS = "judgements.jsonl"


Level = Annotated[int, Field(ge=0, le=4)]


class Factors(JsonObject):
    """What explains how a reply feels, in the rubric's words: 0 not at all, 4 wholly."""

    understood: Level
    about: Level
    gives: Level
    human: Level
    pressure: Level
    false: Annotated[int, Field(ge=0, le=1)]
    """1 where it says what is not so."""


FACTORS = tuple(Factors.model_fields)
