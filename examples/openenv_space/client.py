"""The client, for OpenEnv's own tools, which look for it here."""

from rlver_gym.integrations.openenv import EmpathyAction, EmpathyClient, EmpathyObservation

__all__ = ["EmpathyAction", "EmpathyClient", "EmpathyObservation"]
