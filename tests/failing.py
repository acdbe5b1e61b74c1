"""Users that fail, for the tests of what becomes of the episode."""

from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import UserFailed


class FailsInTurn(EmbeddedUser):
    """Raises an error in a turn (0: first words), so often (None: for ever), with these people."""

    def __init__(self, turn, error=None, times=None, personas=None):
        super().__init__()
        self.turn = turn
        self.error = error or UserFailed("the server is away")
        self.left = times
        self.personas = personas

    def open(self, scene, emotion):
        self._fail_in(0, scene)
        return super().open(scene, emotion)

    def appraise(self, scene, emotion, dialogue):
        self._fail_in(len(dialogue.turns) + 1, scene)
        return super().appraise(scene, emotion, dialogue)

    def _fail_in(self, turn, scene):
        is_met = self.personas is None or scene.persona.id in self.personas
        if turn == self.turn and self.left != 0 and is_met:
            self.left = None if self.left is None else self.left - 1
            raise self.error


class FailsAtOnce(FailsInTurn):
    def __init__(self):
        super().__init__(0)


class FailsInSecondTurn(FailsInTurn):
    def __init__(self):
        super().__init__(2)
