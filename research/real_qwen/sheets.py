"""Blind sheets of what policies said, side by side, for readers who rate by research/rubric.md.

python -m research.real_qwen.sheets FOLDER OUT [--per 160] [--second 0.15]

FOLDER holds `dialogues.jsonl` (whole dialogues of several policies with the same people) and
`samples.jsonl` (sixteen replies at each state, with the value that each reward gives them). OUT gets
`levels-NN.md`, with all dialogues of a person together, `best-NN.md`, with what each reward would
choose among 2, 4, 8 and 16, `second-NN.md` with a share of both for another reader, and `key.json`.
A reader writes OUT/ratings/READER.jsonl; `research.real_qwen.levels OUT` says what came of it.
"""

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlver_gym.corpora.sheets import describe_person
from rlver_gym.library.personas import library

REWARDS = ("embedded", "reader", "pessimistic")
SIZES = (2, 4, 8, 16)
HEAD = """\
Rate by research/rubric.md (read it whole first). Under each person stand {what}. You are that person,
there, at that point. For EVERY reply with an id write one JSON line, the thought first:
{{"id":"…","thought":"…","understood":0,"about":0,"gives":0,"human":0,"pressure":0,"false":0,"words":"","change":0}}
Use the whole scale and tell the replies apart: read what a sentence says, not how warm it is.
"""
WHAT = {
    "levels": "whole dialogues with different supporters; every line of a supporter has an id",
    "best": "moments: what was said so far, then replies, any one of which could have come next",
    "second": "whole dialogues, or moments with several replies to the same words",
}


@dataclass(frozen=True)
class Block:
    """What must stand on one sheet."""

    lines: list[str]
    ids: list[str]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """JSON by lines; none where there is no file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def one_line(text: str) -> str:
    """As a reader sees it."""
    return " ".join(text.split()) or "(says nothing)"


def choices(samples: Sequence[dict[str, Any]]) -> dict[int, list[str]]:
    """By number of sample, why it is shown: two draws of the model after demonstrations, what each
    reward chooses among its first 2, 4, 8 and 16, and the first draw of every other policy.
    """
    found: dict[int, list[str]] = defaultdict(list)
    own = [at for at, one in enumerate(samples) if one["policy"] == "sft"]
    for at in own[:2]:
        found[at].append("single")
    for reward in REWARDS:
        for size in SIZES:
            best = max(own[:size], key=lambda at: samples[at][reward])
            found[best].append(f"{reward}-{size}")
    for policy in dict.fromkeys(one["policy"] for one in samples):
        if policy != "sft":
            first = next(at for at, one in enumerate(samples) if one["policy"] == policy)
            found[first].append(f"single of {policy}")
    return found


class Writer:
    """Sheets, and the key that says who spoke."""

    def __init__(self) -> None:
        """Ids come in random order, so that they say nothing."""
        self._chance = random.Random(7)
        self._ids = iter(self._chance.sample(range(10_000, 100_000), 90_000))
        self.key: dict[str, dict[str, Any]] = {}

    def _name(self, **who: Any) -> str:
        name = f"x{next(self._ids)}"
        self.key[name] = who
        return name

    def _shuffle(self, some: Sequence[Any]) -> list[Any]:
        return self._chance.sample(some, len(some))

    def levels(self, dialogues: Sequence[dict[str, Any]]) -> Iterator[Block]:
        """A block a person: their dialogues with every policy."""
        by_person: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for one in dialogues:
            by_person[one["persona"]].append(one)
        for persona, some in self._shuffle(list(by_person.items())):
            lines, ids = describe_person(library().get(persona)), []
            for letter, one in zip("ABCDEFGHIJ", self._shuffle(some), strict=False):
                lines += ["", f"## Dialogue {letter}", f"PERSON: {one['users'][0]}"]
                for turn, text in enumerate(one["replies"]):
                    values = {"embedded": one["rewards"][turn]}
                    values |= {k: one[k][turn] for k in REWARDS[1:] if k in one}
                    who = {"kind": "dialogue", "policy": one["policy"], "persona": persona}
                    place = f"{one['policy']} {persona} {one['seed']}"
                    ids.append(self._name(**who, place=place, turn=turn, text=text, **values))
                    lines.append(f"SUPPORTER {ids[-1]}: {one_line(text)}")
                    lines.append(f"PERSON: {one['users'][turn + 1]}")
            yield Block(lines, ids)

    def best(self, states: Sequence[dict[str, Any]]) -> Iterator[Block]:
        """A block a state; a text that several rewards choose stands there once."""
        for one in self._shuffle(states):
            shown: dict[str, list[int]] = defaultdict(list)
            why = choices(one["samples"])
            for at in why:
                shown[one_line(one["samples"][at]["text"])].append(at)
            lines = [*describe_person(library().get(one["persona"])), "", "## A moment. So far:"]
            lines.append(f"PERSON: {one['users'][0]}")
            for reply, user in zip(one["replies"], one["users"][1:], strict=True):
                lines += [f"SUPPORTER: {one_line(reply)}", f"PERSON: {user}"]
            lines.append("### Replies, each as if it alone came next")
            ids = []
            for text, numbers in self._shuffle(list(shown.items())):
                sample = one["samples"][numbers[0]]
                values = {reward: sample[reward] for reward in REWARDS}
                who = {"kind": "best", "policy": sample["policy"], "persona": one["persona"]}
                chosen = [name for at in numbers for name in why[at]]
                ids.append(self._name(**who, place=one["state"], chosen_by=chosen, **values))
                self.key[ids[-1]]["text"] = sample["text"]
                lines.append(f"{ids[-1]}: {text}")
            yield Block(lines, ids)


def write_sheets(out: Path, name: str, blocks: Sequence[Block], per: int) -> None:
    """Blocks in order, about `per` replies a sheet."""
    sheets: list[list[Block]] = [[]]
    for block in blocks:
        count = sum(len(one.ids) for one in sheets[-1])
        if count and count + len(block.ids) > per * 1.04:
            sheets.append([])
        sheets[-1].append(block)
    for number, sheet in enumerate(filter(None, sheets), 1):
        lines = [HEAD.format(what=WHAT[name])]
        lines += [line for block in sheet for line in ["", *block.lines]]
        path = out / f"{name}-{number:02d}.md"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{path}: {sum(len(one.ids) for one in sheet)} replies")


def main(folder: Path, out: Path, per: int, second: float) -> None:
    """Write all sheets and the key."""
    writer = Writer()
    blocks = {
        "levels": list(writer.levels(read_lines(folder / "dialogues.jsonl"))),
        "best": list(writer.best(read_lines(folder / "samples.jsonl"))),
    }
    (out / "ratings").mkdir(parents=True, exist_ok=True)
    again = [one for some in blocks.values() for one in some[: round(second * len(some))]]
    for name, some in {**blocks, "second": again}.items():
        write_sheets(out, name, some, per)
    key = json.dumps(writer.key, ensure_ascii=False, indent=0)
    (out / "key.json").write_text(key, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--per", type=int, default=160, help="replies a sheet")
    parser.add_argument("--second", type=float, default=0.15, help="share rated twice")
    given = parser.parse_args()
    main(given.folder, given.out, given.per, given.second)
