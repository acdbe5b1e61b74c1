"""What verifiers and prime-rl import for the id `rlver-empathy`: they look for a module of that
name. See rlver_gym.integrations.verifiers.
"""

# pyright: reportMissingImports=false
# (verifiers is an extra, and the types are checked without it, too)

from rlver_gym.integrations.verifiers import ChatHarness, EmpathyDialogueEnv, EmpathyTaskset

__all__ = ["ChatHarness", "EmpathyDialogueEnv", "EmpathyTaskset"]
