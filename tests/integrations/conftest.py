"""The adapters that are examples can be imported, as from a project into which they were copied."""

import sys

from paths import ROOT

sys.path.insert(0, str(ROOT / "examples"))
