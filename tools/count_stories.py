"""Counts how common each word is over the stories: "garden" may belong to one of them, "evening" to any.

python tools/count_stories.py        (writes rlver_gym/users/embedded/stories_en.json)

A story is a train or demo situation together with the better replies to its people (dev half of the expectation pairs).
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rlver_gym.library import library
from rlver_gym.users.embedded.world import texts_of
from rlver_gym.words import content

ROOT = Path(__file__).parent.parent
PAIRS = ROOT / "tests" / "data" / "expectations_en.jsonl"
OUT = ROOT / "rlver_gym" / "users" / "embedded" / "stories_en.json"
ABOUT = (
    "How much a stem says about which story it belongs to: hundredths of the logarithm of all stories per story that has it; a stem of one story or of none is not listed and "
    "counts 'rare'. Written by tools/count_stories.py from the train and demo situations and the better replies to their people."
)


def counted(pairs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The file."""
    shelf = library()
    taught = {one.situation: one.id for one in shelf.pairings.values() if one.split != "test"}
    stories = {name: set(texts_of(shelf.get(persona_id).situation.model_dump())) for name, persona_id in taught.items()}
    for pair in pairs:
        stories[shelf.pairings[pair["persona"]].situation].add(pair["better"])
    count = Counter(stem for texts in stories.values() for stem in frozenset().union(*map(content, texts)))
    groups = defaultdict(list)
    for stem, times in count.items():
        if times > 1:
            groups[round(100 * math.log(len(stories) / times))].append(stem)
    weights = {str(weight): " ".join(sorted(groups[weight])) for weight in sorted(groups)}
    return {"about": ABOUT, "rare": round(100 * math.log(len(stories))), "weights": weights}


def main() -> None:
    """Count and write."""
    pairs = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    found = counted(pair for pair in pairs if pair["half"] == "dev")
    OUT.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
