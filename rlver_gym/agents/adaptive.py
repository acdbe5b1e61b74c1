"""The adaptive agent: infers the hidden need from what the user says, and answers to that. No
privileged information.

It learned what each need sounds like from the hints of the train personas; the people it is tested
on are strangers to it.
"""

from collections.abc import Sequence

from rlver_gym.agents.needs import get_need_reader
from rlver_gym.agents.strategies import Strategy, compose_utterance
from rlver_gym.core.agent import NonBlocking, turn_of, user_lines
from rlver_gym.core.dialogue import Message
from rlver_gym.core.persona import HiddenNeed

_MEETS = {
    HiddenNeed.PRAISE: Strategy.PRAISE,
    HiddenNeed.NOT_AT_FAULT: Strategy.TAKE_SIDE,
    HiddenNeed.DEEP_EMPATHY: Strategy.REFLECT_FEELING,
    HiddenNeed.LISTENING: Strategy.LISTEN,
    HiddenNeed.MOTIVES: Strategy.MOTIVES,
    HiddenNeed.BALANCED_VIEW: Strategy.OTHER_SIDE,
    HiddenNeed.REFLECTION: Strategy.INVITE_REFLECTION,
    HiddenNeed.PRACTICAL_ADVICE: Strategy.SUGGEST,
}


class Adaptive(NonBlocking):
    """Listens until a need shows, then takes up what this person said in the way that need asks
    for.
    """

    def __init__(self, seed: int = 0) -> None:
        """`seed` shifts the phrasing."""
        self.seed = seed

    def reply(self, messages: Sequence[Message]) -> str:
        """One utterance about what was said, in the manner of the inferred need."""
        turn = turn_of(messages)
        need, lead = get_need_reader().need(user_lines(messages))
        if not turn or lead < 1.0:
            need = HiddenNeed.LISTENING
        return compose_utterance(_MEETS[need], messages, turn + self.seed)
