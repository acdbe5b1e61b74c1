"""Fit the gate on word salad: rlver_gym/users/embedded/gate.npz.

python research/fit_gate.py

Pairs of neighbours are counted in what role supporters of recordings/en/train and shipped people
say; salad is made of their words (shuffled, spliced from pieces of one to three words, with words
of glued halves) and of the rated machines that say none but salad. It prints how many honest
replies of supporters that it has not seen are taken for salad. The shipped file was fitted before
the last nine roles of the corpus came.
"""

import random
from collections import Counter
from pathlib import Path

import numpy as np

from rlver_gym.core.words import split_words
from rlver_gym.corpora.corpus import Corpus
from rlver_gym.library.personas import library
from rlver_gym.users.embedded.english import find_neighbour, load_tables
from rlver_gym.users.embedded.gate import PAIRS, measure_salad
from rlver_gym.users.embedded.hear import hear

ROOT = Path(__file__).parents[1]
OUT = ROOT / "rlver_gym" / "users" / "embedded" / "gate.npz"
COMMON = 1_200
SALAD = ("stuffing", "salad", "torn-phrases", "gibberish", "stuffing-in-grammar")
Text = str


def read_cards() -> list[str]:
    """Every line that shipped people can say."""
    found = []
    for name in library().ids("all"):
        found += [line for _, line in library().get(name).situation.lines()]
        found += [
            line
            for fact in library().get(name).situation.facts
            for line in (*fact.answers, *fact.asked)
        ]
        found += [a.text for _, a in library().get(name).situation.anchors.each()]
    return list(dict.fromkeys(found))


def count_pairs(texts: list[str]) -> tuple[dict[str, int], np.ndarray, frozenset[str]]:
    """Words that stand for themselves, the tables of neighbours and of next neighbours, and all
    words that come twice.
    """
    counts: Counter[str] = Counter()
    each = [split_words(text) for text in texts]
    for words in each:
        counts.update(words)
    names = sorted(counts, key=lambda w: (-counts[w], w))[:COMMON]
    common = {word: at for at, word in enumerate(names, 6)}
    pairs, alone = np.zeros((2, PAIRS)), np.zeros(COMMON + 6)
    for words in each:
        units = np.array([find_neighbour(word, common) for word in words], np.int64)
        np.add.at(alone, units, 1)
        for apart in (1, 2):
            np.add.at(pairs[apart - 1], hash_pairs(units[:-apart], units[apart:]), 1)
    share = alone / alone.sum()
    expected = np.zeros(PAIRS)
    order = np.arange(COMMON + 6)
    for first in order:
        if share[first]:
            np.add.at(expected, hash_pairs(first, order), share[first] * share)
    value = np.log((pairs + 1.0) / (expected * pairs.sum(1, keepdims=True) + 1.0))
    known = frozenset(word for word, count in counts.items() if count >= 2)
    return common, np.clip(np.rint(value * 10), -60, 60).astype(np.int8).reshape(-1), known


def hash_pairs(first: np.ndarray | np.int64, second: np.ndarray) -> np.ndarray:
    """As `gate.measure_salad`."""
    return (first * 40_503 + second * 9_973) % PAIRS


def make_salad(texts: list[str], count: int, chance: random.Random) -> list[str]:
    """Word salad of four kinds."""
    words = [word for text in texts for word in text.split()]
    found = []
    for number in range(count):
        size, kind = chance.randint(6, 40), number % 4
        if kind == 0:
            part = chance.sample(words, size)
        elif kind == 1:
            part = chance.choice(texts).split()
            chance.shuffle(part)
        else:
            part = []
            while len(part) < size:
                at = chance.randrange(len(words) - 4)
                part += words[at : at + chance.randint(1, 3 + (kind == 3))]
            if kind == 3:
                for at in range(0, len(part), 6):
                    one, other = chance.choice(words), chance.choice(words)
                    part[at] = one[: chance.randint(1, 4)] + other[chance.randint(1, 3) :]
        if len(part) >= 5:
            found.append(" ".join(part))
    return found


def lay_out(
    texts: list[tuple[str, frozenset[str]]], common: dict[str, int], pairs: np.ndarray
) -> np.ndarray:
    table, rows = memoryview(pairs.data), []
    for text, story in texts:
        heard = hear(text)
        sentences = tuple(
            part._replace(neighbours=tuple([find_neighbour(word, common) for word in part.words]))
            for part in heard.sentences
        )
        rows.append([*measure_salad(heard._replace(sentences=sentences), story, -1, table), 1.0])
    return np.array(rows)


def fit_logistic(rows: np.ndarray, is_salad: np.ndarray, weight: np.ndarray) -> np.ndarray:
    found = np.zeros(rows.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-np.clip(rows @ found, -30, 30)))
        grad = rows.T @ (weight * (p - is_salad)) + 0.05 * found
        hess = (rows * (weight * p * (1 - p))[:, None]).T @ rows + 0.05 * np.eye(rows.shape[1])
        found -= np.linalg.solve(hess, grad)
    return found


def main() -> None:
    """Fit on half of the supporters, report on the other; then on all."""
    chance, shelf = random.Random(0), library()
    replies = list(Corpus(ROOT / "recordings/en/train").rated_replies())
    roles = sorted({one.supporter for one in replies if one.kind == "role"})
    cards = read_cards()
    stories: dict[str, frozenset[str]] = {}
    for one in replies:
        if one.persona not in stories:
            lines = [line for _, line in shelf.get(one.persona).situation.lines()]
            stories[one.persona] = frozenset(w for line in lines for w in split_words(line))
    lines = list(dict.fromkeys(line for one in replies for line in one.dialogue.user_lines))
    kept = np.zeros(0)
    for seen in (set(roles[::2]), set(roles)):
        own = [one.text for one in replies if one.supporter in seen]
        common, pairs, known = count_pairs([*own, *cards, *lines])
        other = [one for one in replies if one.kind == "role" and one.supporter not in seen]
        honest = other or [one for one in replies if one.kind == "role"]
        honest = [one for one in honest if len(split_words(one.text)) >= 5]
        salad = make_salad([one.text for one in honest], 2_000, chance)
        rated = [one.text for one in replies if one.supporter.startswith(SALAD)]
        rows_h = lay_out([(one.text, stories[one.persona]) for one in honest], common, pairs)
        rows_s = lay_out([(text, frozenset()) for text in [*salad, *rated]], common, pairs)
        rows = np.concatenate([rows_h, rows_s])
        target = np.r_[np.zeros(len(rows_h)), np.ones(len(rows_s))]
        weight = np.r_[np.full(len(rows_h), 4.0), np.ones(len(rows_s))]
        weights = fit_logistic(rows, target, weight)
        taken_h, taken_s = rows_h @ weights > 0, rows_s @ weights > 0
        print(
            weights.round(2),
            "honest taken:",
            taken_h.mean(),
            "salad taken:",
            taken_s.mean(),
            "rated:",
            (rows_s[len(salad) :] @ weights > 0).mean(),
        )
        if other:
            by = Counter(one.supporter for one, t in zip(honest, taken_h, strict=True) if t)
            print(by.most_common(6))
            print([one.text for one, t in zip(honest, taken_h, strict=True) if t][:6])
            kept = weights
    # pairs of all, weights of supporters that the pairs had not seen
    np.savez_compressed(
        OUT,
        common=np.frombuffer("\n".join(common).encode(), np.uint8),
        pairs=pairs,
        known=np.frombuffer(
            "\n".join(sorted(known - set(load_tables().row_of))).encode(), np.uint8
        ),
        weights=kept.round(3),
    )


if __name__ == "__main__":
    main()
