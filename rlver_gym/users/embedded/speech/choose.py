"""Choose: which of several lines is said, by seed, persona, turn and what the agent said: the same on every machine."""

import hashlib
from collections.abc import Sequence

from rlver_gym.core.user import Scene


def _number(scene: Scene, turn: int, purpose: str, words: Sequence[str]) -> int:
    key = f"{scene.seed}/{scene.persona.id}/{turn}/{purpose}/{' '.join(words[:20])}"
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")


def draw(scene: Scene, turn: int, purpose: str, words: Sequence[str]) -> float:
    """A number in [0, 1)."""
    return _number(scene, turn, purpose, words) / 2**64


def choose(scene: Scene, turn: int, purpose: str, words: Sequence[str], lines: Sequence[str]) -> str:
    """One of the lines."""
    return lines[_number(scene, turn, purpose, words) % len(lines)]
