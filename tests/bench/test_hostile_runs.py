"""Commands on run folders and caches of a stranger: refused by name or shown as text, no more."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from commands import invoke
from hostile_run import (
    ESCAPES,
    FILES,
    MANIFESTS,
    command_at,
    edit_manifest,
    honest_run,
    noisy_cache,
    noisy_run,
)
from pages import alarms, read_page

from rlver_gym import RlverError
from rlver_gym.bench.folder import EPISODES, RESPONSE_CACHE_FILE, read_episodes
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.recompute import Sources
from rlver_gym.bench.run import run
from rlver_gym.bench.verify import verify
from rlver_gym.environment.episode import Episode
from rlver_gym.llm_client.connect import close
from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.policy.learning.metrics import METRICS
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.util import shipped_cards
from rlver_gym.util.errors import CacheError, RunError, UnknownName
from rlver_gym.util.terminal import printable

pytestmark = pytest.mark.timeout(600)

PAGE = "report.html"
FORMATS = ("openai", "sharegpt", "sft", "dpo", "hf")
PLAN = BenchPlan(agents=("comfort",), seeds=1, persona_ids=("noor-missed-evening",))
_ACTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect")
_watched = []
_watching = []
"""The folder in which nothing may be opened, while a test looks."""


def _audit(event, arguments):
    if not _watching:
        return
    if event in _ACTS or (
        event in ("open", "sqlite3.connect") and str(arguments[0]).startswith(_watching[0])
    ):
        _watched.append(f"{event} {arguments[0]!s:.200}")


sys.addaudithook(_audit)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return honest_run(tmp_path_factory.mktemp("honest"))


@pytest.fixture
def folder(honest, tmp_path):
    return Path(shutil.copytree(honest, tmp_path / "run"))


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


@pytest.fixture
def watched(outside):
    """What was done or opened outside while the commands ran: should be nothing."""
    _watched.clear()
    yield _watched
    _watching.clear()


def read_all(folder):
    """What lies in a folder, without opening what is no file."""
    return {
        path.name: path.read_bytes() if path.is_file() else path.lstat().st_size
        for path in folder.iterdir()
    }


def check_untouched(folder, outside, out, error, says):
    """`verify` refuses the run in these words, and no command does or opens anything outside."""
    before = read_all(outside)
    _watching.append(str(outside))
    with pytest.raises(error, match=re.compile(says, re.DOTALL)):
        list(verify(folder))
    for words in commands(folder, out):
        invoke(*words)
    _watching.clear()
    assert _watched == []
    assert read_all(outside) == before


def commands(folder, at):
    cache = folder / RESPONSE_CACHE_FILE
    return [
        ("verify", folder),
        ("verify", folder, "--json"),
        ("report", folder),
        ("report", folder, "--json"),
        ("rescore", folder, "--user", "embedded"),
        *(("export", folder, "--to", to, "--out", at / to) for to in FORMATS),
        ("export", folder, "--to", "hf"),
        ("export", folder, "--to", "openai", "--json"),
        ("export", folder, "--to", "sft", "--split", "train"),
        (*"bench --agent comfort --seeds 1 --persona noor-missed-evening --out".split(), folder),
        ("cache", "stats", cache),
        ("cache", "export", cache),
        ("cache", "prune", cache, "--damaged", "--dry-run"),
        ("cache", "prune", cache, "--damaged"),
        ("cache", "stats", cache, "--json"),
    ]


def test_a_noisy_run_is_shown_as_text_by_every_command(tmp_path, outside, watched):
    folder = noisy_run(tmp_path / "run")
    _watching.append(str(outside))
    out = tmp_path / "out"
    out.mkdir()
    for words in commands(folder, out):
        result = invoke(*words, width=400)
        said = f"{result.output}{result.exception or ''}"
        assert printable(said) == said, words
    assert watched == []
    assert not list(outside.iterdir())
    card = (out / "hf" / "README.md").read_text(encoding="utf-8")
    assert printable(card) == card
    row = next(line for line in card.splitlines() if line.startswith("| openai:comfort"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 4
    assert r"\<img src=x\>\`" in row
    page = folder / PAGE
    text = page.read_text(encoding="utf-8")
    assert printable(text) == text
    assert "<img" not in text
    assert "owned" in json.dumps(read_page(page))
    table = invoke("report", folder, width=400).output
    assert "[/nope]" in table
    by_agent = table.partition("final emotion by hidden need")[0]  # the next table folds names
    assert by_agent.count("|<img src=x>") == 2
    assert not [line for line in by_agent.splitlines() if line.startswith("<img")]


@pytest.mark.parametrize("name", MANIFESTS)
def test_nothing_that_a_manifest_names_is_run_or_opened(name, folder, outside, tmp_path, watched):
    edit, says = MANIFESTS[name]
    edit_manifest(folder, lambda there: edit(there, outside))
    check_untouched(folder, outside, tmp_path / "out", RlverError, says)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_none_of_a_run_is_refused_by_name(name, folder, outside, tmp_path, watched):
    make, says = FILES[name]
    make(folder, outside)
    check_untouched(folder, outside, tmp_path / "out", RunError, says)


@pytest.mark.parametrize("name", ["report.html", "openai.jsonl.part", "hf"])
def test_what_is_written_into_a_run_folder_stays_there(folder, outside, name):
    precious = outside / "precious"
    if name == "hf":
        precious.mkdir()
    file = precious / "README.md" if name == "hf" else precious
    file.write_text(mine := "<!-- written by rlver-gym export -->")
    (folder / name).symlink_to(precious)
    invoke("report", folder)
    for to in ("openai", "hf"):
        invoke("export", folder, "--to", to)
    assert [path.name for path in outside.iterdir()] == ["precious"]
    assert file.read_text() == mine


USER = """
from rlver_gym.users import EmbeddedUser
class Mine(EmbeddedUser):
    kind = "mine"
    def __init__(self, name=1):
        super().__init__()
        self.version = f"7/{name}"
"""


def test_an_honest_run_with_ones_own_user_verifies_when_the_user_is_named(tmp_path, monkeypatch):
    (tmp_path / "mine_for_verify.py").write_text(USER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    mine = {"user": "mine_for_verify:Mine", "user_options": {"name": 2}}
    list(run(PLAN.model_copy(update=mine), tmp_path / "run"))
    with pytest.raises(RunError, match="'mine_for_verify:Mine', which does not come with"):
        list(verify(tmp_path / "run"))
    with pytest.raises(RunError, match="Name the same: --user-option"):
        list(verify(tmp_path / "run", sources=Sources(user="mine_for_verify:Mine")))
    with pytest.raises(UnknownName, match=r"no option 'name'.*'embedded' takes no options"):
        list(verify(tmp_path / "run", sources=Sources(user="embedded")))
    named = ("--user", mine["user"], "--user-option", "name=2")
    assert "1 episode recomputed" in invoke("verify", tmp_path / "run", *named).output


def test_a_run_with_ones_own_cards_verifies_with_the_manifests_env_card_and_named_personas(
    tmp_path,
):
    card = (shipped_cards("envs") / "SAGE-Sentient-v0.yaml").read_text(encoding="utf-8")
    mine = card.replace("SAGE-Sentient-v0", "Mine-v0")
    (tmp_path / "mine.yaml").write_text(mine, encoding="utf-8")
    people = shipped_cards("personas") / "en"
    mine = {"env": str(tmp_path / "mine.yaml"), "personas": str(people)}
    list(run(PLAN.model_copy(update=mine), tmp_path / "run"))
    (tmp_path / "mine.yaml").unlink()
    with pytest.raises(RunError, match="--personas DIR"):
        list(verify(tmp_path / "run"))
    found = json.loads(invoke("report", tmp_path / "run", "--json").stdout)
    told = found["verified"][str(tmp_path / "run")]  # unsound is not said before they are named
    assert (told["sound"], told["asked_again"], told["problems"]) == (None, [], {})
    assert "run: not recomputed. " in alarms(tmp_path / "run" / PAGE)[0]
    overview = read_page(tmp_path / "run" / PAGE)["overview"]
    assert str(tmp_path) not in json.dumps(overview | {"tables": []})
    assert list(verify(tmp_path / "run", sources=Sources(personas=str(people)))) == [None]
    other = Sources(personas=str(people), env="RLVER-Empathy-v0")
    with pytest.raises(RunError, match="env_hash is"):
        list(verify(tmp_path / "run", sources=other))


def _set(name, value, turn=None):
    return lambda record: (record if turn is None else record["turns"][turn]).update({name: value})


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (_set("emotion", -5, 0), "emotion of turn 1: must be at least 0"),
        (_set("change", 11, 0), "change of turn 1: must be at most 10"),
        (_set("reward", 1e300, 0), "reward of turn 1"),
        (_set("reasons", [["a", "1", "b"]], 0), "reasons.0.1.* of turn 1: must be"),
        (_set("reasons", [["a", 1.0, 5]], 0), "reasons.0.2 of turn 1: must be text"),
        (_set("disclosures", "the-dog", 0), "disclosures of turn 1: must be a list"),
        (_set("disclosures", ["the-dog"] * 401, 0), "disclosures of turn 1: has too many"),
        (_set("need", "[/nope]"), "need of the episode: must be 'not_at_fault'"),
        (_set("seed", -1), "seed of the episode: must be at least 0"),
        (_set("turns", [{}] * 21), "turns of the episode: has too many"),
        (_set("thought", "\ud800", 0), "lone surrogate"),
    ],
)
def test_an_episode_with_a_value_out_of_its_range_is_none(folder, edit, says):
    path = folder / EPISODES
    first, *rest = path.read_text(encoding="utf-8").splitlines()
    record = json.loads(first)
    edit(record)
    with pytest.raises(RunError, match=says):
        Episode.from_json(json.dumps(record))
    path.write_text("\n".join([json.dumps(record), *rest, ""]), encoding="utf-8")
    assert invoke("verify", folder).exit_code == 1
    assert isinstance(invoke("report", folder).exception, RunError)
    assert isinstance(invoke("export", folder, "--to", "sft").exception, RunError)


@pytest.mark.parametrize("number", ["1e999", "NaN", "9" * 5000])
def test_numbers_beyond_all_use_are_no_episode(folder, number):
    path = folder / EPISODES
    text = path.read_text(encoding="utf-8")
    edited = re.sub(r'"reward":[-0-9.]+', f'"reward":{number}', text, count=1)
    path.write_text(edited, encoding="utf-8")
    with pytest.raises(RunError, match=r"line 1: not an episode record"):
        read_episodes(folder)


def test_damaged_answers_and_keys_are_counted_and_pruned(tmp_path):
    path = tmp_path / "cache"
    noisy_cache(path)
    stats = invoke("cache", "stats", path, "--json")
    assert (stats.exit_code, json.loads(stats.stdout)["damaged"]) == (1, 1)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE answers SET key = CAST(X'C3' AS TEXT) WHERE model LIKE 'one%'")
    assert "2 requests forgotten" in invoke("cache", "prune", path, "--damaged").output
    assert invoke("cache", "stats", path).exit_code == 0


def test_a_cache_that_is_only_read_is_neither_made_nor_changed(tmp_path):
    path = tmp_path / "cache"
    path.touch()
    with pytest.raises(CacheError, match="an empty file, not a response cache"):
        ResponseCache(path, read_only=True)
    assert path.stat().st_size == 0
    path.unlink()
    with pytest.raises(CacheError, match="there is no response cache"):
        ResponseCache(path, read_only=True)
    noisy_cache(path)
    before = path.read_bytes()
    cache = ResponseCache(path, read_only=True)
    row, _ = cache.rows()
    with pytest.raises(CacheError):
        cache.delete([row.key])
    cache.close()
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["cache"]


@pytest.mark.timeout(200)
def test_a_cache_whose_table_is_a_query_that_never_ends_is_refused(tmp_path):
    noisy_cache(tmp_path / "cache")
    with sqlite3.connect(tmp_path / "cache") as db:
        columns = ", ".join(f"x AS {row[1]}" for row in db.execute("PRAGMA table_info(answers)"))
        db.execute("DROP TABLE answers")
        db.execute(
            "CREATE VIEW answers AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM"
            f" n) SELECT {columns} FROM n"
        )
    db.close()
    for command in ("stats", "export"):
        with pytest.raises(CacheError, match="more or other than a response cache's one table"):
            raise invoke("cache", command, tmp_path / "cache").exception or AssertionError
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CacheError, match="not a regular file"):
        ResponseCache(tmp_path / "pipe", read_only=True)


def test_a_cache_that_leads_out_of_the_folder_is_not_opened(tmp_path, outside, watched):
    with ChatServer(EmbeddedAnswers(card="SAGE-Sentient-v0")) as server:
        chat = ChatSettings(base_url=server.base_url)
        list(run(PLAN.model_copy(update={"user": "openai:m", "chat": chat}), tmp_path / "run"))
    assert list(verify(tmp_path / "run")) == [None]
    close()
    (tmp_path / "run" / RESPONSE_CACHE_FILE).rename(outside / "cache")
    (tmp_path / "run" / RESPONSE_CACHE_FILE).symlink_to(outside / "cache")
    _watching.append(str(outside))
    with pytest.raises(RunError, match="leads out of the folder"):
        list(verify(tmp_path / "run"))
    assert watched == []
    _watching.clear()
    assert list(verify(tmp_path / "run", outside / "cache")) == [None]


def test_the_bait_itself_would_be_found(outside, watched):
    _watching.append(str(outside))
    subprocess.run(command_at(outside), check=True)
    (outside / "executed").read_bytes()
    # By which Python 3.13 starts processes.
    acts = [one.split()[0] for one in watched if "posix_spawn" not in one]
    assert acts == ["subprocess.Popen", "open"]
    assert "\x1b" in ESCAPES


def test_curves_are_drawn_from_sound_metrics_and_into_the_folder_alone(tmp_path, outside):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / METRICS).write_text(
        '{"iteration":1,"emotion":40.5,"kl":null}\n{"iteration":2,"emot', encoding="utf-8"
    )
    (outside / "precious").write_text("mine")
    (folder / PAGE).symlink_to(outside / "precious")
    assert f"report  {folder / PAGE}" in invoke("report", folder).output
    assert (outside / "precious").read_text() == "mine"
    assert read_page(folder / PAGE)["curves"][0]["columns"] == {"emotion": [40.5], "kl": [None]}
    (folder / METRICS).unlink()
    (folder / METRICS).symlink_to("/dev/zero")
    assert "leads out of the folder" in str(invoke("report", folder).exception)


def test_splits_of_a_run_with_its_own_cards_are_known_when_the_cards_are_named(folder):
    edit_manifest(folder, lambda there: there.update(persona_folder="/somewhere"))
    result = invoke("export", folder, "--to", "sft", "--split", "demo")
    assert "name them with --personas DIR" in str(result.exception)
    named = ("--personas", shipped_cards("personas") / "en")
    assert invoke("export", folder, "--to", "sft", *named).exit_code == 0
    row = json.loads((folder / "sft.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert row["metadata"]["split"] in ("train", "test", "demo")
