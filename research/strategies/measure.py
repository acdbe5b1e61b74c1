"""Offline labels of support strategies against those that were read: measure.py [test|train]."""

import json
import sys
from collections.abc import Iterator
from itertools import compress
from pathlib import Path

import numpy as np

from rlver_gym.bench.strategies import STRATEGIES, label_turn
from rlver_gym.environment.alarms import find_sure_acts
from rlver_gym.users.embedded.english import LABELS
from rlver_gym.users.embedded.hear import hear

HERE = Path(__file__).parent
OTHERS = ("self-disclosure", "information", "listening", "motives", "praise")
LETTERS = dict(zip((*STRATEGIES, *OTHERS), "q r f pgo s d i v m p".split(), strict=True))


def read_turns(split: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """The utterance, the person's lines before it, and its labels by pass."""
    corpus = HERE.parents[1] / "recordings" / "en" / split / "dialogues.jsonl"
    dialogues = {one["id"]: one for one in map(json.loads, corpus.open(encoding="utf-8"))}
    for line in map(json.loads, (HERE / f"{split}.jsonl").open(encoding="utf-8")):
        dialogue, number, *labels = line.values()
        opening, turns = dialogues[dialogue]["opening"], dialogues[dialogue]["turns"]
        said = [opening, *(turn["user"] for turn in turns[: number - 1])]
        yield turns[number - 1]["agent"], said, labels


def find_labels(utterance: str, lines: list[str]) -> set[str]:
    """What is offered, and what the best rule for the others says."""
    heard = hear(utterance)
    sure, words = find_sure_acts(heard), heard.words
    remarks = {LABELS[at] for at in heard.labels.argmax(1).tolist()}
    acts = {act for row in sure for act, probability in row.items() if probability >= 0.5}
    rules = (
        "confide" in remarks or sum(words.count(one) for one in ("i", "me", "my")) >= 3,
        "explain" in remarks,
        "invite" in acts,
        "motives" in acts or "motive" in remarks,
        "praise" in acts,
    )
    return {*(label_turn(utterance, lines) or ()), *compress(OTHERS, rules)}


turns = list(read_turns(sys.argv[1] if len(sys.argv) > 1 else "test"))
found = [find_labels(utterance, lines) for utterance, lines, _ in turns]
print(f"{'label':16}  by pass  kappa  labelled  precision [95 %]    recall")
for name, codes in LETTERS.items():
    truth_PN = np.array([[bool({*codes} & {*text}) for text in labels] for *_, labels in turns]).T
    said_N, (a, *_, b) = np.array([name in one for one in found]), truth_PN[[0, -1]]
    chance = a.mean() * b.mean() + (~a).mean() * (~b).mean()
    kappa, hits = ((a == b).mean() - chance) / (1 - chance), truth_PN.mean(axis=0)[said_N]
    means = np.random.default_rng(0).choice(hits, (2000, len(hits))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    recall = (truth_PN & said_N).sum() / truth_PN.sum()
    row = f"{name:16}{'/'.join(str(one.sum()) for one in truth_PN):>9}{kappa:7.2f}{said_N.sum():10}"
    print(f"{row}  {hits.mean():9.2f} [{low:.2f}, {high:.2f}]{recall:8.2f}")
