"""Fit a judge that asks no server: from ratings of whole dialogues to the five capabilities.

python research/capabilities/fit.py

No fit reaches r 0.6 with readers about unseen supporters, so none is shipped: fit.md.
Fitted to dialogues of train supporters and of small trained models, without the machines that are
in the test split too; gamma and penalty are chosen by leaving supporters out. `factors` was tried
first. Its inputs hold the factors of the embedded user, which is fitted to ratings of the very same
train dialogues, so leaving supporters out flattered it; `perceived` does without.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rlver_gym.users.embedded.perception import FEATURES, perceive

from rlver_gym.core.capabilities import HIGHEST, JUDGED, LOWEST
from rlver_gym.core.dialogue import Appraisal, Dialogue, Turn
from rlver_gym.core.library import library
from rlver_gym.core.persona import Persona
from rlver_gym.users.embedded.english import predict_reader_ratings
from rlver_gym.util.correlation import correlation

HERE = Path(__file__).parent
CORPUS = HERE.parents[1] / "recordings" / "en"
FIT_ON, FLUENT, TEST = ("train", "policies"), "test", ("test", "samples/test")
IN_BOTH = re.compile(r"^(?:adaptive|comfort|listener|oracle)(?:-|$)")
"""Machines of the test split, of which train has earlier versions."""
FAMILIES = {"best-of|evolution": "search", "strategy": "strategy", "smollm2": "smollm2"}
GAMMAS, PENALTIES, FOLDS, SHUFFLES = (0.2, 0.4, 0.7, 1.0), (0.05, 0.1, 0.2, 0.4), 6, 3
ACTS = tuple(one for one in FEATURES if one.startswith("logit:"))
BEST_TURNS = 3
INPUTS = {
    "factors": (
        (*ACTS, "repeated", "touched", "like_last_most", "cut", "near:unspoken"),
        ("last_covered", "like_own_mean", "names:told"),
    ),
    "perceived": (
        (*ACTS, "uptake", "facts:true", "reached_sentences", "questions", "function_words",
         "strange_sentences"),
        ("repeated", "touched", "like_own_mean", "longest", "facts:unknown", "does:invite"),
    ),
}  # fmt: skip
"""What is perceived in each turn, as its mean and as its spread over turns; chosen forwards by
leaving train supporters out.
"""


class Perceived(NamedTuple):
    """The turns of a dialogue."""

    values: np.ndarray
    """(N, len(FEATURES))"""
    factors: np.ndarray
    """(N, 6)"""


class Rated(NamedTuple):
    """Dialogues with what readers made of them."""

    folders: np.ndarray
    supporters: np.ndarray
    inputs: np.ndarray
    marks: np.ndarray
    """Of both readers, (D, 2, len(JUDGED))."""

    def select(self, chosen: np.ndarray) -> "Rated":
        """Those of a mask."""
        return Rated(*(one[chosen] for one in self))


def perceive_turns(persona: Persona, opening: str, said: Sequence[dict[str, str]]) -> Perceived:
    """Everything the embedded user perceives, and what its network makes of that."""
    turns: list[Turn] = []
    values, factors = [], []
    for one in said:
        found = perceive(persona, Dialogue(opening, tuple(turns), one["agent"]))
        values.append(found.values)
        factors.append(predict_reader_ratings(found))
        turns.append(Turn(one["agent"], Appraisal(0, "", ()), 0, 0.0, None, one["user"]))
    return Perceived(np.array(values), np.array(factors))


def describe(perceived: Perceived, kind: str) -> np.ndarray:
    """The inputs of a dialogue."""
    means, spreads = ([FEATURES.index(one) for one in part] for part in INPUTS[kind])
    parts = [perceived.values[:, means].mean(0), perceived.values[:, spreads].std(0)]
    if kind == "factors":
        factors = perceived.factors
        parts += [factors.mean(0), np.sort(factors, axis=0)[-BEST_TURNS:].mean(0)]
    return np.concatenate(parts)


def read() -> list[tuple[str, str, Perceived, list[list[int]]]]:
    """Folder, supporter, turns and marks of each rated dialogue."""
    marks = defaultdict(list)
    for line in (HERE / "ratings.jsonl").read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        marks[one["folder"], one["dialogue"]].append([one[name] for name in JUDGED])
    shelf, rows = library(), []
    for folder in sorted({folder for folder, _ in marks}):
        for line in (CORPUS / folder / "dialogues.jsonl").read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            if rated := marks.get((folder, one["id"])):
                turns = perceive_turns(shelf.get(one["persona"]), one["opening"], one["turns"])
                rows.append((folder, one["supporter"], turns, rated))
    return rows


def family(supporter: str) -> str:
    """What is left out together: versions of the same machine are one supporter."""
    for pattern, name in FAMILIES.items():
        if re.match(pattern, supporter):
            return name
    return re.sub(r"-r\d+$", "", supporter)


def fit(rated: Rated, gamma: float, penalty: float) -> Callable[[np.ndarray], np.ndarray]:
    """Kernel ridge regression of the readers' mean: from inputs to marks."""
    low, high = rated.inputs.min(0), rated.inputs.max(0)
    mean, spread = rated.inputs.mean(0), rated.inputs.std(0) + 1e-6
    marks = rated.marks.mean(1)

    def kernel(inputs: np.ndarray) -> np.ndarray:
        a, b = ((np.clip(one, low, high) - mean) / spread for one in (inputs, rated.inputs))
        squares = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
        return np.exp(-gamma * squares / a.shape[1])

    penalised = kernel(rated.inputs) + penalty * np.eye(len(marks))
    weights = np.linalg.solve(penalised, marks - marks.mean(0))
    return lambda inputs: np.clip(kernel(inputs) @ weights + marks.mean(0), LOWEST, HIGHEST)


def correlate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Pearson's r of each dimension."""
    return np.array([correlation(a[:, at], b[:, at]) for at in range(len(JUDGED))])


def cross_validate(rated: Rated, gamma: float, penalty: float) -> np.ndarray:
    """By dimension r over dialogues of supporters left out: the mean of that over all and that
    without trained models.
    """
    families = np.array([family(one) for one in rated.supporters])
    marks, is_fluent, found = rated.marks.mean(1), rated.folders == FIT_ON[0], []
    for seed in range(SHUFFLES):
        order = np.random.default_rng(seed).permutation(np.unique(families))
        predicted = np.zeros_like(marks)
        for fold in range(FOLDS):
            out = np.isin(families, order[fold::FOLDS])
            predicted[out] = fit(rated.select(~out), gamma, penalty)(rated.inputs[out])
        found += [
            correlate(predicted, marks),
            correlate(predicted[is_fluent], marks[is_fluent]),
        ]
    return np.mean(found, axis=0)


def measure(predicted: np.ndarray, rated: Rated) -> dict[str, np.ndarray]:
    """By dimension: r over dialogues, without trained models, over supporters' means; mean absolute
    error; r of the two readers.
    """
    marks, is_fluent = rated.marks.mean(1), rated.folders == FLUENT
    names = np.unique(rated.supporters)
    ours, theirs = (
        np.array([one[rated.supporters == name].mean(0) for name in names])
        for one in (predicted, marks)
    )
    return {
        "r": correlate(predicted, marks),
        "r, fluent": correlate(predicted[is_fluent], marks[is_fluent]),
        "r, supporters": correlate(ours, theirs),
        "MAE": np.abs(predicted - marks).mean(0),
        "readers' r": correlate(rated.marks[:, 0], rated.marks[:, 1]),
    }


def main() -> None:
    """Fit twice, and say how far each agrees with readers about supporters that it never saw."""
    rows = read()
    folders, supporters = (np.array([row[at] for row in rows]) for at in (0, 1))
    marks = np.array([row[3] for row in rows])
    is_known = np.array([bool(IN_BOTH.match(one)) for one in supporters])
    for kind in INPUTS:
        inputs = np.array([describe(row[2], kind) for row in rows])
        rated = Rated(folders, supporters, inputs, marks)
        train = rated.select(np.isin(folders, FIT_ON) & ~is_known)
        test = rated.select(np.isin(folders, TEST))
        tried = {one: cross_validate(train, *one) for one in product(GAMMAS, PENALTIES)}
        best = max(tried, key=lambda one: tried[one].mean())
        found = {"left out": tried[best], **measure(fit(train, *best)(test.inputs), test)}
        print(f"\n{kind}: {len(train.marks)} dialogues, gamma and penalty {best};", end=" ")
        print(f"{len(test.marks)} of {len(set(test.supporters))} unseen supporters")
        print(f"{'':22}" + "".join(f"{name:>15}" for name in found))
        for at, name in enumerate(JUDGED):
            print(f"{name:22}" + "".join(f"{one[at]:15.2f}" for one in found.values()))


if __name__ == "__main__":
    main()
