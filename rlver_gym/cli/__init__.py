"""The command line: one file a command or a group of them that belong together.

Exit codes: 0 fine, 1 found something wrong, 2 could not do what was asked, 3 stopped by a server's
outage, 4 some dialogues failed, 5 a threshold of a suite fails, 130 interrupted.
"""

import os
import signal
import sys
from importlib import import_module
from typing import Any

from rlver_gym.util.stop import exit_at_once


def __getattr__(name: str) -> Any:
    if name == "app":
        return import_module("rlver_gym.cli.root").app
    raise AttributeError(f"module 'rlver_gym.cli' has no attribute {name!r}")


def main() -> None:
    """Run the command line. Ctrl-C ends it with 130, also while the commands are imported."""
    # Some libraries make another error of a KeyboardInterrupt in their import.
    before = signal.signal(signal.SIGINT, exit_at_once)
    # Threads of torch that have nothing to do sleep: on shared cores, those that spin slow it down.
    # It is read when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    root = import_module("rlver_gym.cli.root")
    signal.signal(signal.SIGINT, before)
    try:
        root.main()
    except SystemExit as end:
        # As typer passes Ctrl-C on.
        if end.__context__ and isinstance(end.__context__.__cause__, KeyboardInterrupt):
            print("\nstopped.", file=sys.stderr)
        raise
