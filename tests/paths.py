"""Where things are that several tests read."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"


def _read_names(place, pattern):
    names = re.search(pattern, (ROOT / place).read_text(encoding="utf-8"), re.MULTILINE)
    assert names, place
    return re.findall(r"\w+", names[1])


FRAMEWORKS = (
    *_read_names(".github/workflows/tests.yml", r"^ *framework: \[(.*)\]$"),
    *_read_names(".ci/full", r'^LARGE="(.*)"$'),
)
"""What `.ci/full integrations` runs, each in an environment of its own."""
