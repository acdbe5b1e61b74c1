"""Readers' lines of rating into a folder of the corpus' form.

python -m research.real_qwen.merge RATINGS FOLDER

RATINGS holds one `.jsonl` a sitting, named for its reader, in the form that docs/rubric.md asks for.
FOLDER holds `train` and `test` with moments, dialogues and supporters. A line that is malformed,
unknown, or says "false" without the words is refused by file and number; nothing is written then.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from rlver_gym.core.library import field_errors
from rlver_gym.data.corpus import Corpus, Rating


def read_ratings(folder: Path) -> Iterator[tuple[str, Rating | str]]:
    """Where each line stands, and its rating or what is wrong with it."""
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
                rating = Rating(**{"reply": value.pop("id", ""), **value, "reader": path.stem})
                is_whole = bool(rating.words) == bool(rating.false)
                yield f"{path.name}:{number}", rating if is_whole else "false and words disagree"
            except ValidationError as error:
                yield f"{path.name}:{number}", field_errors(error, "the line")[0]
            except ValueError as error:
                yield f"{path.name}:{number}", str(error)


def main(ratings: Path, folder: Path) -> None:
    """Write each split's ratings.jsonl; SystemExit says which lines are wrong."""
    known = {}
    for split in ("train", "test"):
        (folder / split / "ratings.jsonl").touch()
        known |= dict.fromkeys((one.id for one in Corpus(folder / split).replies()), split)
    found = list(read_ratings(ratings))
    wrong = [f"{where}: {one}" for where, one in found if isinstance(one, str)]
    rated = [(where, one) for where, one in found if isinstance(one, Rating)]
    wrong += [f"{where}: nobody said {one.reply}" for where, one in rated if one.reply not in known]
    if wrong:
        raise SystemExit("\n".join(wrong))
    for split in ("train", "test"):
        lines = [one.model_dump_json() for _, one in rated if known[one.reply] == split]
        path = folder / split / "ratings.jsonl"
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        print(f"{split}: {len(lines)} ratings")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
