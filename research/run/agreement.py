"""How far the payer of the run agrees with blind readers within a moment of each round's policy.

python research/run/agreement.py

Reads what the payer gave (`recordings/en/samples/ROUND`) and what readers gave to a part of the same
replies, drawn by a seed (`read-ROUND.jsonl`). r within a moment: each moment's means taken out;
intervals of 95 % over people.
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import numpy as np

from rlver_gym.corpora.corpus import Corpus
from rlver_gym.util.correlation import correlation_within

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "recordings" / "en" / "samples"
DRAWS = 2_000
Row = tuple[str, float, float]
"""Moment, the payer's change, and the readers' mean."""


def read_changes(path: Path) -> dict[str, float]:
    """The readers' mean change of each reply."""
    changes: dict[str, list[int]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        rating = json.loads(line)
        changes[rating["reply"]].append(rating["change"])
    return {reply: fmean(given) for reply, given in changes.items()}


def correlate(rows: list[Row]) -> float:
    """r within the moments of these rows."""
    place = np.array([row[0] for row in rows])
    payer, readers = np.array([row[1:] for row in rows], float).T
    return correlation_within(payer, readers, place)


def compare(name: str) -> str:
    """One round's line."""
    changes = read_changes(HERE / f"read-{name}.jsonl")
    people: dict[str, list[Row]] = defaultdict(list)
    for reply in Corpus(SAMPLES / name).rated_replies():
        if reply.id in changes:
            row = reply.place, reply.mean("change"), changes[reply.id]
            people[reply.persona].append(row)
    rows = [row for of_person in people.values() for row in of_person]
    chosen = fmean(fmean(_find_best(moment)) for moment in _split_by_moment(rows))
    draws = np.random.default_rng(0)
    names = list(people)
    drawn = [
        correlate([row for who in draws.choice(names, len(names)) for row in people[who]])
        for _ in range(DRAWS)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    payer, readers = fmean(row[1] for row in rows), fmean(row[2] for row in rows)
    return (
        f"{name}: {len(rows)} replies, r {correlate(rows):.2f} [{low:.2f}, {high:.2f}],"
        f" payer {payer:+.1f}, readers {readers:+.1f}, the payer's best by readers {chosen:+.1f}"
    )


def _split_by_moment(rows: list[Row]) -> list[list[Row]]:
    moments: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        moments[row[0]].append(row)
    return list(moments.values())


def _find_best(moment: list[Row]) -> list[float]:
    """What readers gave to the replies that the payer gave most: several where it was undecided."""
    most = max(payer for _, payer, _ in moment)
    return [readers for _, payer, readers in moment if payer == most]


def main() -> None:
    """Print every round that readers saw."""
    for path in sorted(HERE.glob("read-*.jsonl")):
        print(compare(path.stem.removeprefix("read-")))


if __name__ == "__main__":
    main()
