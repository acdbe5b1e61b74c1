"""Realism: whether simulated people type like those of transcripts. Counts of form alone, each of
a person's turns; nothing of what is said.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.util.errors import RecordingError
from rlver_gym.util.files import read_text
from rlver_gym.util.interval import Interval
from rlver_gym.util.json_text import parse_json

_PERSON = frozenset({"user", "seeker", "human", "person", "patient", "client"})
_LISTS = ("conversation", "messages", "turns", "dialog", "dialogue")
_THANKS = re.compile(r"\b(?:thank(?:s| you)?|thx|ty|cheers|appreciate)\b", re.IGNORECASE)
_CORRECTS = re.compile(
    r"^\W*(?:no\b|nope|not (?:quite|really|exactly)|actually)|\bI (?:didn't|never) sa(?:y|id)\b"
    r"|\bthat's not (?:what|it|how)\b",
    re.IGNORECASE,
)
_END = re.compile(r"[.!?…][\"'”’)\s]*$")
_FEW = 5
_MAX_BYTES = 1 << 28
_DRAWS = 200
MEASURES: dict[str, Callable[[Sequence[str]], float]] = {
    "words a turn, median": lambda said: float(np.median([len(one.split()) for one in said])),
    "at most five words, %": lambda said: _percent_of_turns(
        said, lambda one: len(one.split()) <= _FEW
    ),
    "without an end mark, %": lambda said: _percent_of_turns(
        said, lambda one: not _END.search(one)
    ),
    "begins in lower case, %": lambda said: _percent_of_turns(said, lambda one: one[:1].islower()),
    "asks back, %": lambda said: _percent_of_turns(said, lambda one: "?" in one),
    "thanks, %": lambda said: _percent_of_turns(said, lambda one: bool(_THANKS.search(one))),
    "corrects the other, %": lambda said: _percent_of_turns(
        said, lambda one: bool(_CORRECTS.search(one))
    ),
}
"""Each of the turns of some people, all together."""


class Realism(NamedTuple):
    """One measure of two groups of dialogues, with 95 % intervals over dialogues."""

    measure: str
    people: Interval
    simulated: Interval


def _percent_of_turns(said: Sequence[str], holds: Callable[[str], bool]) -> float:
    return 100 * sum(map(holds, said)) / len(said)


def compare_realism(
    transcripts: Sequence[Sequence[str]], simulated: Sequence[Sequence[str]]
) -> list[Realism]:
    """Every measure of what people said and what simulated ones said: one list of turns a
    dialogue.
    """
    return [
        Realism(
            name,
            _measure_with_interval(transcripts, measure),
            _measure_with_interval(simulated, measure),
        )
        for name, measure in MEASURES.items()
    ]


def _measure_with_interval(
    dialogues: Sequence[Sequence[str]], measure: Callable[[Sequence[str]], float]
) -> Interval:
    def of(chosen: Sequence[Sequence[str]]) -> float:
        return measure([turn for dialogue in chosen for turn in dialogue])

    rng = np.random.default_rng(0)
    count = len(dialogues)
    draws = rng.integers(0, count, (_DRAWS, count)).tolist()
    drawn = [of([dialogues[int(at)] for at in draw]) for draw in draws]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(of(dialogues), float(low), float(high))


def read_transcripts(path: Path) -> list[list[str]]:
    """What the person said in each dialogue of a file: JSON Lines or one JSON list of dialogues,
    each a list of turns with `role` and `content`, or an object that holds one as "conversation",
    "messages" or "turns". RecordingError says what is missing.
    """
    text = read_text(path, max_bytes=_MAX_BYTES, error=RecordingError).strip()
    is_list = text.startswith("[")
    found: list[Any] = []
    for number, line in enumerate([text] if is_list else text.splitlines(), 1):
        try:
            found += [parse_json(line)] if line.strip() else []
        except ValueError as error:
            raise RecordingError(
                f"{path}, line {number}: is no JSON ({error}). Write one dialogue a line, or all as"
                " one list."
            ) from error
    dialogues: list[Any] = found[0] if is_list else found
    said = [list(_list_person_turns(dialogue)) for dialogue in dialogues]
    if not any(said):
        raise RecordingError(
            f"{path}: no turn of a person is in it. Each dialogue needs turns with role and"
            f" content, the person's role one of {', '.join(sorted(_PERSON))}."
        )
    return [one for one in said if one]


def _list_person_turns(dialogue: Any) -> Iterator[str]:
    if isinstance(dialogue, dict):
        dialogue = next((dialogue[name] for name in _LISTS if name in dialogue), [])
    for turn in dialogue if isinstance(dialogue, list) else []:
        if isinstance(turn, dict) and str(turn.get("role", "")).lower() in _PERSON:
            content = turn.get("content", turn.get("text"))
            if isinstance(content, str) and content.strip():
                yield content.strip()
