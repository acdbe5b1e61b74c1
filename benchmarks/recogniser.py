"""Fit the recogniser of what supporters ask and do, and say how well it recognises sentences that
it was not fitted on.

python benchmarks/recogniser.py VECTORS [--write | --texts]

`benchmarks/recogniser/*.tsv` hold the sentences, a label and a sentence a line, written by language
models in the role of supporters. VECTORS is a .npz file with `words` and `vectors` (words ×
dimensions): where the fit begins, so that words that no sentence has are not strange to it; and
`sentences` (sentences × dimensions, in the order in which --texts prints them): a linear model on
these is the teacher that half of the loss follows. The shipped weights used what the encoder
all-MiniLM-L6-v2 (Apache-2.0) gives for both.
"""

import argparse
import json
import os
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch

from rlver_gym.core.words import split_words
from rlver_gym.users.embedded.english import ASKED_ALIKE, PERSON
from rlver_gym.users.embedded.hear import NAME

FOLDER = Path(__file__).parent / "recogniser"
TARGET = Path(__file__).parents[1] / "rlver_gym" / "users" / "embedded" / "recogniser.npz"
SIZE = 64
EPOCHS = 15
DROP = 0.3
"""The share of words and pairs that go unheard while it learns."""
FOLDS = 3
STEPS_OF_WEIGHT = 127
TEMPERATURE = 1.5
"""By which logits are divided: what supporters really say is further from these sentences than the
sentences are from each other.
"""


def sentences() -> list[tuple[str, str]]:
    """Every sentence with its label."""
    rows = []
    for path in sorted(FOLDER.glob("*.tsv")):
        for line in path.read_text(encoding="utf-8").splitlines():
            label, _, text = line.partition("\t")
            if text:
                rows.append((label, text))
    return rows


def generalised(text: str) -> list[str]:
    """The words of a sentence as the recogniser has them: names and relations are PERSON, several
    running as one.
    """
    plain = text.replace("’", "'")
    names = frozenset(map(str.lower, NAME.findall(plain)))
    units = [
        PERSON if word in names else ASKED_ALIKE.get(word, word) for word in split_words(plain)
    ]
    pairs = zip(["", *units], units, strict=False)
    units = [unit for before, unit in pairs if not before == unit == PERSON]
    return [*units, "?"] if plain.endswith("?") else units


def list_word_pairs(units: list[str]) -> list[str]:
    """Neighbours, with a mark at both ends."""
    return list(map(" ".join, pairwise(("<", *units, ">"))))


class Model(torch.nn.Module):
    """Vectors of words and pairs, summed, divided by the root of the number of words; a linear
    layer on top.
    """

    def __init__(
        self, words: list[str], pairs: list[str], labels: int, vectors: dict[str, np.ndarray]
    ) -> None:
        """Words begin with their vectors, pairs near 0."""
        super().__init__()
        self.words = torch.nn.Embedding(len(words) + 1, SIZE, padding_idx=0)
        self.pairs = torch.nn.Embedding(len(pairs) + 1, SIZE, padding_idx=0)
        with torch.no_grad():
            self.words.weight.normal_(0, 0.05)
            self.pairs.weight.normal_(0, 0.02)
            for at, word in enumerate(words, 1):
                if word in vectors:
                    self.words.weight[at] += torch.tensor(vectors[word])
            self.words.weight[0] = 0
            self.pairs.weight[0] = 0
        self.out = torch.nn.Linear(SIZE, labels)

    def forward(
        self, words: torch.Tensor, pairs: torch.Tensor, counts: torch.Tensor, drop: float = 0.0
    ) -> torch.Tensor:
        """Logits, sentences × labels.

        `drop`: the share of words and pairs that go unheard while it learns.
        """
        of_words, of_pairs = self.words(words), self.pairs(pairs)
        if drop:
            of_words = of_words * (torch.rand(words.shape) > drop)[..., None]
            of_pairs = of_pairs * (torch.rand(pairs.shape) > drop)[..., None]
        return self.out((of_words.sum(1) + of_pairs.sum(1)) / counts[:, None].sqrt())


def begin(path: Path) -> tuple[dict[str, np.ndarray], torch.Tensor]:
    """The vectors to begin with, turned to their main directions, and those of the sentences."""
    with np.load(path) as data:
        vectors, words = data["vectors"].astype(np.float32), [str(word) for word in data["words"]]
        states = torch.tensor(data["sentences"].astype(np.float32))
    directions = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)[2][:SIZE]
    return dict(zip(words, 1.2 * vectors @ directions.T, strict=True)), states


def numbers(
    rows: list[list[str]], words: list[str], pairs: list[str]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sentences as padded numbers of words and pairs, and how many words each has."""
    of_word = {word: at for at, word in enumerate(words, 1)}
    of_pair = {pair: at for at, pair in enumerate(pairs, 1)}
    longest = max(map(len, rows))
    found = (
        torch.zeros(len(rows), longest, dtype=torch.long),
        torch.zeros(len(rows), longest + 1, dtype=torch.long),
    )
    for at, row in enumerate(rows):
        found[0][at, : len(row)] = torch.tensor(
            [of_word.get(word, 0) for word in row], dtype=torch.long
        )
        found[1][at, : len(row) + 1] = torch.tensor(
            [of_pair.get(pair, 0) for pair in list_word_pairs(row)]
        )
    return *found, torch.tensor([max(1, len(row)) for row in rows], dtype=torch.float32)


def taught(states: torch.Tensor, wanted: torch.Tensor, labels: int) -> torch.Tensor:
    """Of each sentence, the probabilities that a linear model of the other folds' sentences gives
    it; sentences × labels.
    """
    found = torch.zeros(len(wanted), labels)
    fold = torch.arange(len(wanted)) % FOLDS
    for out in range(FOLDS):
        rest = fold != out
        linear = torch.nn.Linear(states.shape[1], labels)
        optimizer = torch.optim.Adam(linear.parameters(), lr=0.05, weight_decay=1e-5)
        for _ in range(150):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(8 * linear(states[rest]), wanted[rest]).backward()
            optimizer.step()
        with torch.no_grad():
            found[~rest] = (8 * linear(states[~rest])).softmax(1)
    return found


def fit(
    model: Model,
    data: tuple[torch.Tensor, ...],
    wanted: torch.Tensor,
    teacher: torch.Tensor,
    rate: float = 5e-3,
) -> None:
    """Learn from the labels and from the teacher alike, the rate falling to 0."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    steps = EPOCHS * (len(wanted) // 64 + 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: max(0.002, 1 - step / steps)
    )
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(wanted)).split(64):
            logits = model(*(each[batch] for each in data), drop=DROP)
            loss = 0.5 * torch.nn.functional.cross_entropy(logits, wanted[batch])
            loss = loss + 0.5 * torch.nn.functional.cross_entropy(logits, teacher[batch])
            loss = loss + 1e-5 * (
                model.words.weight.square().sum() + model.pairs.weight.square().sum()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def train(
    rows: list[tuple[str, list[str]]],
    labels: list[str],
    vectors: dict[str, np.ndarray],
    states: torch.Tensor,
) -> tuple[Model, list[str], list[str]]:
    """A model of these sentences with its words and pairs."""
    torch.manual_seed(0)
    words = sorted(set(vectors) | {word for _, row in rows for word in row})
    count = Counter(pair for _, row in rows for pair in set(list_word_pairs(row)))
    pairs = sorted(pair for pair, number in count.items() if number >= 2)
    model = Model(words, pairs, len(labels), vectors)
    wanted = torch.tensor([labels.index(label) for label, _ in rows])
    fit(
        model,
        numbers([row for _, row in rows], words, pairs),
        wanted,
        taught(states, wanted, len(labels)),
    )
    return model, words, pairs


def write(model: Model, words: list[str], pairs: list[str], labels: list[str]) -> None:
    """Whole numbers of a byte each, in one file."""
    of_words, of_pairs, of_labels = (
        tensor.detach().numpy()
        for tensor in (model.words.weight[1:], model.pairs.weight[1:], model.out.weight)
    )
    one = max(np.abs(of_words).max(), np.abs(of_pairs).max()) / STEPS_OF_WEIGHT
    two = np.abs(of_labels).max() / STEPS_OF_WEIGHT
    meta = {
        "labels": labels,
        "words": words,
        "pairs": pairs,
        "scale": float(TEMPERATURE / (one * two)),
    }
    np.savez_compressed(
        TARGET,
        meta=np.frombuffer(json.dumps(meta, ensure_ascii=False).encode(), dtype=np.uint8),
        of_words=np.rint(of_words / one).astype(np.int8),
        of_pairs=np.rint(of_pairs / one).astype(np.int8),
        of_labels=np.rint(of_labels.T / two).astype(np.int8),
        bias=np.rint(1000 / TEMPERATURE * model.out.bias.detach().numpy()).astype(np.int32),
    )
    print(f"{TARGET}: {TARGET.stat().st_size / 1e6:.2f} MB")


def main() -> None:
    """Measure on a fifth that is left out; with --write, fit on all and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--write", action="store_true", help="fit on all and write the weights")
    parser.add_argument(
        "--texts", action="store_true", help="only print the sentences, a line each, for an encoder"
    )
    given = parser.parse_args()
    if given.texts:
        print("\n".join(text for _, text in sentences()))
        return
    torch.set_num_threads(1)
    rows, (vectors, states) = (
        [(label, generalised(text)) for label, text in sentences()],
        begin(given.vectors),
    )
    labels = sorted({label for label, _ in rows})
    order = random.Random(0).sample(range(len(rows)), len(rows))
    rows, states = [rows[at] for at in order], states[order]
    size = len(rows) // 5
    held = rows[:size]
    model, words, pairs = train(rows[size:], labels, vectors, states[size:])
    with torch.no_grad():
        logits = model(*numbers([row for _, row in held], words, pairs))
    wanted = torch.tensor([labels.index(label) for label, _ in held])
    hit, sure = logits.argmax(1) == wanted, logits.softmax(1).max(1).values
    print(
        f"{len(rows)} sentences, {len(labels)} labels: {hit.float().mean():.1%} of {len(held)}"
        " left out"
    )
    for least in (0.3, 0.5, 0.7):
        print(
            f"  from {least} on: {hit[sure > least].float().mean():.1%} of"
            f" {(sure > least).float().mean():.0%}"
        )
    if given.write:
        write(*train(rows, labels, vectors, states), labels)


if __name__ == "__main__":
    main()
