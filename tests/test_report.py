"""The report: whole, escaped, and without the network."""

import json
import re
from pathlib import Path

import pytest

from rlver_gym.benchmark.plan import BenchPlan
from rlver_gym.benchmark.report import page_html, write_report
from rlver_gym.benchmark.run import read_episodes, read_manifest, run
from rlver_gym.episode import Episode
from rlver_gym.errors import RunError

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)>&lt;\u2028\"'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    list(run(BenchPlan(agents=("comfort", "listener"), seeds=1, split="demo"), folder))
    return folder


def embedded(page: str) -> list[dict[str, object]]:
    found = re.search(r'<script type="application/json" id="episodes">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found.group(1))


def test_the_page_holds_every_dialogue(folder: Path) -> None:
    page = write_report([folder]).read_text(encoding="utf-8")
    shown = embedded(page)
    episodes = read_episodes(folder)
    assert len(shown) == len(episodes) == 16
    said = {turn[0] for one in shown for turn in one["turns"]}  # pyright: ignore[reportGeneralTypeIssues]
    assert said == {turn.utterance for episode in episodes for turn in episode.turns}


def test_the_page_needs_no_network(folder: Path) -> None:
    page = write_report([folder]).read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href|action)\s*=|url\(|@import|https?://""", page)
    assert "default-src 'none'" in page


def test_hostile_text_stays_text(folder: Path) -> None:
    episodes = read_episodes(folder)
    first = episodes[0]
    turn = first.turns[0]._replace(utterance=HOSTILE, reply=HOSTILE)
    hostile: Episode = first._replace(
        agent=HOSTILE, persona=HOSTILE, need=HOSTILE, env=HOSTILE, opening=HOSTILE, turns=(turn, *first.turns[1:])
    )
    manifest = {**read_manifest(folder), "command": [HOSTILE], "python": HOSTILE, "packages": {HOSTILE: HOSTILE}}
    page = page_html([hostile, *episodes[1:]], [manifest])
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<img" not in page
    shown = next(one for one in embedded(page) if one["agent"] == HOSTILE)
    assert shown["opening"] == HOSTILE


def test_an_empty_run_says_so(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    (tmp_path / "episodes.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="no episodes"):
        write_report([tmp_path])
