"""Anomaly checks: runs that score above what honest agents reach, or whose replies are near-copies of each other. A suspicion with its evidence, never a verdict."""

from rlver_gym.anomaly.alarms import Alert, AnomalyReport, check_episodes, explain_missing_bounds, find_alerts
from rlver_gym.anomaly.ceiling import AboveBound, ScoreBound, compute_score_bound
from rlver_gym.anomaly.copies import AgentReply, NearCopies, find_near_copies

__all__ = [
    "AboveBound",
    "AgentReply",
    "Alert",
    "AnomalyReport",
    "NearCopies",
    "ScoreBound",
    "check_episodes",
    "compute_score_bound",
    "explain_missing_bounds",
    "find_alerts",
    "find_near_copies",
]
