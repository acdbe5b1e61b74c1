"""rlver-gym: a Gymnasium environment for training and testing empathetic agents against a sentient
user.

`gym.make("RLVER-Empathy-v0")` after importing this package; every public name is listed in
`__all__` and loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.envs.registration import WrapperSpec

from rlver_gym.util import __version__, shipped_cards

if TYPE_CHECKING:  # loaded by __getattr__ when first used, so that importing the package is free
    from rlver_gym.agents import make_agent
    from rlver_gym.core.cards import EnvCard, env_card
    from rlver_gym.core.dialogue import Appraisal, Dialogue, Message, Reason, Turn
    from rlver_gym.core.persona import HiddenNeed, Persona
    from rlver_gym.core.user import Scene
    from rlver_gym.environment.env import EmpathyEnv
    from rlver_gym.environment.session import EmpathySession
    from rlver_gym.environment.vector_env import EmpathyVectorEnv
    from rlver_gym.library.personas import PersonaLibrary
    from rlver_gym.users import make_user
    from rlver_gym.util.errors import RlverError

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
    "Scene",
    "Turn",
    "__version__",
    "env_card",
    "make_agent",
    "make_user",
    "register_envs",
]
_HOMES = {
    "Appraisal": "core.dialogue",
    "Dialogue": "core.dialogue",
    "EmpathyEnv": "environment.env",
    "EmpathySession": "environment.session",
    "EmpathyVectorEnv": "environment.vector_env",
    "EnvCard": "core.cards",
    "HiddenNeed": "core.persona",
    "Message": "core.dialogue",
    "Persona": "core.persona",
    "PersonaLibrary": "library.personas",
    "Reason": "core.dialogue",
    "RlverError": "util.errors",
    "Scene": "core.user",
    "Turn": "core.dialogue",
    "env_card": "core.cards",
    "make_agent": "agents",
    "make_user": "users",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"rlver_gym.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rlver_gym' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def register_envs() -> None:
    """Register every shipped env card with Gymnasium, and the strategy view.

    Done once, when the package is imported.
    """
    # Gymnasium's checker calls a failed reset done, and its error at the next step costs a turn.
    for path in shipped_cards("envs").iterdir():
        env_id = path.name.removesuffix(".yaml")
        if path.name.endswith(".yaml") and env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point="rlver_gym.environment.make:make_env",
                vector_entry_point="rlver_gym.environment.vector_env:EmpathyVectorEnv",
                disable_env_checker=True,
                kwargs={"card": env_id},
            )
    if "RLVER-Strategy-v0" not in gym.registry:
        gym.register(
            "RLVER-Strategy-v0",
            entry_point="rlver_gym.environment.make:make_env",
            additional_wrappers=(
                WrapperSpec(
                    "StrategyAction", "rlver_gym.environment.strategy_env:StrategyAction", {}
                ),
                WrapperSpec(
                    "TalkFeatures",
                    "rlver_gym.environment.strategy_env:TalkFeatures",
                    {"turns": None, "emotion": None},
                ),
            ),
            disable_env_checker=True,
            kwargs={"card": "RLVER-Empathy-v0"},
        )


register_envs()
