"""What a dialogue as a whole is judged on, beside the emotion."""

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
"""The file of a judged folder."""
