"""Counts how common each word is over the stories: "garden" may belong to one of them, "evening" to
any.

python tools/count_stories.py        (writes rlver_gym/text/english/stories.json)

A story is the situation of a train, validation or demo persona.
"""

import json
import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from rlver_gym.core.library import library
from rlver_gym.core.words import content_stems
from rlver_gym.text.story_index import texts_of

ROOT = Path(__file__).parent.parent
OUT = ROOT / "rlver_gym" / "text" / "english" / "stories.json"
ABOUT = (
    "How much a stem says about which story it belongs to: hundredths of the logarithm of all"
    " stories per story that has it. A stem of no story counts 'unknown': it may belong to another"
    " story or be a figure of speech. Written by tools/count_stories.py from the train, validation"
    " and demo situations."
)


UNKNOWN = 200


def counted() -> dict[str, Any]:
    """The file."""
    shelf = library()
    taught = {one.situation: one.id for one in shelf.pairings.values() if one.split != "test"}
    stories = [
        texts_of(shelf.get(persona_id).situation.model_dump()) for persona_id in taught.values()
    ]
    count = Counter(
        stem for texts in stories for stem in frozenset().union(*map(content_stems, texts))
    )
    groups = defaultdict(list)
    for stem, times in count.items():
        groups[round(100 * math.log(len(stories) / times))].append(stem)
    weights = {str(weight): " ".join(sorted(groups[weight])) for weight in sorted(groups)}
    return {"about": ABOUT, "unknown": UNKNOWN, "weights": weights}


def main() -> None:
    """Count and write."""
    OUT.write_text(json.dumps(counted(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
