"""The alarm: runs that score above what honest agents reach, or whose replies are near-copies of each other. A suspicion with its evidence, never a verdict."""

from rlver_gym.anomaly.alarms import Alarm, Watch, alarms, unjudged, watch
from rlver_gym.anomaly.ceiling import AboveCeiling, Ceiling, ceiling
from rlver_gym.anomaly.copies import NearCopies, Said, near_copies

__all__ = [
    "AboveCeiling",
    "Alarm",
    "Ceiling",
    "NearCopies",
    "Said",
    "Watch",
    "alarms",
    "ceiling",
    "near_copies",
    "unjudged",
    "watch",
]
