"""Where the time of the tests goes: seconds by room, and the longest tests.

python tools/times.py [PYTEST ARGUMENT ...]      (default: the fast tests)

A test's seconds are its own, set-up and tear-down included. Tests run side by side, so that the
rooms add up to more than passed by the clock.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

LONGEST = 15


def time_tests(arguments: list[str]) -> tuple[Counter[str], float, int]:
    """Seconds by test ("tests.ROOM.FILE::NAME"), seconds by the clock, and pytest's exit code."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "times.xml"
        command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *arguments]
        code = subprocess.run(command, check=False).returncode
        seconds: Counter[str] = Counter()
        root = ElementTree.parse(report).getroot()
        for case in root.iter("testcase"):
            name = f"{case.attrib['classname']}::{case.attrib['name']}"
            seconds[name] += float(case.attrib["time"])
        clock_s = sum(float(suite.attrib["time"]) for suite in root.iter("testsuite"))
    return seconds, clock_s, code


def main(arguments: list[str]) -> int:
    """Print a row a room, then a row for each of the longest tests; pytest's exit code."""
    seconds, clock_s, code = time_tests(arguments)
    rooms: Counter[str] = Counter()
    for name, taken_s in seconds.items():
        file = name.partition("::")[0]  # empty for a module that was skipped whole
        rooms[file.split(".")[1] if "." in file else "skipped"] += taken_s
    print(f"\n{clock_s:8.1f} s by the clock, {seconds.total():.1f} s of {len(seconds)} tests\n")
    for name, taken_s in [*rooms.most_common(), ("", 0.0), *seconds.most_common(LONGEST)]:
        print(f"{taken_s:8.1f} s  {name}" if name else "")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
