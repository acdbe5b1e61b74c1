"""What the shipped agents say, and when, as `phrases.yaml` has it."""

from typing import Any

from rlver_gym.util.yaml_file import load_yaml

PHRASES: dict[str, Any] = load_yaml("rlver_gym.agents", "phrases.yaml")
"""By what a supporter can do, stock phrases for it; the tables that choose among them."""
