"""The adaptive agent: infers the hidden need from what the user says, and answers to that. No
privileged information.

It learned what each need sounds like from the hints of the train personas; the people it is tested
on are strangers to it.
"""

from collections.abc import Sequence

from rlver_gym.agents.needs import get_need_reader
from rlver_gym.agents.phrases import PHRASES
from rlver_gym.agents.strategies import Strategy, compose_utterance
from rlver_gym.core.agent import NonBlocking, turn_of, user_lines
from rlver_gym.core.dialogue import Message
from rlver_gym.core.persona import HiddenNeed


class Adaptive(NonBlocking):
    """Listens until a need shows, then takes up what this person said in the way that need asks
    for.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def reply(self, messages: Sequence[Message]) -> str:
        """One utterance about what was said, in the manner of the inferred need."""
        turn = turn_of(messages)
        need, lead = get_need_reader().need(user_lines(messages))
        if not turn or lead < 1.0:
            need = HiddenNeed.LISTENING
        strategy = Strategy[PHRASES["meets"][need].upper()]
        return compose_utterance(strategy, messages, turn + self.seed)
