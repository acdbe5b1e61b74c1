"""Users that fail, for the tests of what becomes of the episode."""

from typing import Any

from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import UserFailed


class FailsInTurn(EmbeddedUser):
    """Raises an error in a turn; 0 for its first words. `times`: how often; None for ever."""

    def __init__(self, turn: int, error: Exception | None = None, times: int | None = None) -> None:
        super().__init__()
        self.turn = turn
        self.error = error or UserFailed("the server is away")
        self.left = times

    def open(self, scene: Any, emotion: Any) -> Any:
        self._fail_in(0)
        return super().open(scene, emotion)

    def appraise(self, scene: Any, emotion: Any, dialogue: Any) -> Any:
        self._fail_in(len(dialogue.turns) + 1)
        return super().appraise(scene, emotion, dialogue)

    def _fail_in(self, turn: int) -> None:
        if turn == self.turn and self.left != 0:
            self.left = None if self.left is None else self.left - 1
            raise self.error


class FailsAtOnce(FailsInTurn):
    """Finds no first words."""

    def __init__(self) -> None:
        super().__init__(0)


class FailsInSecondTurn(FailsInTurn):
    """Answers once."""

    def __init__(self) -> None:
        super().__init__(2)
