"""What is built is complete: the package in the wheel, the project in the source distribution."""

import configparser
import re
import shutil
import subprocess
import sys
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest
from paths import ROOT

import rlver_gym

FOLDERS = {"rlver_gym": "rlver_gym", "envs": "rlver_gym/envs", "personas": "rlver_gym/personas"}
"""Where the files of the package are, and where the wheel puts them."""
ALONE = "rlver_empathy.py"
"""A module beside the package: verifiers finds it by its name."""
BESIDE = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", ALONE)
"""What building needs besides."""
LEFT_OVER = shutil.ignore_patterns("__pycache__", "*.py[co]", ".DS_Store")
HOSTS_OWN = ".github/"
"""What the source distribution leaves out."""


def files_of_the_tree():
    """Every file of the package: its path in the wheel, and in the tree."""
    return {
        f"{inside}/{path.relative_to(ROOT / folder).as_posix()}": path.relative_to(ROOT).as_posix()
        for folder, inside in FOLDERS.items()
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file()
        and "__pycache__" not in path.parts
        and path.suffix not in {".pyc", ".pyo"}
    }


def git(*words):
    """What git lists; skips where there is no git, or no repository of this project."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("needs the repository")
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def settings():
    read = configparser.ConfigParser()
    read.read(ROOT / "setup.cfg", encoding="utf-8")
    return read


def test_every_folder_with_modules_is_a_package_that_is_listed(settings):
    listed = set(settings["options"]["packages"].split())
    with_modules = {
        Path(path).parent.as_posix().replace("/", ".")
        for path in files_of_the_tree()
        if path.endswith(".py")
    }
    assert with_modules == listed - {"rlver_gym.envs", "rlver_gym.personas"}
    inits = [ROOT / name.replace(".", "/") / "__init__.py" for name in with_modules]
    assert all(path.exists() for path in inits)


def test_every_data_file_is_named_in_the_settings(settings):
    patterns = [
        (f"{package.replace('.', '/')}/{one.strip()}")
        for package, several in settings["options.package_data"].items()
        for one in several.split(",")
    ]
    data = [path for path in files_of_the_tree() if not path.endswith(".py")]
    depth = {pattern: pattern.count("/") for pattern in patterns}
    found = {
        one: [path for path in data if fnmatch(path, one) and path.count("/") == depth[one]]
        for one in patterns
    }
    assert [path for path in data if not any(path in several for several in found.values())] == []
    assert [pattern for pattern, several in found.items() if not several] == []


def test_every_pip_finds_an_extra_by_its_name(settings):
    """Built metadata hold extras in this form, and pip 23.2, which Python 3.11 brings along, looks
    for them as they were typed: it installs nothing for `[inspect_ai]`, and only warns.
    """
    extras = settings["options.extras_require"]
    assert [name for name in extras if re.sub(r"[-_.]+", "-", name).lower() != name] == []


def test_git_ignores_no_file_of_the_package():
    ignored = git("ls-files", "--others", "--ignored", "--exclude-standard", *FOLDERS)
    assert [path for path in ignored if not re.search(r"__pycache__|\.DS_Store$", path)] == []


def test_every_file_of_the_project_is_in_the_source_distribution():
    lines = [
        line.split() for line in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    ]
    whole = tuple(f"{words[1]}/" for words in lines if words[:1] == ["graft"])
    single = ["MANIFEST.in", *(words[1] for words in lines if words[:1] == ["include"])]
    missing = [
        path
        for path in git("ls-files")
        if (ROOT / path).exists() and not path.startswith((*whole, HOSTS_OWN))
        if not ("/" not in path and any(fnmatch(path, one) for one in single))
    ]
    assert missing == []


def test_an_index_page_can_follow_the_readmes_links_and_show_its_pictures():
    text = re.sub(
        r"```.*?```", "", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    targets = re.findall(
        r"\]\(([^)\s]+)|^\[[^\]]+\]:\s*(\S+)|(?:src|href)=\"([^\"]+)\"", text, re.MULTILINE
    )
    links = [one for groups in targets for one in groups if one]
    assert links
    assert [one for one in links if not one.startswith(("https://", "#", "mailto:"))] == []


def test_the_citation_names_the_version_of_the_package():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (\S+)$", text, re.MULTILINE) == [rlver_gym.__version__]


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(tmp_path):
    copy = tmp_path / "copy"
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=LEFT_OVER)
    for name in BESIDE:
        shutil.copy(ROOT / name, copy)
    words = "-m pip wheel --quiet --no-deps --wheel-dir".split()
    command = [sys.executable, *words, str(tmp_path), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        held = {name: archive.read(name) for name in names}
    tree = files_of_the_tree() | {ALONE: ALONE}
    assert sorted(held) == sorted(tree)
    assert held == {name: (copy / tree[name]).read_bytes() for name in held}
