"""The documentation site without mkdocs: navigation and files agree, links and anchors exist, and
what the new pages print runs as printed.

Blocks of a page run in order in one folder. A block with a title is a file. A comment before a
block says how it is treated: `slow` only in the slow test, `background` beside the following ones,
`fails` with an exit code other than 0, `not run` not at all. Text right after a block is in its
output.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import time
import unicodedata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from paths import ROOT
from typer.main import get_command

import rlver_gym
from rlver_gym.cli import app

DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/rlver-gym/rlver-gym/blob/main/"
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
TUTORIALS = [f"tutorials/{page.stem}" for page in (DOCS / "tutorials").glob("*.md")]
RUN_AS_PRINTED = sorted(["index", "quickstart", "concepts", *TUTORIALS])
NEEDS = {"tutorials/serve": ("serve", "uvicorn")}
"""The extra that the commands of a page need, and a module that comes with it."""
BLOCK = re.compile(
    r"^(?:<!-- (?P<how>[\w ]+) -->\n)?```(?P<language>python|sh|yaml)(?:"
    r' title="(?P<title>[^"]+)")?\n(?P<code>.*?)^```\n(?:```text\n(?P<shown>.*?)^```$)?',
    re.DOTALL | re.MULTILINE,
)

pytestmark = pytest.mark.usefixtures("close_shared_clients")


class Block(NamedTuple):
    how: str
    language: str
    title: str
    code: str
    shown: str


def text_of(page):
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


def blocks_of(page):
    return [Block(*block.groups(default="")) for block in BLOCK.finditer(text_of(page))]


def without_code(text):
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors_of(page):
    """What links can lead to within a page: headings as Python-Markdown names them, objects."""
    text = without_code(page.read_text(encoding="utf-8"))
    anchors = set(re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE))
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = unicodedata.normalize("NFKD", re.sub(r"\]\([^)]*\)|[`*\[]", "", heading))
        plain = re.sub(r"[^\w\s-]", "", plain.encode("ascii", "ignore").decode())
        anchors.add(re.sub(r"[-\s]+", "-", plain.strip().lower()))
    return anchors


def pages_in(nav):
    if isinstance(nav, str):
        yield nav
    for part in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from pages_in(part)


def write_block(block, folder):
    path = folder / block.title
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.code, encoding="utf-8")


def assert_shown(block, output):
    printed = " ".join(output.split())
    for line in block.shown.splitlines():
        assert " ".join(line.split()) in printed, output


def test_the_navigation_names_every_page_once():
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    # Made of the examples' README.
    assert sorted(pages_in(CONFIG["nav"])) == sorted([*pages, "examples/index.md"])


def test_links_lead_to_pages_and_headings():
    """Links within the site, links of the diary, and absolute ones into the repository."""
    others = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md")]
    for page in (*DOCS.rglob("*.md"), *(ROOT / "research").rglob("*.md"), *others):
        for target, anchor in re.findall(
            r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", without_code(page.read_text(encoding="utf-8"))
        ):
            if target.startswith(REPOSITORY):
                led_to = ROOT / target.removeprefix(REPOSITORY)
            elif ":" in target:
                continue
            else:
                led_to = (page.parent / target).resolve() if target else page
                on_the_site = led_to.is_relative_to(DOCS) or led_to.is_relative_to(
                    ROOT / "examples"
                )
                assert on_the_site or not page.is_relative_to(DOCS), (page.name, target)
            assert led_to.exists(), (page.name, target)
            assert not anchor or anchor in anchors_of(led_to), (page.name, target, anchor)


def test_the_pages_have_at_most_21_000_words():
    assert (
        sum(len(page.read_text(encoding="utf-8").split()) for page in DOCS.rglob("*.md")) <= 21_000
    )


def test_the_index_of_research_names_every_file_and_folder():
    index = (ROOT / "research" / "README.md").read_text(encoding="utf-8")
    there = [path.name for path in (ROOT / "research").iterdir() if path.name != "README.md"]
    assert [name for name in there if name[0] not in "_." and name not in index] == []


def test_the_reference_holds_every_public_name():
    names = re.findall(r"^::: rlver_gym\.(\w+)$", text_of("reference"), re.MULTILINE)
    assert sorted(names) == sorted(rlver_gym.__all__)


@pytest.mark.parametrize("page", RUN_AS_PRINTED)
def test_modules_named_on_a_page_exist(page):
    for name in re.findall(r"`(rlver_gym(?:\.\w+)+)`", text_of(page)):
        assert name.removeprefix("rlver_gym.") in rlver_gym.__all__ or find_spec(name), name


@pytest.mark.parametrize("page", RUN_AS_PRINTED)
def test_commands_on_a_page_have_these_options(page):
    code = re.sub(r"\\\n *", "", text_of(page))
    for line in re.findall(r"^ *rlver-gym .+|`rlver-gym [^`]+`", code, re.MULTILINE):
        words = line.strip(" `").split()[1:]
        command = get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        assert {word for word in words if re.match(r"--\w", word)} <= known, line


@pytest.mark.parametrize("page", RUN_AS_PRINTED)
def test_python_on_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    for block in blocks_of(page):
        if block.title:
            write_block(block, tmp_path)
        elif block.language == "python" and not block.how:
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(block.code, {"__name__": "__main__"})
            assert_shown(block, output.getvalue())
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN_AS_PRINTED)
def test_everything_on_a_page_runs_in_order(page, tmp_path):
    extra, module = NEEDS.get(page, ("", ""))
    if module and find_spec(module) is None:
        pytest.skip(f"needs: pip install '.[{extra}]'")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "COLUMNS": "200", "OPENAI_API_KEY": ""}
    beside = []
    try:
        for block in blocks_of(page):
            if block.how == "not run":
                continue
            if block.title:
                write_block(block, tmp_path)
                continue
            if block.how == "background":
                shell = ["bash", "-c", f"exec {block.code}"]
                beside.append(subprocess.Popen(shell, cwd=tmp_path, env=env))
                time.sleep(5)
                continue
            program = sys.executable if block.language == "python" else "bash"
            done = subprocess.run(
                [program, "-c", block.code],
                cwd=tmp_path,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            assert (done.returncode != 0) == (block.how == "fails"), block.code + done.stdout
            assert_shown(block, done.stdout)
    finally:
        for process in beside:
            process.terminate()
            process.wait()
