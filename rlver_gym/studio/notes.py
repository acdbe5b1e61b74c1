"""Notes that somebody takes on dialogues, kept beside the run in notes.jsonl."""

from rlver_gym.bench.side_files import NOTES
from rlver_gym.core.cards import MAX_TURNS
from rlver_gym.studio.request_fields import Name, NoteTurn, Words
from rlver_gym.studio.runs import Run, Runs
from rlver_gym.studio.views import Json
from rlver_gym.util.errors import RunError, UnknownName
from rlver_gym.util.json_lines import append_json, read_json_lines


class Notes:
    """Those of all open runs: one for each turn of a dialogue, and one for the whole (turn 0)."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def of(self, run: Name) -> list[Json]:
        return read_notes(self._runs.run(run))

    def write(self, run: Name, dialogue: Name, turn: NoteTurn, text: Words) -> list[Json]:
        """Keep a note in place of the one there; none for no text. Gives all of the run."""
        benched = self._runs.run(run)
        if turn > len(benched.find(dialogue).turns):
            raise UnknownName(f"there is no turn {turn} in {dialogue}. Note it at another one.")
        note = {"dialogue": dialogue, "turn": turn, "text": text}
        append_json(benched.folder, NOTES, note)
        return read_notes(benched)


def read_notes(run: Run) -> list[Json]:
    """The notes beside a run, the last of each place. RunError for a line that is none."""
    notes: dict[tuple[str, int], Json] = {}
    for where, line in read_json_lines(run.folder, NOTES):
        key, turn, text = (line.get(name) for name in ("dialogue", "turn", "text"))
        if (
            not isinstance(key, str)
            or not isinstance(text, str)
            or not isinstance(turn, int)
            or not 0 <= turn <= MAX_TURNS
        ):
            raise RunError(f"{where}: must name dialogue, turn and text. Mend or remove the line.")
        notes.pop((key, turn), None)
        if text.strip():
            notes[key, turn] = {"dialogue": key, "turn": turn, "text": text}
    return list(notes.values())
