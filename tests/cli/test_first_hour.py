"""What a newcomer tries first, word for word."""

import re
import subprocess
import sys

from hostile_cards import INDEX, persona_folder
from paths import ROOT
from typer.testing import CliRunner

from rlver_gym.cli.root import app
from rlver_gym.users import EmbeddedUser
from rlver_gym.util import progress
from rlver_gym.util.errors import pip_install

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_work_without_a_terminal_says_how_far_it_is(monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.chdir(tmp_path)
    folder = persona_folder(tmp_path / "one")
    (folder / "index.yaml").write_text(INDEX.replace("demo", "test"), encoding="utf-8")
    for words in (
        ["redteam", "--attack", "threats", "--personas", str(folder), "--seeds", "3", "--json"],
        ["bench", "--agent", "silent", "--persona", "noor-the-old-dog", "--json"],
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        lines = [line for line in done.stderr.splitlines() if re.search(r": \d+ of \d+$", line)]
        assert len(lines) >= 2, done.stderr


def test_short_work_says_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 600.0)
    words = ["bench", "--agent", "silent", "--persona", "noor-the-old-dog", "--json"]
    assert " of " not in CliRunner().invoke(app, words).stderr


def test_the_help_of_train_is_short_and_all_of_it_can_be_had():
    env = {"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
    everything, usual = (
        CliRunner().invoke(app, ["train", option], env=env).stdout
        for option in ("--help-all", "--help")
    )
    assert len(usual.splitlines()) < 100 < len(everything.splitlines())
    assert "--help-all" in usual
    assert "--gae-lambda" not in usual
    assert "--gae-lambda" in everything
    assert set(re.findall(r"--[a-z-]+", usual)) <= set(re.findall(r"--[a-z-]+", everything))


def test_an_extra_is_installed_from_where_the_package_came_from():
    script = (
        "import importlib.metadata as m\n"
        "class Found:\n"
        "    def __init__(self, text): self.text = text\n"
        "    def read_text(self, name): return self.text\n"
        "import rlver_gym.util.errors as errors\n"
        'clone, other = \'{"url": "file:///x"}\', \'{"url": "https://x/y.whl"}\'\n'
        "for texts in ([clone], [None, clone], [None], [other], []):\n"
        "    errors.distributions = lambda name: map(Found, texts)\n"
        "    errors.pip_install.cache_clear()\n"
        "    print(errors.pip_install('sb3'))\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout
    clone = "pip install '.[sb3]' (in the folder of the clone)"
    assert shown.splitlines() == [
        clone,
        clone,
        "pip install 'rlver-gym[sb3]'",
        "pip install 'rlver-gym[sb3]'",
        clone,
    ]
    assert pip_install("sb3") == clone, "the tests run in a clone"


def test_the_readme_names_clone_version_and_time_and_exports_no_test_people():
    assert "git clone https://github.com/rlver-gym/rlver-gym" in README
    assert re.search(r"The fast tests, .* cores", README)
    assert f"embedded user version {EmbeddedUser().version}" in README
    exported = re.findall(r"rlver-gym export (\S+)", README)
    for folder in exported:
        assert re.search(rf"bench --split train .*--out {folder}\n", README), folder
