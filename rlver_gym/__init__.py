"""rlver-gym: a Gymnasium environment for training and testing empathetic agents against a sentient user.

`gym.make("RLVER-Empathy-v0")` after importing this package; every public name is listed in `__all__` and loaded when first used.
"""

from importlib import import_module
from typing import Any

import gymnasium as gym

from rlver_gym._version import __version__

_HOMES = {
    "Appraisal": "dialogue",
    "Dialogue": "dialogue",
    "EmpathyEnv": "env",
    "EmpathySession": "session",
    "EmpathyVectorEnv": "vector_env",
    "EnvCard": "cards",
    "HiddenNeed": "persona",
    "Message": "dialogue",
    "Persona": "persona",
    "PersonaLibrary": "library",
    "Reason": "dialogue",
    "RlverError": "errors",
    "Turn": "dialogue",
    "env_card": "cards",
    "make_agent": "agents",
    "make_user": "users",
}
__all__ = ["__version__", "register_envs", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"rlver_gym.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rlver_gym' has no attribute {name!r}")


def register_envs() -> None:
    """Register every shipped env card with Gymnasium. Done once, when the package is imported."""
    from importlib.resources import files

    for path in files("rlver_gym.envs").iterdir():
        env_id = path.name.removesuffix(".yaml")
        if path.name.endswith(".yaml") and env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point="rlver_gym.env:EmpathyEnv",
                vector_entry_point="rlver_gym.vector_env:EmpathyVectorEnv",
                kwargs={"card": env_id},
            )


register_envs()
