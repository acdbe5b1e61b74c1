"""Documentation that cannot lie: code blocks run, printed parts are current, examples work."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {"sb3_strategies": "stable_baselines3", "trl_grpo": "trl"}
"""What an example needs beyond the package; it is skipped where that is absent."""


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_readmes_code_runs(number: int, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", BLOCKS[number]], check=True, cwd=tmp_path, capture_output=True)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_short_and_runs(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < 60
    if example.stem == "local_model":
        return  # runs for minutes: see test_local_model.py
    if (package := NEEDS.get(example.stem)) and not importlib.util.find_spec(package):
        pytest.skip(f"needs {package}")
    done = subprocess.run([sys.executable, str(example)], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout


def test_what_the_program_prints_in_the_docs_is_what_it_prints_now() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_links_in_the_docs_lead_somewhere() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page.name, target)
