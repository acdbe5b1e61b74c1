"""Replies of several policies side by side, for readers.

python -m research.real_qwen.sample OUT PLACES COUNT TEMPERATURE NAME=MODEL...

At PLACES places of train people and as many of test people, COUNT replies of each policy, into
OUT/train and OUT/test.
"""

import sys
from pathlib import Path

from research.real_qwen.policy import draw_places, sample, write_folder


def main(out: Path, count_places: int, count: int, temperature: float, policies: list[str]) -> None:
    """Sample and write; what a policy says twice at a place stands there once."""
    for split in ("train", "test"):
        places = draw_places(split, count_places)
        replies: list[list[dict[str, str]]] = [[] for _ in places]
        for policy in policies:
            name, _, model = policy.partition("=")
            for row, texts in enumerate(sample(model, places, count, temperature)):
                heard = dict.fromkeys(one for one in texts if one.strip())
                replies[row] += [{"supporter": name, "text": one} for one in heard]
        write_folder(out / split, places, replies)


if __name__ == "__main__":
    _, to, places, draws, heat, *models = sys.argv
    main(Path(to), int(places), int(draws), float(heat), models)
