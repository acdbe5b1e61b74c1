"""How far the LLM user, with a strong model behind it, agrees with two blind readers on the test split.

python research/judge/agreement.py            (prints the table of README.md)

`whole.jsonl`, `side_by_side.jsonl` and `one_by_one.jsonl` hold what it gave each reply; `second_readers.jsonl`
the second reading of replies that the corpus has one of. r within a place: each dialogue's or moment's means
taken out. Intervals of 90 % over places.
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import numpy as np

from rlver_gym.corpora.corpus import Corpus
from rlver_gym.util.correlation import correlation_within

HERE = Path(__file__).parent
RECORDINGS = HERE.parent.parent / "recordings" / "en"
CLEAR, DRAWS = 1.5, 2_000
Row = tuple[str, float, float, float]
"""Place, the user's change, and two readers'."""


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_readers() -> dict[str, list[int]]:
    """The changes of each reply's first two readers."""
    readers: dict[str, list[int]] = defaultdict(list)
    for split in ("test", "samples/test"):
        for reply in Corpus(RECORDINGS / split).rated_replies():
            readers[reply.id] += [rating.change for rating in reply.ratings[:2]]
    for line in read_lines(HERE / "second_readers.jsonl"):
        readers[line["id"]].append(line["change"])
    return {key: changes[:2] for key, changes in readers.items() if len(changes) > 1}


def compare(rows: list[Row]) -> dict[str, float]:
    """The figures of these rows together."""
    place = np.array([row[0] for row in rows])
    user, first, second = np.array([row[1:] for row in rows], float).T
    mean = (first + second) / 2
    clear = np.abs(mean) >= CLEAR
    user_r = fmean(correlation_within(user, x, place) for x in (first, second))
    readers_r = correlation_within(first, second, place)
    return {
        "r": user_r,
        "readers' r": readers_r,
        "ratio": user_r / readers_r,
        "sign": float((np.sign(user) == np.sign(mean))[clear].mean()),
        "higher by": float((user - mean).mean()),
        "error": float(np.abs(user - mean).mean()),
    }


def main() -> None:
    """Print a line a way of asking."""
    readers = read_readers()
    for name in ("whole", "side_by_side", "one_by_one"):
        if not (path := HERE / f"{name}.jsonl").exists():
            continue
        rows: list[Row] = []
        for line in read_lines(path):
            if changes := readers.get(line["id"]):
                rows.append((line["place"], line["change"], float(changes[0]), float(changes[1])))
        by_place: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            by_place[row[0]].append(row)
        places, rng, ratios = list(by_place), np.random.default_rng(0), []
        for _ in range(DRAWS):
            drawn = rng.integers(len(places), size=len(places))
            ratios.append(
                compare(
                    [
                        (f"{n}", *row[1:])
                        for n, at in enumerate(drawn)
                        for row in by_place[places[at]]
                    ]
                )["ratio"]
            )
        low, high = np.quantile(ratios, [0.05, 0.95])
        figures = ", ".join(f"{key} {value:.3f}" for key, value in compare(rows).items())
        print(
            f"{name}: {len(rows)} replies in {len(places)} places: {figures} (ratio {low:.2f} to {high:.2f})"
        )


if __name__ == "__main__":
    main()
