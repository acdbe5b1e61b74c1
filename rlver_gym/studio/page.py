"""The studio's pages as one file to keep and send, with all that runs and trainings hold."""

import base64
import gzip
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from rlver_gym.studio.branches import Branches
from rlver_gym.studio.notes import read_notes
from rlver_gym.studio.runs import Runs
from rlver_gym.studio.speakers import Speakers
from rlver_gym.studio.trainings import Trainings, is_training
from rlver_gym.studio.views import Json
from rlver_gym.util import __version__
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.terminal import one_line

MAX_CHARS = 64 << 20
"""Characters of JSON that a browser still opens at once: ten thousand dialogues and more."""


def write_page(folders: Sequence[Path], out: Path | None = None, runs: Runs | None = None) -> Path:
    """Write the page; its path, by default in the first folder. `runs`: if they are read."""
    trainings = Trainings([folder for folder in folders if is_training(folder)])
    runs = runs or Runs([folder for folder in folders if folder not in trainings.folders])
    page = out or folders[0] / ("report.html" if len(folders) == 1 else "compare.html")
    title = " and ".join(folder.resolve().name for folder in folders)
    write_atomically(page, render_page(collect_page_data(runs, trainings), title))
    return page


def collect_page_data(runs: Runs, trainings: Trainings, max_chars: int = MAX_CHARS) -> Json:
    """All that the pages may ask; of more dialogues than fit, those of the lower seeds."""
    rows = runs.overview["dialogues"]
    people: Json = {}
    kept: dict[int, Json] = {}
    size = 0
    for number, row in sorted(enumerate(rows), key=lambda entry: entry[1]["seed"]):
        dialogue = runs.dialogue(row["run"], row["id"])
        size += len(json.dumps(dialogue))
        if size > max_chars:
            break
        person = dialogue.pop("person")
        if person:
            people[person["id"]] = person
        kept[number] = {**dialogue, "person": person and person["id"], "note": ""}
    branches = Branches(runs, Speakers())
    return {
        "overview": {
            **runs.overview,
            "dialogues": [rows[number] for number in sorted(kept)],
            "omitted": len(rows) - len(kept),
            "still": True,
            "agents": [],
            "named": [],
            "helpers": [],
            "trainings": trainings.names,
            "version": __version__,
        },
        "dialogues": [kept[number] for number in sorted(kept)],
        "branches": {label: branches.all_of(run) for label, run in runs.runs.items()},
        "notes": {label: read_notes(run) for label, run in runs.runs.items()},
        "people": people,
        "strategies": runs.strategies,
        "curves": trainings.read(),
    }


def render_page(data: Json, title: str) -> str:
    """The file as text; of the data it holds base64 alone."""
    plain = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    packed = base64.b64encode(gzip.compress(plain.encode(errors="replace"), 9, mtime=0)).decode()
    style, script = _read_static("studio.css"), _read_static("studio.js")
    rules = (
        f"default-src 'none'; script-src '{_hash_for_csp(script)}';"
        f" style-src '{_hash_for_csp(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{rules}">
<meta name="color-scheme" content="light dark">
<title>{escape(one_line(title))}</title>
<style>{style}</style>
</head>
<body>
<div id="studio"></div>
<noscript>Reading this page needs JavaScript. Nothing is loaded from anywhere.</noscript>
<script type="application/gzip" id="data">{packed}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def _read_static(name: str) -> str:
    return (files("rlver_gym.studio") / "static" / name).read_text(encoding="utf-8")


def _hash_for_csp(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
