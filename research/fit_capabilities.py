"""Fit the offline judge: from ratings of whole dialogues to rlver_gym/audit/offline_judge.json.

python research/fit_capabilities.py

Two readers, a language model in that role, rated 314 dialogues of the corpus on the five
capabilities and the two axes (recordings/en/capabilities.jsonl; its rubric is rubric.md's of
this folder's corpus, section Capabilities). Fitted to dialogues of train supporters and of
small trained models, without the machines that are in the test split too; width and penalty are
chosen by leaving supporters out; measured once on the supporters of the test split.
"""

import json
import re
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rlver_gym.audit.offline_judge import INPUTS, Agreement, Fit, compute_kernel, describe_dialogue
from rlver_gym.core.capabilities import JUDGED
from rlver_gym.core.dialogue import Message
from rlver_gym.core.library import library
from rlver_gym.io.correlation import correlation

ROOT = Path(__file__).parents[1]
CORPUS, OUT = ROOT / "recordings" / "en", ROOT / "rlver_gym" / "audit" / "offline_judge.json"
VERSION = "1"
FIT_ON, FLUENT, TEST = ("train", "policies"), "test", ("test", "samples/test")
IN_BOTH = re.compile(r"^(?:adaptive|comfort|listener|oracle)(?:-|$)")
"""Machines of the test split: their earlier versions are not fitted to."""
FAMILIES = {"best-of|evolution": "search", "strategy": "strategy", "smollm2": "smollm2"}
GAMMAS, PENALTIES, FOLDS, SHUFFLES = (0.2, 0.35, 0.5, 0.7, 1.0), (0.03, 0.06, 0.1, 0.2, 0.4), 10, 3


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


def read() -> Rated:
    """All rated dialogues."""
    marks = defaultdict(list)
    for line in (CORPUS / "capabilities.jsonl").read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        marks[one["folder"], one["dialogue"]].append([one[name] for name in JUDGED])
    shelf, rows = library(), []
    for folder in sorted({folder for folder, _ in marks}):
        for line in (CORPUS / folder / "dialogues.jsonl").read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            if rated := marks.get((folder, one["id"])):
                said = [Message("user", one["opening"])]
                for turn in one["turns"]:
                    said += [Message("agent", turn["agent"]), Message("user", turn["user"])]
                inputs = describe_dialogue(shelf.get(one["persona"]), said)
                rows.append((folder, one["supporter"], inputs, rated))
    return Rated(*(np.array(column) for column in zip(*rows, strict=True)))


def family(supporter: str) -> str:
    """What is left out together: versions of the same machine are one supporter."""
    for pattern, name in FAMILIES.items():
        if re.match(pattern, supporter):
            return name
    return re.sub(r"-r\d+$", "", supporter)


def fit(rated: Rated, gamma: float, penalty: float) -> Fit:
    """Kernel ridge regression of the readers' mean."""
    low, high = rated.inputs.min(0), rated.inputs.max(0)
    mean, spread = rated.inputs.mean(0), rated.inputs.std(0) + 1e-6
    points = ((rated.inputs - mean) / spread).round(2)
    marks = rated.marks.mean(1)
    centre = marks.mean(0)
    kernel = compute_kernel(points, points, gamma) + penalty * np.eye(len(points))
    weights = np.linalg.solve(kernel, marks - centre)
    return Fit(VERSION, {}, low, high, mean, spread, gamma, points, weights, centre)


def cross_validate(rated: Rated, gamma: float, penalty: float) -> np.ndarray:
    """By dimension r over dialogues of supporters left out: the mean of that over all and that
    without trained models.
    """
    families = np.array([family(one) for one in rated.supporters])
    marks, found = rated.marks.mean(1), []
    for seed in range(SHUFFLES):
        order = np.random.default_rng(seed).permutation(np.unique(families))
        predicted = np.zeros_like(marks)
        for fold in range(FOLDS):
            out = np.isin(families, order[fold::FOLDS])
            predicted[out] = fit(rated.select(~out), gamma, penalty).predict(rated.inputs[out])
        fluent = rated.folders == FIT_ON[0]
        found += [_correlate(predicted, marks), _correlate(predicted[fluent], marks[fluent])]
    return np.mean(found, axis=0)


def _correlate(a: np.ndarray, b: np.ndarray) -> list[float]:
    return [correlation(a[:, at], b[:, at]) for at in range(len(JUDGED))]


def measure(fitted: Fit, rated: Rated) -> dict[str, Agreement]:
    """Agreement with readers about supporters that the fit has not seen."""
    predicted, marks = fitted.predict(rated.inputs), rated.marks.mean(1)
    fluent = rated.folders == FLUENT
    names = np.unique(rated.supporters)
    means = [
        np.array([one[rated.supporters == name].mean(0) for name in names])
        for one in (predicted, marks)
    ]
    columns = (
        _correlate(predicted, marks),
        _correlate(predicted[fluent], marks[fluent]),
        _correlate(*means),
        np.abs(predicted - marks).mean(0),
        _correlate(rated.marks[:, 0], rated.marks[:, 1]),
    )
    rows = zip(*columns, strict=True)
    return {
        name: Agreement(*(round(float(one), 2) for one in row))
        for name, row in zip(JUDGED, rows, strict=True)
    }


def main() -> None:
    """Fit, measure, write."""
    rated = read()
    is_known = np.array([bool(IN_BOTH.match(one)) for one in rated.supporters])
    train = rated.select(np.isin(rated.folders, FIT_ON) & ~is_known)
    test = rated.select(np.isin(rated.folders, TEST))
    tried = {one: cross_validate(train, *one) for one in product(GAMMAS, PENALTIES)}
    best = max(tried, key=lambda one: tried[one].mean())
    print(f"fitted to {len(train.inputs)} dialogues, gamma and penalty {best}")
    print("left out:", dict(zip(JUDGED, tried[best].round(2).tolist(), strict=True)))
    fitted = fit(train, *best)
    fitted = fitted._replace(agreement=measure(fitted, test))
    print(f"{len(test.inputs)} dialogues of {len(set(test.supporters))} unseen supporters")
    for name, one in fitted.agreement.items():
        print(f"{name:22} {'offered' if one.is_enough else 'not offered':12} {one._asdict()}")
    plain = {
        name: one.round(4).tolist() if isinstance(one, np.ndarray) else one
        for name, one in fitted._asdict().items()
    }
    plain["agreement"] = {name: one._asdict() for name, one in fitted.agreement.items()}
    text = json.dumps({"inputs": INPUTS, **plain}, separators=(",", ":"))
    OUT.write_text(f"{text}\n", encoding="utf-8")
    print(f"{OUT.name}: {len(text):,} characters")


if __name__ == "__main__":
    main()
