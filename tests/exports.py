"""What is exported, read again."""

import json

from rlver_gym.bench.export.export import ExportOptions, export
from rlver_gym.bench.export.select_dialogues import DialogueFilter


def rows(
    folder,
    to,
    tmp_path,
    wanted=DialogueFilter(),  # noqa: B008
    **options,
):
    out = tmp_path / f"{to}.jsonl"
    assert export([folder], to, out, wanted, ExportOptions(**options)).path == out
    return [json.loads(line) for line in out.read_text(encoding="utf-8").split("\n")[:-1]]
