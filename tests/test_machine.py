"""How the command line treats the machine: waiting threads sleep, freed memory stays."""

import os
import subprocess
import sys

import pytest

_FAULTS = """
import resource
from rlver_gym.cli.machine import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        b"x" * 2**25
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = faults()
keep_freed_memory()
faults()
print(usual, faults())
"""


def _run(*words: str, **environment: str) -> str:
    given = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "MALLOC_"))}
    return subprocess.run(
        [sys.executable, *words], env=given | environment, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_freed_memory_is_not_given_back_and_cleared_again() -> None:
    usual, kept = map(int, _run("-c", _FAULTS).split())
    assert usual >= 20
    assert kept <= usual / 4


@pytest.mark.parametrize(("environment", "policy"), [({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active")])
def test_waiting_threads_sleep_unless_told_otherwise(environment: dict[str, str], policy: str) -> None:
    code = "import os, sys; from rlver_gym.cli import main; sys.argv = ['rlver-gym', '--version']\ntry: main()\nfinally: print(os.environ['OMP_WAIT_POLICY'])"
    assert _run("-c", code, **environment).split()[-1] == policy
