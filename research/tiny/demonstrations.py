"""Demonstrations for a small model, so that it learns to repeat what it hears and does not recite:
sentences spliced anew, and words exchanged for others.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from word_substitution import content_words, draw_word, replace_words

from rlver_gym.agents import make_agent
from rlver_gym.bench.export.demonstrations import generate_demonstrations, write_plan_before_reply
from rlver_gym.core.dialogue import Message
from rlver_gym.core.words import sentences
from rlver_gym.corpora.demonstrations import Demonstration
from rlver_gym.library.personas import library


def demonstrations_for_small(
    agents: Sequence[str], count: int, share: float, seed: int = 0
) -> Iterator[Demonstration]:
    """`generate_demonstrations`, a `share` of them with sentences patched together, and a share with
    words exchanged, so that a small model learns to repeat and not to recite.
    """
    yield from substitute_words(
        splice_sentences(generate_demonstrations(agents, count, seed), agents, share, seed),
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
            plans.append(write_plan_before_reply(agents[speaker]))
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
