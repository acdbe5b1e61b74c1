"""rlver-gym as an OpenEnv environment."""

from rlver_gym.integrations.openenv import EmpathyAction, EmpathyClient, EmpathyObservation

__all__ = ["EmpathyAction", "EmpathyClient", "EmpathyObservation"]
