"""The states of a frozen causal model at every rated reply, in a file that only grows: a stop loses
at most a minute, and the same command goes on. See fit_reader.py.
"""

import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from transformers import AutoConfig

from rlver_gym.corpora.corpus import Corpus, RatedReply
from rlver_gym.library.personas import library
from rlver_gym.users.reader_states import LAYOUT, NUM_KINDS, FrozenStates

CORPORA = Path(__file__).parents[1] / "recordings" / "en"
PARTS = (
    "train",
    "samples/own",
    "test",
    "samples/train",
    "samples/round1",
    "samples/round1-written",
    "policies",
    "ordinary",
    "talk",
    "samples/test",
)
SIXTHS = 6
DEEPEST = 4
"""Of these sixths: with 2,300 replies, later layers agreed less within a dialogue and a place."""
SECONDS_BETWEEN_LINES = 30.0


def choose_depths(layers: int) -> list[int]:
    """After each sixth of the layers, up to two thirds of them."""
    return sorted({max(1, round(layers * part / SIXTHS)) for part in range(1, DEEPEST + 1)})


class Unit(NamedTuple):
    """A dialogue or a moment, with its rated replies."""

    part: str
    place: str
    replies: list[RatedReply]


def list_units() -> list[Unit]:
    """All of them, in the order in which they are read: whole dialogues and a policy's own places
    first, then the test split, so that a part of the work is worth something; samples with test
    people last.
    """
    units: list[tuple[int, Unit]] = []
    for part in PARTS:
        places: dict[str, list[RatedReply]] = defaultdict(list)
        for reply in Corpus(CORPORA / part).rated_replies():
            places[reply.place].append(reply)
        for place, replies in places.items():
            is_dialogue = part == "train" and len({one.supporter for one in replies}) == 1
            turn = {"samples/own": 0, "test": 1, "samples/test": 3}.get(
                part, 0 if is_dialogue else 2
            )
            units.append((turn, Unit(part, place, replies)))
    people = sorted({unit.replies[0].persona for _, unit in units})
    random.Random(0).shuffle(people)  # those of one person together: its beginning is run once
    units.sort(key=lambda pair: (pair[0], people.index(pair[1].replies[0].persona)))
    return [unit for _, unit in units]


class StatesFile:
    """States of replies in half precision, and whose they are: `states.f16` and `index.jsonl`, both
    only ever appended to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.states, self.index = folder / "states.f16", folder / "index.jsonl"

    def read_index(self) -> list[dict[str, Any]]:
        """The header and a line for each unit that is whole."""
        if not self.index.exists():
            return []
        text = self.index.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def find_rows(self) -> tuple[dict[str, Any], dict[tuple[str, str], int]]:
        """The header, and the row of each reply, by part and id. SystemExit when none is there."""
        if not (index := self.read_index()):
            raise SystemExit(f"{self.folder} holds no states yet: leave --no-extract out")
        header, *lines = index
        keys = [(line["part"], name) for line in lines for name in line["ids"]]
        return header, {key: row for row, key in enumerate(keys)}

    def read_states(
        self, header: dict[str, Any], rows: np.ndarray, depths: Sequence[int]
    ) -> np.ndarray:
        """[R, F] of some rows and depths, in single precision."""
        count, each = len(header["depths"]), header["width"] // len(header["depths"])
        states = np.memmap(self.states, "<f2", "r").reshape(-1, count, each)
        at = [header["depths"].index(depth) for depth in depths]
        return np.concatenate([states[rows, depth] for depth in at], 1, dtype=np.float32)

    def begin(self, header: dict[str, Any]) -> set[tuple[str, str]]:
        """Cut off what a stop has left; the units that are there. ValueError for another base."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = self.read_index() or [header]
        if lines[0] != header:
            raise ValueError(f"{self.folder} holds states of another base or layout")
        whole = "".join(json.dumps(line) + "\n" for line in lines)
        self.index.write_text(whole, encoding="utf-8")
        rows = sum(len(line["ids"]) for line in lines[1:])
        with self.states.open("ab") as file:
            file.truncate(rows * header["width"] * 2)
        return {(line["part"], line["place"]) for line in lines[1:]}

    def append(self, unit: Unit, states: np.ndarray) -> None:
        """The states first, the line that names them after they are on the disk."""
        most = float(np.finfo(np.float16).max)
        with self.states.open("ab") as file:
            file.write(np.clip(states, -most, most).astype("<f2").tobytes())
            file.flush()
            os.fsync(file.fileno())
        line = {"part": unit.part, "place": unit.place, "ids": [one.id for one in unit.replies]}
        with self.index.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def extract(base: str, file: StatesFile, device: str, dtype: str = "bfloat16") -> Iterator[str]:
    """Extract what is missing; yields lines about how far it is."""
    layers = AutoConfig.from_pretrained(base).num_hidden_layers
    frozen = FrozenStates.load(base, choose_depths(layers), device, dtype)
    header = {
        "base": Path(base).name,
        "layout": LAYOUT,
        "depths": list(frozen.depths),
        "fingerprints": frozen.fingerprints(),
        "width": len(frozen.depths) * NUM_KINDS * frozen.width,
    }
    done, shelf = file.begin(header), library()
    units = [unit for unit in list_units() if (unit.part, unit.place) not in done]
    sizes = [sum(len(one.text) for one in unit.replies) for unit in units]
    total, began, told, read, replies = sum(sizes), time.monotonic(), 0.0, 0, 0
    for unit, size in zip(units, sizes, strict=True):
        places = [frozen.lay_out(shelf.get(one.persona), one.dialogue) for one in unit.replies]
        file.append(unit, frozen.read(places))
        read, replies, now = read + size, replies + len(places), time.monotonic()
        if now - told > SECONDS_BETWEEN_LINES or read == total:
            told, spent = now, now - began
            left = spent * (total - read) / read
            yield (
                f"{read / total:.1%}: {replies} replies in {spent / 60:.0f} minutes,"
                f" {replies / spent:.1f} a second, {left / 60:.0f} minutes left"
            )
