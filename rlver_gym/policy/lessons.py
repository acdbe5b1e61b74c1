"""What a warm start learns from: dialogues of the benchmark's agents with people of the training split."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rlver_gym.agents import make_agent
from rlver_gym.cards import env_card
from rlver_gym.dialogue import Message
from rlver_gym.library import library
from rlver_gym.policy.exchange import another, content_words, with_others
from rlver_gym.session import EmpathySession
from rlver_gym.users import EmbeddedUser
from rlver_gym.words import sentences

AGENTS = ("comfort", "advice", "strategy:listen", "strategy:reflect_feeling")
"""Who speaks in lessons unless others are named: what most say to anyone, and what one says who listens, half and half."""
_PLANS = {
    "comfort": "They hurt. I comfort them.",
    "advice": "They are stuck. I advise them.",
    "strategy:listen": "They want to be heard. I ask.",
    "strategy:reflect_feeling": "They want to be felt. I name it.",
}
"""What these agents might have thought: what the person wants, and what to do."""
_NO_PLAN = "What do they need to hear?"


class Lesson(NamedTuple):
    """What was said in a dialogue, line by line: the person begins, the agent ends."""

    users: tuple[str, ...]
    replies: tuple[str, ...]
    plans: tuple[str, ...]
    """What the agent may have thought before each reply; only a policy that thinks learns it."""


def lessons(agents: Sequence[str], count: int, seed: int = 0) -> Iterator[Lesson]:
    """`count` dialogues, each reply by one of the named agents, drawn by lot; what the last reply was answered is left out.

    Whoever learns from them says now this, now that to the same person, and can find out which does them good.
    """
    card, user, cards = env_card("RLVER-Empathy-v0"), EmbeddedUser(), library()
    people = cards.ids("train")
    rng = np.random.default_rng(seed)
    for number in map(int, rng.permutation(count)):
        persona = cards.get(people[number % len(people)])
        speakers = [make_agent(name, persona, seed=number) for name in agents]
        session, plans = EmpathySession(user, persona, card, seed=number), []
        session.start()
        while session.outcome is None:
            drawn = int(rng.integers(len(speakers)))
            session.reply(speakers[drawn].reply(tuple(session.dialogue.messages())))
            plans.append(_PLANS.get(agents[drawn], _NO_PLAN))
        said: list[Message] = list(session.dialogue.messages())
        yield Lesson(
            tuple(one.text for one in said[:-1] if one.speaker == "user"),
            tuple(one.text for one in said if one.speaker == "agent"),
            tuple(plans),
        )


def patched(originals: Iterable[Lesson], agents: Sequence[str], share: float, seed: int = 0) -> Iterator[Lesson]:
    """The lessons, a `share` of them with people whose sentences nobody ever said: the front of one and the back of another, answered by the agents
    anew. They must know of people only what they are told: the oracle would speak of somebody else.

    Where only words are exchanged, a small model knows sixty people's sentences again by their little words, and garbles those of strangers.
    """
    known = list(originals)
    pool = sorted({sentence for lesson in known for line in lesson.users for sentence in sentences(line)})
    people, rng = library(), np.random.default_rng(seed)
    for number, lesson in enumerate(known):
        if rng.random() >= share:
            yield lesson
            continue
        somebody = people.get(people.ids("train")[0])
        speakers = [make_agent(name, somebody, seed=number) for name in agents]
        said: list[Message] = []
        plans = []
        for line in lesson.users:
            said.append(Message("user", " ".join(_with_another_end(part, pool, rng) for part in sentences(line))))
            drawn = int(rng.integers(len(speakers)))
            said.append(Message("agent", speakers[drawn].reply(tuple(said))))
            plans.append(_PLANS.get(agents[drawn], _NO_PLAN))
        yield Lesson(tuple(one.text for one in said[::2]), tuple(one.text for one in said[1::2]), tuple(plans))


def _with_another_end(sentence: str, pool: Sequence[str], rng: np.random.Generator) -> str:
    front, back = sentence.split(), pool[int(rng.integers(len(pool)))].split()
    return " ".join(front[: rng.integers(1, len(front) + 1)] + back[rng.integers(len(back)) :])


def exchanged(originals: Iterable[Lesson], share: float, seed: int = 0) -> Iterator[Lesson]:
    """The lessons, a `share` of them with the person's content words exchanged for others wherever they are said in the dialogue."""
    known = list(originals)
    vocabulary = exchangeable(known)
    rng = np.random.default_rng(seed)
    for lesson in known:
        yield _exchanged(lesson, vocabulary, rng) if rng.random() < share else lesson


def exchangeable(known: Sequence[Lesson]) -> list[str]:
    """The words that people say and agents do not unless they heard them."""
    own = {word for lesson in known for word in _first_said(lesson)}
    return sorted({word for lesson in known for line in lesson.users for word in content_words(line)} - own)


def _exchanged(lesson: Lesson, vocabulary: Sequence[str], rng: np.random.Generator) -> Lesson:
    heard = {word for line in lesson.users for word in content_words(line)}
    instead = {word: another(vocabulary, rng) for word in vocabulary if word in heard}
    users, replies = (tuple(with_others(line, instead) for line in lines) for lines in lesson[:2])
    return Lesson(users, replies, lesson.plans)


def _first_said(lesson: Lesson) -> Iterator[str]:
    """The words that the agent said without having heard them."""
    heard: set[str] = set()
    for line, reply in zip(lesson.users, lesson.replies, strict=True):
        heard.update(content_words(line))
        yield from (word for word in content_words(reply) if word not in heard)
