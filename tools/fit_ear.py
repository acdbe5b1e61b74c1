"""Fits the ear of the embedded user: which words speak for which dialogue act, and which pairs of
words for no language at all.

OMP_NUM_THREADS=1 python tools/fit_ear.py        (needs scikit-learn; with one thread the same bytes
every time; writes rlver_gym/users/embedded/acts.npz)

It learns from our own sentences: those of the expectation pairs' dev half, each labelled with its
acts, and the anchors of the train and demo situations, whose kind says what they do. Nobody of the
test half, and no test persona, is among them. What is no language it learns from the same sentences
torn up: stirred, cut and joined, words doubled, lost and strewn in. The shipped acts come out again
but for a few roundings, what is no language by and large: the cards' sentences have changed since.
"""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from rlver_gym.core.words import sentences, stems
from rlver_gym.library.personas import library

ROOT = Path(__file__).parent.parent
PAIRS = ROOT / "tests" / "data" / "expectations_en.jsonl"
SENTENCES = ROOT / "tools" / "sentences_en.txt"
OUT = ROOT / "rlver_gym" / "users" / "embedded" / "acts.npz"
ACTS = (
    "reflect_feeling",
    "validate",
    "side",
    "praise",
    "invite",
    "motives",
    "other_side",
    "reflect_prompt",
    "advice",
    "cliche",
    "blame",
)
ACT_OF_ANCHOR = {
    "deeds": "praise",
    "wrongs": "side",
    "motives": "motives",
    "options": "advice",
    "other_side": "other_side",
    "insights": "reflect_prompt",
    "unspoken": "reflect_feeling",
}
ALSO = {"blame": frozenset({"blame", "insult"})}
"""Acts that are learned together."""
STRENGTH = 0.7
"""Inverse of the penalty on large weights."""
SMALLEST = 11
"""Weights below so many hundredths are dropped."""
MISSED = 2.0
"""How much worse an act that is missed is than one that is only imagined: most sentences do any one
act not, and doubt should not settle on that.
"""
TORN_STRENGTH = 0.2
"""`STRENGTH` of the model of what is no language."""
TORN_SMALLEST = 25
"""`SMALLEST` of that model."""
TORN_TIMES = 3
"""How often each sentence is torn up."""
FEWEST = 4
"""Words of a sentence that can be torn up."""


class Example(NamedTuple):
    """A sentence and what it does."""

    text: str
    acts: frozenset[str]


def of_pairs(pairs: Iterable[dict[str, Any]]) -> Iterator[Example]:
    """The labelled sentences of pairs."""
    for pair in pairs:
        for text, acts in [*pair["better_acts"], *pair["worse_acts"]]:
            yield Example(text, frozenset(acts))


def of_sentences() -> Iterator[Example]:
    """The sentences written for the ear alone."""
    acts: frozenset[str] = frozenset()
    for line in SENTENCES.read_text(encoding="utf-8").splitlines():
        if line.startswith("="):
            acts = frozenset(line[1:].split())
        elif line and not line.startswith("#"):
            yield Example(line, acts)


def of_anchors() -> Iterator[Example]:
    """The anchors of all situations that are no test persona's."""
    shelf = library()
    taught = {one.situation: one.id for one in shelf.pairings.values() if one.split != "test"}
    for persona_id in taught.values():
        for kind, anchor in shelf.get(persona_id).situation.anchors.each():
            yield Example(anchor.text, frozenset({ACT_OF_ANCHOR[kind]}))


def looked_at(text: str) -> Counter[str]:
    """The features of a sentence, pairs of stems joined by a space."""
    line = ("^", *stems(text), ending(text))
    return Counter([*line, *map(" ".join, pairwise(line))])


def ending(text: str) -> str:
    """What a sentence ends with, for the ear."""
    return "?" if text.rstrip("\"'”’) ").endswith("?") else "."


def fitted(examples: list[Example]) -> dict[str, np.ndarray]:
    """The model's arrays: features, their weights by act, what each act begins with, the acts."""
    split = [Example(part, one.acts) for one in examples for part in sentences(one.text)]
    table = DictVectorizer()
    seen = table.fit_transform([looked_at(one.text) for one in split])
    seen.indices, seen.indptr = seen.indices.astype(np.int32), seen.indptr.astype(np.int32)
    names = table.get_feature_names_out()
    bias, weights = {}, {}
    for act in ACTS:
        does = np.array([bool(one.acts & ALSO.get(act, frozenset({act}))) for one in split])
        model = LogisticRegression(
            C=STRENGTH,
            class_weight={True: MISSED, False: 1.0},
            solver="liblinear",
            max_iter=500,
            random_state=0,
        )
        model = model.fit(seen, does)
        bias[act] = round(100 * float(model.intercept_[0]))
        weights[act] = by_size(names, np.round(100 * model.coef_[0]).astype(int), SMALLEST)
    bias["broken"], weights["broken"] = broken({one.text for one in split})
    units = list(dict.fromkeys(unit for of_act in weights.values() for unit in of_act))
    rows = [[of_act.get(unit, 0) for of_act in weights.values()] for unit in units]
    return {
        "units": np.frombuffer("\n".join(units).encode(), np.uint8),
        "weights": np.array(rows, np.int16),
        "bias": np.array(list(bias.values())),
        "acts": np.frombuffer(" ".join(bias).encode(), np.uint8),
    }


def broken(texts: set[str]) -> tuple[int, dict[str, int]]:
    """Bias and weights of what is no language: pairs of neighbours that are met in torn sentences
    rather than in whole ones.
    """
    rng = random.Random(0)
    whole = [(stems(text), ending(text)) for text in sorted(texts)]
    whole = [one for one in whole if len(one[0]) >= FEWEST]
    others = [words for words, _ in whole]
    torn = [(torn_up(words, others, rng), end) for _ in range(TORN_TIMES) for words, end in whole]
    torn = [one for one in torn if len(one[0]) >= FEWEST]
    table = DictVectorizer()
    seen = table.fit_transform(
        [Counter(map(" ".join, pairwise(("^", *words, end)))) for words, end in [*torn, *whole]]
    )
    seen.indices, seen.indptr = seen.indices.astype(np.int32), seen.indptr.astype(np.int32)
    is_torn = np.arange(seen.shape[0]) < len(torn)
    model = LogisticRegression(
        C=TORN_STRENGTH,
        class_weight={False: len(torn) / len(whole), True: 1.0},
        solver="liblinear",
        random_state=0,
    ).fit(seen, is_torn)
    weights = np.round(100 * model.coef_[0]).astype(int)
    return round(100 * float(model.intercept_[0])), by_size(
        table.get_feature_names_out(), weights, TORN_SMALLEST
    )


def torn_up(words: Sequence[str], others: Sequence[Sequence[str]], rng: random.Random) -> list[str]:
    """What is left of a sentence when it is torn up in one of five ways."""
    return rng.choice((stirred, stirred_with_another, stammered, holed, patched))(
        words, others, rng
    )


def stirred(words: Sequence[str], others: Sequence[Sequence[str]], rng: random.Random) -> list[str]:
    """Every word in another place."""
    return rng.sample(words, len(words))


def stirred_with_another(
    words: Sequence[str], others: Sequence[Sequence[str]], rng: random.Random
) -> list[str]:
    """Cut into pieces of one to three words, stirred with those of another sentence."""
    left, pieces = [*words, *rng.choice(others)], []
    while left:
        size = rng.randint(1, 3)
        pieces.append(left[:size])
        left = left[size:]
    rng.shuffle(pieces)
    return [word for piece in pieces for word in piece][: len(words)]


def stammered(
    words: Sequence[str], others: Sequence[Sequence[str]], rng: random.Random
) -> list[str]:
    """One word in three said twice, and at least one."""
    surely = rng.randrange(len(words))
    return [
        word
        for at, word in enumerate(words)
        for _ in range(2 if at == surely or rng.random() < 1 / 3 else 1)
    ]


def holed(words: Sequence[str], others: Sequence[Sequence[str]], rng: random.Random) -> list[str]:
    """A third of the words lost, a fifth strewn in from elsewhere."""
    left = [word for word in words if rng.random() > 0.35]
    for _ in range(max(1, len(words) // 5)):
        left.insert(rng.randrange(len(left) + 1), rng.choice(rng.choice(others)))
    return left


def patched(words: Sequence[str], others: Sequence[Sequence[str]], rng: random.Random) -> list[str]:
    """Pieces of one to three words from three sentences, as they come."""
    from_, made = [words, rng.choice(others), rng.choice(others)], []
    while len(made) < len(words):
        source = rng.choice(from_)
        at = rng.randrange(len(source))
        made += source[at : at + rng.randint(1, 3)]
    return made


def by_size(names: np.ndarray, weights: np.ndarray, smallest: int) -> dict[str, int]:
    """The weights of features, in fives of hundredths, the largest first."""
    rounded = {
        str(name): 5 * round(int(weight) / 5)
        for name, weight in zip(names, weights, strict=True)
        if abs(weight) >= smallest
    }
    return dict(sorted(rounded.items(), key=lambda pair: (-pair[1], pair[0])))


def main() -> None:
    """Fit and write."""
    pairs = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    examples = [
        *of_pairs(pair for pair in pairs if pair["half"] == "dev"),
        *of_sentences(),
        *of_anchors(),
    ]
    np.savez_compressed(OUT, allow_pickle=False, **fitted(examples))


if __name__ == "__main__":
    main()
