"""The red team: what a learner would find or a person would try, to be paid without having helped."""

from rlver_gym.redteam.attacks import FIXED_ATTACKS, Attack
from rlver_gym.redteam.run import AttackResult, redteam
from rlver_gym.redteam.search import SEARCH_ATTACKS

__all__ = ["FIXED_ATTACKS", "SEARCH_ATTACKS", "Attack", "AttackResult", "redteam"]
