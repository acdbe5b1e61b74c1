"""Documentation that cannot lie: code blocks run, printed parts are current, examples work."""

import importlib.util
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from paths import FRAMEWORKS, ROOT

from rlver_gym.bench.draft import describe_fields

BLOCKS = re.findall(
    r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {
    "sb3_strategies": "stable_baselines3",
    "train_tiny_qwen": "transformers",
    "trl_grpo": "trl",
    "over_the_wire": "fastapi",
}
"""What an example needs beyond the package; it is skipped where that is absent."""
RUN_ELSEWHERE = ("local_model", *FRAMEWORKS)
"""What the names of the others begin with: test_local_model.py and .ci/integration run them."""
ARGUMENTS = {"sb3_strategies": ["--steps", "1", "--seeds", "1"]}
"""For a short run."""
SHOWS = {
    "first_conversation": r"on the whole\n(.|\n)*their nature: passive",
    "many_at_once": r"advantages \[",
    "your_own_persona": (
        r"wrong with the cards: nothing(.|\n)*Mika   (That one rings|Now you're in tune|I'll"
        r" hum|Well, that was)"
    ),
    "it_answers": r"delivers bread(.|\n)*Saskia's older sister",
    "your_own_user": r"30 words, and a train to catch",
    "your_own_agent": r"your_own_agent:Heartfelt",
    "sb3_strategies": r"ppo +\d+\.\d \[\d+",
}
"""What must be seen in an example's output, as a regular expression."""
LONG = ("sb3_strategies", "trl_grpo", "train_tiny_qwen")
"""Examples that train for half a minute."""


pytestmark = pytest.mark.usefixtures("close_shared_clients")


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_readmes_code_runs(number, tmp_path, monkeypatch):
    if number == 0:
        command = [sys.executable, "-c", BLOCKS[number]]
        subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS[number], {"__name__": "__main__"})


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(one, marks=[pytest.mark.slow] if one.stem in LONG else [], id=one.stem)
        for one in EXAMPLES
        if not one.stem.startswith(RUN_ELSEWHERE)
    ],
)
def test_each_example_runs(example, monkeypatch, capsys):
    if (package := NEEDS.get(example.stem)) and not importlib.util.find_spec(package):
        pytest.skip(f"needs {package}")
    # Learners set up the process as they need it.
    if package or example.stem == "first_conversation":
        command = [sys.executable, str(example), *ARGUMENTS.get(example.stem, [])]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
        shown = done.stdout
    else:
        monkeypatch.setattr(sys, "argv", [str(example)])
        monkeypatch.setattr(sys, "path", [str(example.parent), *sys.path])
        runpy.run_path(str(example), run_name="__main__")
        shown = capsys.readouterr().out
    assert re.search(SHOWS.get(example.stem, "."), shown), shown
    if example.stem == "train_tiny_qwen":
        before, after = map(float, re.findall(r"strangers end at ([\d.]+)", shown))
        assert after > before + 4


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_each_example_is_short(example):
    most = 120 if example.stem == "sb3_strategies" else 59
    assert len(example.read_text(encoding="utf-8").splitlines()) <= most


@pytest.mark.parametrize(("agent", "code"), [("listener", 0), ("gibberish", 5)])
def test_the_steps_of_the_gate_s_workflow_run_as_they_stand(tmp_path, agent, code):
    place = ROOT / "examples" / "gate"
    workflow = yaml.safe_load((place / "gate.yml").read_text(encoding="utf-8"))
    run = {one.get("name"): one.get("run") for one in workflow["jobs"]["gate"]["steps"]}
    (tmp_path / "suite.yaml").write_bytes((place / "suite.yaml").read_bytes())
    text = (place / "friends.py").read_text(encoding="utf-8")
    (tmp_path / "friends.py").write_text(text.replace('"listener"', f'"{agent}"'))
    env = {**os.environ, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
    steps = ["bash", "-e", "-c"]
    gate = subprocess.run([*steps, run["gate"]], cwd=tmp_path, env=env, capture_output=True)
    assert gate.returncode == code, gate.stderr
    subprocess.run([*steps, run["summary"]], cwd=tmp_path, env=env, check=True)
    decision = "fail" if code else "pass"
    assert (tmp_path / "summary.md").read_text().startswith(f"**rlver-gym: {decision}**")
    (upload,) = [one["with"]["path"] for one in workflow["jobs"]["gate"]["steps"][-1:]]
    assert all((tmp_path / file).exists() for file in upload.split())


def test_the_page_of_suites_shows_the_example_and_every_key():
    page = (ROOT / "docs" / "tutorials" / "suite.md").read_text(encoding="utf-8")
    assert (ROOT / "examples" / "gate" / "suite.yaml").read_text(encoding="utf-8") in page
    assert all(f"`{name}`" in page for name in describe_fields())


def test_the_index_of_the_examples_names_them_all():
    index = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((\w+\.py)\)", index)) == [example.name for example in EXAMPLES]


SLOW = pytest.mark.slow, pytest.mark.timeout(900)


@pytest.mark.parametrize(
    "words",
    [
        ("docs/generate.py", "commands", "suite", "dialogue"),
        pytest.param(("docs/generate.py",), marks=SLOW, id="all"),
        pytest.param(("docs/run_notebook.py", "examples/first_hour.ipynb"), marks=SLOW),
    ],
)
def test_what_the_program_prints_in_docs_and_notebook_is_what_it_prints_now(words):
    command = [sys.executable, *words, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_what_the_readme_links_to_is_there():
    """Its links are absolute, for index pages show it as well."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    host = r"https://(?:github|raw\.githubusercontent)\.com/rlver-gym/rlver-gym/"
    paths = re.findall(host + r"(?:blob/)?main/([^\s)#]+)", text)
    assert len(paths) > 10
    assert all((ROOT / path).exists() for path in paths)
    assert len(text.split()) < 700
