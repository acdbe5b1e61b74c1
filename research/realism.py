"""Whether simulated people type like those of transcripts: counts of form alone, each of a person's
turns, with 95 % intervals over dialogues.

python research/realism.py TRANSCRIPTS RUN

TRANSCRIPTS: JSON Lines or one JSON list of dialogues, each a list of turns with `role` and
`content`, or an object that holds one as "conversation", "messages" or "turns".
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlver_gym.bench.folder import read_episodes
from rlver_gym.util.interval import Interval, format_estimate

PERSON = frozenset({"user", "seeker", "human", "person", "patient", "client"})
LISTS = ("conversation", "messages", "turns", "dialog", "dialogue")
THANKS = re.compile(r"\b(?:thank(?:s| you)?|thx|ty|cheers|appreciate)\b", re.IGNORECASE)
CORRECTS = re.compile(
    r"^\W*(?:no\b|nope|not (?:quite|really|exactly)|actually)|\bI (?:didn't|never) sa(?:y|id)\b"
    r"|\bthat's not (?:what|it|how)\b",
    re.IGNORECASE,
)
END = re.compile(r"[.!?…][\"'”’)\s]*$")
DRAWS = 200
SHARES: dict[str, Callable[[str], object]] = {
    "at most five words": lambda turn: len(turn.split()) <= 5,
    "without an end mark": lambda turn: not END.search(turn),
    "begins in lower case": lambda turn: turn[:1].islower(),
    "asks back": lambda turn: "?" in turn,
    "thanks": THANKS.search,
    "corrects the other": CORRECTS.search,
}


def measure(turns: Sequence[str]) -> list[float]:
    """The median of words a turn, and of each of `SHARES` the percentage of turns."""
    words = float(np.median([len(turn.split()) for turn in turns]))
    return [
        words,
        *(100 * sum(map(bool, map(holds, turns))) / len(turns) for holds in SHARES.values()),
    ]


def measure_with_intervals(dialogues: Sequence[Sequence[str]]) -> list[Interval]:
    """The same of what one person said in each dialogue."""

    def pool(chosen: Sequence[int]) -> list[float]:
        return measure([turn for at in chosen for turn in dialogues[at]])

    count = len(dialogues)
    draws = np.random.default_rng(0).integers(0, count, (DRAWS, count)).tolist()
    low, high = np.quantile([pool(draw) for draw in draws], [0.025, 0.975], axis=0)
    return [
        Interval(*map(float, bounds)) for bounds in zip(pool(range(count)), low, high, strict=True)
    ]


def read_transcripts(path: Path) -> list[list[str]]:
    """What the person said in each dialogue of a file; dialogues without such turns are left out."""
    text = path.read_text(encoding="utf-8").strip()
    dialogues = (
        json.loads(text)
        if text.startswith("[")
        else [json.loads(line) for line in text.splitlines()]
    )
    return [turns for turns in map(list, map(list_person_turns, dialogues)) if turns]


def list_person_turns(dialogue: Any) -> Iterator[str]:
    """The person's turns, without empty ones."""
    if isinstance(dialogue, dict):
        dialogue = next((dialogue[name] for name in LISTS if name in dialogue), [])
    for turn in dialogue:
        content = turn.get("content", turn.get("text")) or ""
        if str(turn.get("role", "")).lower() in PERSON and content.strip():
            yield content.strip()


if __name__ == "__main__":
    transcripts, run = map(Path, sys.argv[1:])
    people = read_transcripts(transcripts)
    simulated = [
        [episode.opening, *(turn.reply for turn in episode.turns)] for episode in read_episodes(run)
    ]
    columns = zip(measure_with_intervals(people), measure_with_intervals(simulated), strict=True)
    print(f"{'% of turns':28s}{len(people):6d} people        {len(simulated)} simulated")
    for name, (theirs, ours) in zip(["words a turn, median", *SHARES], columns, strict=True):
        print(f"{name:28s}{format_estimate(theirs):20s}{format_estimate(ours)}")
