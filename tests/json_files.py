"""Files of JSON lines, read and written."""

import json


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path, values):
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
