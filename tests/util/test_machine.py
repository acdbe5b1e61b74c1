"""How the command line treats the machine: waiting threads sleep, freed memory stays."""

import os
import subprocess
import sys
from unittest.mock import patch

import pytest

from rlver_gym.cli import main

_FAULTS = """
import resource
from rlver_gym.util.machine import keep_freed_memory

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


def without_settings():
    """The environment, but for what decides about threads and memory."""
    return {
        key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "MALLOC_"))
    }


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_freed_memory_is_not_given_back_and_cleared_again():
    code = [sys.executable, "-c", _FAULTS]
    done = subprocess.run(code, env=without_settings(), check=True, capture_output=True, text=True)
    usual, kept = map(int, done.stdout.split())
    assert usual >= 20
    assert kept <= usual / 4


@pytest.mark.parametrize(
    ("environment", "policy"), [({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active")]
)
def test_waiting_threads_sleep_unless_told_otherwise(environment, policy, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["rlver-gym", "--version"])
    with patch.dict(os.environ, without_settings() | environment, clear=True):
        with pytest.raises(SystemExit):
            main()
        assert os.environ["OMP_WAIT_POLICY"] == policy
