"""What is exported, read again."""

import json
from pathlib import Path
from typing import Any

from rlver_gym.bench.export.export import ExportOptions, Format, export
from rlver_gym.bench.export.select_dialogues import DialogueFilter


def rows(
    folder: Path,
    to: Format,
    tmp_path: Path,
    wanted: DialogueFilter = DialogueFilter(),  # noqa: B008
    **options: Any,
) -> list[dict[str, Any]]:
    out = tmp_path / f"{to}.jsonl"
    assert export([folder], to, out, wanted, ExportOptions(**options)).path == out
    return [json.loads(line) for line in out.read_text(encoding="utf-8").split("\n")[:-1]]
