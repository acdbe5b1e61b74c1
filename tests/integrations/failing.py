"""A user that fails, for the tests of what becomes of its episode."""

from typing import Any

from rlver_gym.io.errors import UserFailed
from rlver_gym.users import EmbeddedUser


class FailsInTurn(EmbeddedUser):
    """Raises an error in a turn; 0 for its first words."""

    def __init__(self, turn: int, error: Exception | None = None) -> None:
        super().__init__()
        self.turn = turn
        self.error = error or UserFailed("the server is away")

    def open(self, scene: Any, emotion: Any) -> Any:
        if self.turn == 0:
            raise self.error
        return super().open(scene, emotion)

    def appraise(self, scene: Any, emotion: Any, dialogue: Any) -> Any:
        if len(dialogue.turns) + 1 == self.turn:
            raise self.error
        return super().appraise(scene, emotion, dialogue)
