"""What a tiny model learns to speak from: dialogues of the benchmark's agents with people of the
training split.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from rlver_gym.agents import make_agent
from rlver_gym.core.agent import Agent, turn_of
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Message
from rlver_gym.core.library import library
from rlver_gym.core.words import sentences
from rlver_gym.data.demonstrations import Demonstration
from rlver_gym.environment.ray_rollout import rollout_on_ray
from rlver_gym.environment.rollout import run_episode
from rlver_gym.environment.session import EmpathySession
from rlver_gym.export.word_substitution import content_words, draw_word, replace_words
from rlver_gym.users import EmbeddedUser

AGENTS = ("comfort", "advice", "strategy:listen", "strategy:reflect_feeling")
"""Who speaks in demonstrations unless others are named: what most say to anyone, and what one says
who listens, half and half.
"""
_PLANS = {
    "comfort": "They hurt. I comfort them.",
    "advice": "They are stuck. I advise them.",
    "strategy:listen": "They want to be heard. I ask.",
    "strategy:reflect_feeling": "They want to be felt. I name it.",
}
"""What these agents might have thought: what the person wants, and what to do."""
_NO_PLAN = "What do they need to hear?"
RunDialogues = Callable[[Iterator[tuple[EmpathySession, Agent]]], Iterable[EmpathySession]]
"""Runs dialogues to their ends and gives them in the same order, as `rollout` does."""


class _MixedAgent:
    """Lets one of several agents reply in each turn, as it was drawn before."""

    def __init__(self, agents: Sequence[Agent], speaker_N: np.ndarray) -> None:
        self._agents, self._speaker_N = agents, speaker_N

    def reply(self, messages: Sequence[Message]) -> str:
        return self._agents[self._speaker_N[turn_of(messages)]].reply(messages)


def run_here(dialogues: Iterator[tuple[EmpathySession, Agent]]) -> Iterator[EmpathySession]:
    """Run them in this process, one after the other."""
    return itertools.starmap(run_episode, dialogues)


def run_on_ray(address: str, workers: int | None = None) -> RunDialogues:
    """What runs them on a Ray cluster; see `rollout_on_ray`."""
    return partial(rollout_on_ray, address=address, workers=workers)


def agent_demonstrations(
    agents: Sequence[str], count: int, seed: int = 0, run: RunDialogues = run_here
) -> Iterator[Demonstration]:
    """`count` dialogues, each reply by one of the named agents, drawn by lot; what the last reply
    was answered is left out. They are the same whatever runs them.

    Whoever learns from them says now this, now that to the same person, and can find out which does
    them good.
    """
    card, user, cards = env_card("RLVER-Empathy-v0"), EmbeddedUser(), library()
    people = cards.ids("train")
    rng = np.random.default_rng(seed)
    number_D = rng.permutation(count)
    speaker_DN = rng.integers(len(agents), size=(count, card.turns))

    def draw() -> Iterator[tuple[EmpathySession, Agent]]:
        for number, speaker_N in zip(map(int, number_D), speaker_DN, strict=True):
            persona = cards.get(people[number % len(people)])
            speakers = [make_agent(name, persona, seed=number) for name in agents]
            session = EmpathySession(user, persona, card, seed=number)
            yield session, _MixedAgent(speakers, speaker_N)

    for session, speaker_N in zip(run(draw()), speaker_DN, strict=True):
        lines: list[Message] = list(session.dialogue.messages())
        replies = tuple(one.text for one in lines if one.speaker == "agent")
        yield Demonstration(
            tuple(one.text for one in lines[:-1] if one.speaker == "user"),
            replies,
            tuple(_PLANS.get(agents[at], _NO_PLAN) for at in map(int, speaker_N[: len(replies)])),
        )


def demonstrations_for_small(
    agents: Sequence[str], count: int, share: float, seed: int = 0, run: RunDialogues = run_here
) -> Iterator[Demonstration]:
    """`agent_demonstrations`, a `share` of them with sentences patched together, and a share with
    words exchanged, so that a small model learns to repeat and not to recite.
    """
    yield from substitute_words(
        splice_sentences(agent_demonstrations(agents, count, seed, run), agents, share, seed),
        share,
        seed,
    )


def splice_sentences(
    originals: Iterable[Demonstration], agents: Sequence[str], share: float, seed: int = 0
) -> Iterator[Demonstration]:
    """The demonstrations, a `share` of them with people whose sentences nobody ever said: the front
    of one and the back of another, answered by the agents anew. They must know of people only what
    they are told: the oracle would speak of somebody else.

    Where only words are exchanged, a small model knows sixty people's sentences again by their
    little words, and garbles those of strangers.
    """
    known = list(originals)
    pool = sorted(
        {
            sentence
            for demonstration in known
            for line in demonstration.users
            for sentence in sentences(line)
        }
    )
    people, rng = library(), np.random.default_rng(seed)
    for number, demonstration in enumerate(known):
        if rng.random() >= share:
            yield demonstration
            continue
        somebody = people.get(people.ids("train")[0])
        speakers = [make_agent(name, somebody, seed=number) for name in agents]
        said: list[Message] = []
        plans = []
        for line in demonstration.users:
            said.append(
                Message(
                    "user", " ".join(_with_another_end(part, pool, rng) for part in sentences(line))
                )
            )
            speaker = int(rng.integers(len(speakers)))
            said.append(Message("agent", speakers[speaker].reply(tuple(said))))
            plans.append(_PLANS.get(agents[speaker], _NO_PLAN))
        yield Demonstration(
            tuple(one.text for one in said[::2]),
            tuple(one.text for one in said[1::2]),
            tuple(plans),
        )


def _with_another_end(sentence: str, pool: Sequence[str], rng: np.random.Generator) -> str:
    front, back = sentence.split(), pool[int(rng.integers(len(pool)))].split()
    return " ".join(front[: rng.integers(1, len(front) + 1)] + back[rng.integers(len(back)) :])


def substitute_words(
    originals: Iterable[Demonstration], share: float, seed: int = 0
) -> Iterator[Demonstration]:
    """The demonstrations, a `share` of them with the person's content words exchanged for others
    wherever they are said in the dialogue.
    """
    known = list(originals)
    vocabulary = find_substitutable_words(known)
    rng = np.random.default_rng(seed)
    for demonstration in known:
        yield (
            _substitute_words(demonstration, vocabulary, rng)
            if rng.random() < share
            else demonstration
        )


def find_substitutable_words(known: Sequence[Demonstration]) -> list[str]:
    """The words that people say and agents do not unless they heard them."""
    own = {word for demonstration in known for word in _iterate_own_words(demonstration)}
    return sorted(
        {
            word
            for demonstration in known
            for line in demonstration.users
            for word in content_words(line)
        }
        - own
    )


def _substitute_words(
    demonstration: Demonstration, vocabulary: Sequence[str], rng: np.random.Generator
) -> Demonstration:
    heard = {word for line in demonstration.users for word in content_words(line)}
    instead = {word: draw_word(vocabulary, rng) for word in vocabulary if word in heard}
    users, replies = (
        tuple(replace_words(line, instead) for line in lines) for lines in demonstration[:2]
    )
    return demonstration._replace(users=users, replies=replies)


def _iterate_own_words(demonstration: Demonstration) -> Iterator[str]:
    """The words that the agent said without having heard them."""
    heard: set[str] = set()
    for line, reply in zip(demonstration.users, demonstration.replies, strict=True):
        heard.update(content_words(line))
        yield from (word for word in content_words(reply) if word not in heard)
