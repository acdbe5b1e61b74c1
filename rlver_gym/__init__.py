"""rlver-gym: a Gymnasium environment for training and testing empathetic agents against a sentient user.

`gym.make("RLVER-Empathy-v0")` after importing this package; every public name is listed in `__all__` and loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.envs.registration import WrapperSpec

from rlver_gym._version import __version__
from rlver_gym.shipped import shipped_cards

if TYPE_CHECKING:  # loaded by __getattr__ when first used, so that importing the package is free
    from rlver_gym.agents import make_agent
    from rlver_gym.cards import EnvCard, env_card
    from rlver_gym.dialogue import Appraisal, Dialogue, Message, Reason, Turn
    from rlver_gym.env import EmpathyEnv
    from rlver_gym.errors import RlverError
    from rlver_gym.library import PersonaLibrary
    from rlver_gym.persona import HiddenNeed, Persona
    from rlver_gym.session import EmpathySession
    from rlver_gym.users import make_user
    from rlver_gym.vector_env import EmpathyVectorEnv

__all__ = [
    "Appraisal",
    "Dialogue",
    "EmpathyEnv",
    "EmpathySession",
    "EmpathyVectorEnv",
    "EnvCard",
    "HiddenNeed",
    "Message",
    "Persona",
    "PersonaLibrary",
    "Reason",
    "RlverError",
    "Turn",
    "__version__",
    "env_card",
    "make_agent",
    "make_user",
    "register_envs",
]
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


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"rlver_gym.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rlver_gym' has no attribute {name!r}")


def register_envs() -> None:
    """Register every shipped env card with Gymnasium, and the strategy view. Done once, when the package is imported."""
    for path in shipped_cards("envs").iterdir():
        env_id = path.name.removesuffix(".yaml")
        if path.name.endswith(".yaml") and env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point="rlver_gym.env:EmpathyEnv",
                vector_entry_point="rlver_gym.vector_env:EmpathyVectorEnv",
                kwargs={"card": env_id},
            )
    if "RLVER-Strategy-v0" not in gym.registry:
        gym.register(
            "RLVER-Strategy-v0",
            entry_point="rlver_gym.env:EmpathyEnv",
            additional_wrappers=(
                WrapperSpec("StrategyAction", "rlver_gym.wrappers:StrategyAction", {}),
                WrapperSpec("TalkFeatures", "rlver_gym.wrappers:TalkFeatures", {"turns": None, "emotion": None}),
            ),
            kwargs={"card": "RLVER-Empathy-v0"},
        )


register_envs()
