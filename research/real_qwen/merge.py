"""Readers' lines of rating into a folder of the corpus' form.

python -m research.real_qwen.merge RATINGS FOLDER

RATINGS holds a `.jsonl` for each sitting, named for its reader, in the form that research/rubric.md
asks for; FOLDER holds `train` and `test`. Lines that are malformed, of unknown replies, or false
without the words are named, and nothing is written then.
"""

import json
import sys
from pathlib import Path

from rlver_gym.corpora.corpus import Corpus, Rating


def read_rating(line: str, reader: str) -> Rating:
    """One line; ValueError says what is wrong."""
    value = json.loads(line)
    rating = Rating(**{"reply": value.pop("id", ""), **value, "reader": reader})
    if bool(rating.words) != bool(rating.false):
        raise ValueError("false and words disagree")
    return rating


def main(ratings: Path, folder: Path) -> None:
    """Write each split's ratings.jsonl; SystemExit says which lines are wrong."""
    known: dict[str, str] = {}
    for split in ("train", "test"):
        (folder / split / "ratings.jsonl").touch()
        known |= dict.fromkeys((one.id for one in Corpus(folder / split).replies()), split)
    rated, wrong = [], []
    for path in sorted(ratings.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                rated.append(read_rating(line, path.stem))
                if rated[-1].reply not in known:
                    raise ValueError(f"nobody said {rated[-1].reply}")
            except ValueError as error:
                wrong.append(f"{path.name}:{number}: {error}")
    if wrong:
        raise SystemExit("\n".join(wrong))
    for split in ("train", "test"):
        lines = [one.model_dump_json() for one in rated if known[one.reply] == split]
        path = folder / split / "ratings.jsonl"
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        print(f"{split}: {len(lines)} ratings")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
