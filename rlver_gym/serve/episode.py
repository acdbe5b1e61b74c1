"""One episode of a server, and what answers say of it."""

from dataclasses import dataclass, field
from typing import Any

from rlver_gym.core.dialogue import Turn
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.info import PRIVILEGED, describe_turn, select_info
from rlver_gym.environment.session import EmpathySession
from rlver_gym.serve.messages import StepAnswer
from rlver_gym.serve.once import Once


@dataclass
class Episode:
    """One that has begun. Its state is the session's: a value that changes at the end of a turn."""

    id: str
    request_id: str
    session: EmpathySession
    last_used: float
    is_answering: bool = False
    steps: Once[StepAnswer] = field(default_factory=Once)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Those that were taken."""
        return self.session.dialogue.turns

    def describe(self, turn: Turn | None, *, privileged: bool) -> dict[str, Any]:
        """What answers say of it after this turn, or the opening (None); `privileged`: all."""
        session = self.session
        info = describe_turn(session, turn, 0)
        failed = session.outcome is Outcome.FAILED
        shown = info if privileged else select_info(info, "public", session.scene.card)
        hidden = {name: shown[name] for name in PRIVILEGED if name in shown}
        return {
            "episode_id": self.id,
            "env": session.scene.card.id,
            "persona": info["persona"],
            "scene_seed": session.scene.seed,
            "turn": info["turn"],
            "next_turn": None if session.outcome else info["turn"] + 1,
            "terminated": session.outcome is not None and not failed,
            "truncated": failed,
            "outcome": info["outcome"],
            "valid": info["valid"],
            "privileged": hidden or None,
        }
