"""The benchmark's agents with people of the train split, for a model that cannot speak yet."""

from collections.abc import Iterator, Sequence

import numpy as np

from rlver_gym.agents import make_agent
from rlver_gym.core.agent import Agent, turn_of
from rlver_gym.core.cards import DEFAULT_ENV, env_card
from rlver_gym.core.dialogue import Message
from rlver_gym.corpora.demonstrations import Demonstration
from rlver_gym.environment.rollout import run_episode
from rlver_gym.environment.session import EmpathySession
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser

AGENTS = ("comfort", "advice", "strategy:listen", "strategy:reflect_feeling")
"""Who speaks unless others are named: half say the same to anyone, half listen."""
_PLANS = {
    "comfort": "They hurt. I comfort them.",
    "advice": "They are stuck. I advise them.",
    "strategy:listen": "They want to be heard. I ask.",
    "strategy:reflect_feeling": "They want to be felt. I name it.",
}
"""What these agents might have thought: what the person wants, and what to do."""


def write_plan_before_reply(agent: str) -> str:
    return _PLANS.get(agent, "What do they need to hear?")


class _MixedAgent:
    """Lets one of several agents reply in each turn, as it was drawn before."""

    def __init__(self, agents: Sequence[Agent], speaker_N: np.ndarray) -> None:
        self._agents, self._speaker_N = agents, speaker_N

    def reply(self, messages: Sequence[Message]) -> str:
        return self._agents[self._speaker_N[turn_of(messages)]].reply(messages)


def generate_demonstrations(
    agents: Sequence[str], count: int, seed: int = 0
) -> Iterator[Demonstration]:
    """`count` dialogues, each reply by one of the named agents, drawn by lot."""
    card, user, cards = env_card(DEFAULT_ENV), EmbeddedUser(), library()
    people = cards.ids("train")
    rng = np.random.default_rng(seed)
    number_D = rng.permutation(count)
    speaker_DN = rng.integers(len(agents), size=(count, card.turns))

    for number, speaker_N in zip(map(int, number_D), speaker_DN, strict=True):
        persona = cards.get(people[number % len(people)])
        speakers = [make_agent(name, persona, seed=number) for name in agents]
        session = EmpathySession(user, persona, card, seed=number)
        run_episode(session, _MixedAgent(speakers, speaker_N))
        lines: list[Message] = list(session.dialogue.messages())
        replies = tuple(line.text for line in lines if line.speaker == "agent")
        yield Demonstration(
            tuple(line.text for line in lines[:-1] if line.speaker == "user"),
            replies,
            tuple(
                write_plan_before_reply(agents[at]) for at in map(int, speaker_N[: len(replies)])
            ),
        )
