"""Notes that somebody takes on dialogues, kept beside the run in notes.jsonl."""

import json
from threading import Lock

from rlver_gym.core.cards import MAX_TURNS
from rlver_gym.studio.asks import Name, NoteTurn, Words
from rlver_gym.studio.runs import Run, Runs
from rlver_gym.studio.views import Json
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import RunError, UnknownName
from rlver_gym.util.files import path_inside
from rlver_gym.util.json_lines import read_json_lines

FILE = "notes.jsonl"


class Notes:
    """Those of all open runs: one for each turn of a dialogue, and one for the whole (turn 0)."""

    def __init__(self, runs: Runs) -> None:
        """`runs`: whose dialogues."""
        self._runs = runs
        self._lock = Lock()

    def of(self, run: Name) -> list[Json]:
        """Those of a run: dialogue, turn and text."""
        return read_notes(self._runs.run(run))

    def write(self, run: Name, dialogue: Name, turn: NoteTurn, text: Words) -> list[Json]:
        """Keep a note in place of the one that was there; none for no text. Gives all of the run.
        UnknownName for a turn that is not there.
        """
        found = self._runs.run(run)
        if turn > len(found.find(dialogue).turns):
            raise UnknownName(f"there is no turn {turn} in {dialogue}. Note it at another one.")
        with self._lock:
            kept = {(one["dialogue"], one["turn"]): one for one in read_notes(found)}
            kept.pop((dialogue, turn), None)
            if text.strip():
                kept[dialogue, turn] = {"dialogue": dialogue, "turn": turn, "text": text}
            lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in kept.values()]
            write_atomically(path_inside(found.folder, FILE, error=RunError), "".join(lines))
            return list(kept.values())


def read_notes(run: Run) -> list[Json]:
    """The notes beside a run. RunError names a line that is none."""
    found = []
    for where, line in read_json_lines(run.folder, FILE):
        note = {name: line.get(name) for name in ("dialogue", "turn", "text")}
        is_note = isinstance(note["dialogue"], str) and isinstance(note["text"], str)
        if not is_note or note["turn"] not in range(MAX_TURNS + 1):
            raise RunError(f"{where}: must name dialogue, turn and text. Mend or remove the line.")
        found.append(note)
    return found
