"""The benchmark: resumed anywhere, verified against edits, the same on every machine."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rlver_gym.benchmark.plan import BenchPlan
from rlver_gym.benchmark.run import EPISODES, read_episodes, run
from rlver_gym.benchmark.score import bootstrap, paired, persona_finals, scores
from rlver_gym.benchmark.verify import Divergence, verify
from rlver_gym.emotion import Outcome
from rlver_gym.episode import Episode
from rlver_gym.errors import AgentError, RunError, UnknownName

AGENTS = ("comfort", "listener", "oracle")


@pytest.fixture(scope="module")
def plan() -> BenchPlan:
    return BenchPlan(agents=AGENTS, seeds=2, split="demo")


@pytest.fixture(scope="module")
def finished(plan: BenchPlan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    assert len(list(run(plan, folder))) == len(plan.cases())
    return folder


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def edited(folder: Path, line: int, edit: object) -> None:
    """Apply `edit` to the plain record of one line (counted from 1)."""
    path = folder / EPISODES
    lines = path.read_text(encoding="utf-8").split("\n")
    record = json.loads(lines[line - 1])
    edit(record)  # pyright: ignore[reportCallIssue]
    lines[line - 1] = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    path.write_text("\n".join(lines), encoding="utf-8")


def first_divergence(folder: Path) -> Divergence | None:
    return next((result for result in verify(folder) if result), None)


def test_a_record_survives_json(finished: Path) -> None:
    for episode in read_episodes(finished):
        assert Episode.from_json(episode.to_json()) == episode
        assert episode.total_reward == episode.final - episode.start


def test_a_second_run_adds_nothing(plan: BenchPlan, copy: Path) -> None:
    before = (copy / EPISODES).read_bytes()
    assert list(run(plan, copy)) == []
    assert (copy / EPISODES).read_bytes() == before


@pytest.mark.parametrize("cut", [1, 17, 1000, 20_000])
def test_a_cut_file_is_finished_as_if_never_stopped(plan: BenchPlan, copy: Path, cut: int) -> None:
    path = copy / EPISODES
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert list(run(plan, copy))
    assert path.read_bytes() == whole


def test_a_folder_of_another_plan_is_refused(plan: BenchPlan, copy: Path) -> None:
    with pytest.raises(RunError, match="another plan"):
        list(run(plan.model_copy(update={"seeds": 1}), copy))


def test_a_damaged_line_is_named(copy: Path, plan: BenchPlan) -> None:
    path = copy / EPISODES
    lines = path.read_text(encoding="utf-8").split("\n")
    lines[2] = lines[2][:50]
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(RunError, match="line 3"):
        list(run(plan, copy))


def test_a_sound_run_verifies(finished: Path, plan: BenchPlan) -> None:
    assert list(verify(finished)) == [None] * len(plan.cases())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reward", 3.25),
        ("change", 9),
        ("emotion", 77),
        ("utterance", "Something that nobody said."),
        ("thought", "Hm."),
        ("reply", "Hm."),
        ("reasons", []),
        ("check", "0" * 12),
    ],
)
def test_an_edit_is_found_at_its_turn(copy: Path, field: str, value: object) -> None:
    edited(copy, 4, lambda record: record["turns"][2].update({field: value}))
    found = first_divergence(copy)
    assert found
    assert (found.line, found.turn) == (4, 3)
    assert found.episode == "/".join(map(str, read_episodes(copy)[3].key))


def test_one_word_that_changes_no_feeling_is_found_too(copy: Path) -> None:
    def one_word(record: dict[str, list[dict[str, str]]]) -> None:
        words = record["turns"][1]["utterance"].split(" ")
        words[-1] = words[-1] + " indeed"
        record["turns"][1]["utterance"] = " ".join(words)

    edited(copy, 7, one_word)
    found = first_divergence(copy)
    assert found
    assert (found.line, found.turn) == (7, 2)


@pytest.mark.parametrize(
    "edit",
    [
        lambda record: record.update(seed=5),
        lambda record: record.update(persona_hash="0" * 16),
        lambda record: record.update(final=100),
        lambda record: record.update(outcome="content"),
        lambda record: record["turns"].pop(),
        lambda record: record.update(extra=1),
        lambda record: record.update(agent="best"),
    ],
)
def test_edits_of_an_episode_are_found(copy: Path, edit: object) -> None:
    edited(copy, 2, edit)
    found = first_divergence(copy)
    assert found
    assert found.line == 2


def test_missing_doubled_and_swapped_episodes_are_found(copy: Path) -> None:
    path = copy / EPISODES
    whole = path.read_text(encoding="utf-8")
    lines = whole.split("\n")
    for changed in (lines[:3] + lines[4:], lines[:3] + lines[2:], [lines[1], lines[0], *lines[2:]], [*lines[:-2], ""]):
        path.write_text("\n".join(changed), encoding="utf-8")
        assert first_divergence(copy)
    path.write_text(whole.rstrip("\n"), encoding="utf-8")
    with pytest.raises(RunError, match="cut off"):
        list(verify(copy))


def test_an_edited_manifest_is_refused(copy: Path) -> None:
    path = copy / "manifest.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"seeds": 2', '"seeds": 3'), encoding="utf-8")
    with pytest.raises(RunError, match="edited manifest"):
        list(verify(copy))
    path.write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match="not valid JSON"):
        list(verify(copy))


def test_scores_pair_by_persona(finished: Path) -> None:
    ranked = scores(read_episodes(finished))
    assert ranked[0].agent == "oracle"
    assert ranked[0].to_best is None
    worst = ranked[-1]
    assert worst.to_best
    assert worst.to_best.mean == pytest.approx(worst.final.mean - ranked[0].final.mean)
    assert worst.to_best.low <= worst.to_best.mean <= worst.to_best.high < 0
    assert set(ranked[0].needs) == {episode.need for episode in read_episodes(finished)}


def test_a_failed_dialogue_is_no_score(finished: Path) -> None:
    episodes = read_episodes(finished)
    broken = episodes[0]._replace(
        turns=(*episodes[0].turns[:-1], episodes[0].turns[-1]._replace(outcome=Outcome.FAILED, emotion=0))
    )
    score = next(score for score in scores([broken, *episodes[1:]]) if score.agent == broken.agent)
    assert (score.failed, score.episodes) == (1, len(episodes) // len(AGENTS))
    others = [episode for episode in episodes[1:] if episode.agent == broken.agent]
    assert score.final.mean == pytest.approx(np.mean(list(persona_finals(others, broken.agent).values())))


def test_bootstrap_by_hand() -> None:
    assert bootstrap(np.array([50.0, 50.0, 50.0])) == (50.0, 50.0, 50.0)
    interval = bootstrap(np.array([0.0, 100.0]))
    assert interval == (50.0, 0.0, 100.0)
    assert paired({"a": 60.0, "b": 50.0}, {"a": 50.0, "b": 40.0, "c": 0.0}) == (10.0, 10.0, 10.0)


def test_unknown_agents_get_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="listener"):
        list(run(BenchPlan(agents=("listner",), split="demo"), tmp_path))
    with pytest.raises(AgentError, match="PYTHONPATH"):
        list(run(BenchPlan(agents=("nowhere.agents:Mine",), split="demo"), tmp_path))


COMMAND = [
    sys.executable,
    "-m",
    "rlver_gym",
    "bench",
    "--split",
    "demo",
    "--seeds",
    "2",
    *(word for agent in AGENTS for word in ("--agent", agent)),
]


@pytest.mark.slow
def test_killed_ten_times_at_random_it_ends_like_an_uninterrupted_run(tmp_path: Path) -> None:
    command = [*COMMAND[:7], "8", *COMMAND[8:], "--agent", "adaptive"]
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, capture_output=True)
    rng = random.Random(0)
    killed = 0
    for _ in range(60):
        started = time.monotonic()
        process = subprocess.Popen(
            [*command, "--out", str(tmp_path / "killed")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(rng.uniform(0.7, 1.3))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
        if process.returncode == 0 and killed >= 10:
            break
        if killed < 10 and process.returncode == 0:  # finished too soon: begin again, to be killed more often
            shutil.rmtree(tmp_path / "killed")
        assert time.monotonic() - started < 60
    subprocess.run([*command, "--out", str(tmp_path / "killed")], check=True, capture_output=True)
    assert killed >= 10
    assert (tmp_path / "killed" / EPISODES).read_bytes() == (tmp_path / "whole" / EPISODES).read_bytes()


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_the_hash_seed_changes_nothing(tmp_path: Path, finished: Path, hash_seed: str) -> None:
    subprocess.run(
        [*COMMAND, "--out", str(tmp_path)],
        check=True,
        capture_output=True,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
    )
    assert (tmp_path / EPISODES).read_bytes() == (finished / EPISODES).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("python", ["python3.12", "python3.13"])
def test_other_pythons_write_the_same_file(python: str, tmp_path: Path, finished: Path) -> None:
    if not shutil.which(python) or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"{python} is not installed here")
    subprocess.run([python, "-m", "venv", str(tmp_path / "venv")], check=True)
    root = Path(__file__).parent.parent
    subprocess.run([str(tmp_path / "venv/bin/pip"), "install", "--quiet", str(root)], check=True, capture_output=True)
    command = [str(tmp_path / "venv/bin/python"), *COMMAND[1:], "--out", str(tmp_path / "run")]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    assert (tmp_path / "run" / EPISODES).read_bytes() == (finished / EPISODES).read_bytes()
