"""Feel: from points to a change that fits the scale."""

from rlver_gym.core.emotion import MAX_CHANGE, moved
from rlver_gym.users.embedded.ledger import Ledger


def settle(ledger: Ledger, emotion: int) -> None:
    """Round to whole points, keep the change within ±10 and the emotion within its scale; each as a reason."""
    total = ledger.total
    whole = int(abs(total) + 0.5) * (1 if total > 0 else -1)
    ledger.add("rounding", whole - total, "rounded to a whole point")
    clipped = max(-MAX_CHANGE, min(MAX_CHANGE, whole))
    ledger.add("limit", clipped - whole, f"one turn moves them by at most {MAX_CHANGE}")
    kept = moved(emotion, clipped) - emotion
    ledger.add("scale_end", kept - clipped, "the scale ends here")
