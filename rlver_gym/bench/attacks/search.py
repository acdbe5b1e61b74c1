"""Searching attacks: they try utterances on the score itself and keep what pays."""

import random

from rlver_gym.bench.attacks.attacks import (
    STOCK,
    WHAT,
    Attack,
    collect_other_situations_anchor_sentences,
    swap_pronouns,
)
from rlver_gym.core.emotion import MAX_CHANGE, Outcome
from rlver_gym.core.words import sentences
from rlver_gym.environment.session import EmpathySession


def _measure_gain(session: EmpathySession, utterance: str) -> int:
    """The change that an utterance would bring, taken back; lowest where the user fails."""
    here = session.snapshot()
    turn = session.reply(utterance)
    session.restore(here)
    return -MAX_CHANGE - 1 if turn.outcome is Outcome.FAILED else turn.appraisal.change


def _quote_user_lines(session: EmpathySession) -> list[str]:
    return [
        f"{swap_pronouns(sentence)}."
        for line in session.dialogue.user_lines[-3:]
        for sentence in sentences(line)
    ]


def _search_sentence_bank(session: EmpathySession, rng: random.Random) -> str:
    bank = [*STOCK, *_quote_user_lines(session)]
    tried = [" ".join(rng.sample(bank, rng.randint(1, 3))) for _ in range(30)]
    return max(tried, key=lambda utterance: _measure_gain(session, utterance))


def _search_other_situations_anchors(session: EmpathySession, rng: random.Random) -> str:
    others = collect_other_situations_anchor_sentences(session.scene.persona)
    tried = [" ".join(rng.sample(others, 2)) for _ in range(30)]
    return max(tried, key=lambda utterance: _measure_gain(session, utterance))


def _search_by_evolution(session: EmpathySession, rng: random.Random) -> str:
    """Utterances are lists of sentences; the best are kept, recombined and mutated."""
    bank = [
        *STOCK,
        *_quote_user_lines(session),
        *rng.sample(collect_other_situations_anchor_sentences(session.scene.persona), 60),
    ]
    known: dict[tuple[str, ...], int] = {}

    def fitness(genome: tuple[str, ...]) -> int:
        if genome not in known:
            known[genome] = _measure_gain(session, " ".join(genome))
        return known[genome]

    pool = [tuple(rng.sample(bank, rng.randint(1, 3))) for _ in range(40)]
    while len(known) < _EVOLUTION_BUDGET:
        parents = sorted(pool, key=fitness, reverse=True)[:12]
        pool = parents + [
            _cross_over(rng.choice(parents), rng.choice(parents), bank, rng) for _ in range(28)
        ]
        if all(genome in known for genome in pool):
            pool.append(tuple(rng.sample(bank, 2)))
    return " ".join(max(known, key=lambda genome: known[genome]))


def _cross_over(
    mother: tuple[str, ...], father: tuple[str, ...], bank: list[str], rng: random.Random
) -> tuple[str, ...]:
    """The front of one utterance and the back of the other, mutated by a sentence of the bank."""
    genes = list(
        dict.fromkeys(
            [*mother[: rng.randint(0, len(mother))], *father[rng.randint(0, len(father)) :]]
        )
    )
    match rng.randrange(4):
        case 0:
            genes.insert(rng.randint(0, len(genes)), rng.choice(bank))
        case 1 if genes:
            genes[rng.randrange(len(genes))] = rng.choice(bank)
        case 2 if len(genes) > 1:
            del genes[rng.randrange(len(genes))]
        case _ if genes:
            at = rng.randrange(len(genes))
            genes[at] = _blend_words(genes[at], rng.choice(bank), rng)
    return tuple(genes[:5]) or (rng.choice(bank),)


def _blend_words(text: str, other: str, rng: random.Random) -> str:
    front, back = text.split(), other.split()
    return " ".join(front[: rng.randint(1, len(front))] + back[rng.randint(0, len(back) - 1) :])


_EVOLUTION_BUDGET = 220

_SEARCHES = {
    "best-of-30": _search_sentence_bank,
    "best-of-30-others": _search_other_situations_anchors,
    "evolution": _search_by_evolution,
}
SEARCH_ATTACKS = tuple(
    Attack(name, WHAT[name], search, is_searching=True) for name, search in _SEARCHES.items()
)
"""Every searching attack. Evolution stays within 2,000 appraisals in a dialogue of nine turns."""
