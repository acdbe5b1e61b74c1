"""The benchmark: resumed anywhere, scored by person, the same on every machine."""

import io
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from paths import ROOT

from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import EPISODES, read_episodes
from rlver_gym.bench.score import compute_paired_difference, score_agents
from rlver_gym.bench.table import build_score_rows, need_rows, shorten_agent_path
from rlver_gym.library.personas import library
from rlver_gym.util.interval import bootstrap
from rlver_gym.util.terminal import SafeConsole


def printed(width, *tables):
    console = SafeConsole(width=width, file=io.StringIO())
    for rows in tables:
        console.print_table(rows)
    return console.file.getvalue()


AGENTS = ("comfort", "listener", "oracle")


def test_tables_show_long_names_whole_and_keep_headings_even(finished):
    long = "some_package.some_module:SomeVeryLongAgentNameThatGoesOnAndOn"
    comfort = [one for one in read_episodes(finished) if one.agent == "comfort"]
    ranked = score_agents([one._replace(agent=long) for one in comfort])
    lines = printed(80, build_score_rows(ranked), need_rows(ranked)).splitlines()
    names = "".join(line.split(" ")[0] for line in lines)
    assert names.count(long) >= 2
    assert not any("…" in line for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(("width", "parts"), [(40, 3), (60, 2), (80, 1)])
def test_a_narrow_terminal_shows_names_and_figures_whole_in_tables_below_each_other(
    finished, width, parts
):
    ranked = score_agents(list(read_episodes(finished)))
    shown = printed(width, build_score_rows(ranked))
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for score in ranked:
        rows = [line for line in shown.splitlines() if line.startswith(score.agent)]
        assert len(rows) == parts
        assert f"{score.final.mean:.1f} [{score.final.low:.1f}, {score.final.high:.1f}]" in rows[0]


def test_checkpoints_of_long_paths_can_be_told_apart():
    place, names = "checkpoints/000032/model", ("warm", "moderate", "hard")
    runs = [f"hf:/home/me/experiments/rlver/{run}/{place}" for run in names]
    agents = ["adaptive", "hf:/home/me/experiments/rlver/base", *runs]
    short = ["adaptive", "hf:…/base", *(f"hf:…/{run}/{place}" for run in names)]
    assert [shorten_agent_path(agent, agents) for agent in agents] == short
    assert shorten_agent_path(runs[0], [runs[0], "echo"]) == "hf:…/000032/model"
    assert [shorten_agent_path(x, [*agents, "openai:meta/Llama-3"]) for x in agents] == short
    grid = [f"hf:/home/me/experiments/{x}/checkpoints/{n}" for x in ("grpo", "ppo") for n in (1, 2)]
    assert len({shorten_agent_path(x, grid) for x in grid}) == 4
    server, port = "openai:someone/a-model-of-a-long-name", "@http://127.0.0.1:"
    assert shorten_agent_path(f"{server}{port}1", [f"{server}{port}1", "echo"]) == server
    both = [f"{server}{port}1", f"{server}{port}2"]
    assert shorten_agent_path(both[0], both) == both[0]
    assert shorten_agent_path(server, [server, "echo"]) == server


def test_scores_pair_by_persona(finished):
    ranked = score_agents(read_episodes(finished))
    assert ranked[0].agent == "oracle"
    best, ahead = next(one for one in ranked if one.agent != "oracle"), ranked[0].to_best
    assert best.to_best is None
    assert ahead
    assert ahead.low > 0
    worst = ranked[-1]
    assert worst.to_best
    assert worst.to_best.mean == pytest.approx(worst.final.mean - best.final.mean)
    assert worst.to_best.low <= worst.to_best.mean <= worst.to_best.high < 0
    assert set(ranked[0].needs) == {episode.need for episode in read_episodes(finished)}


def test_bootstrap_by_hand():
    assert bootstrap(np.array([50.0, 50.0, 50.0])) == (50.0, 50.0, 50.0)
    interval = bootstrap(np.array([0.0, 100.0]))
    assert interval == (50.0, 0.0, 100.0)
    ours, theirs = {"a": 60.0, "b": 50.0}, {"a": 50.0, "b": 40.0, "c": 0.0}
    assert compute_paired_difference(ours, theirs) == (10.0, 10.0, 10.0)


COMMAND = [sys.executable, *"-m rlver_gym bench --split demo --seeds 2".split()]
COMMAND += [word for agent in AGENTS for word in ("--agent", agent)]


def test_the_hash_seed_changes_nothing(tmp_path, finished):
    person = library().ids("demo")[0]
    command = [*COMMAND, "--persona", person, "--out", str(tmp_path)]
    env = os.environ | {"PYTHONHASHSEED": "0"}
    subprocess.run(command, check=True, capture_output=True, env=env)
    ours = [one for one in read_episodes(finished) if one.persona == person]
    assert read_episodes(tmp_path) == ours


def test_a_plan_is_for_the_people_of_its_split():
    plan = BenchPlan(agents=("silent",), split="validation", seeds=1)
    assert tuple(case.persona for case in plan.cases()) == library().ids("validation")


@pytest.mark.slow
@pytest.mark.parametrize("python", ["python3.12", "python3.13"])
def test_other_pythons_write_the_same_file(python, tmp_path, finished):
    probe = [shutil.which(python) or "false", "-c", ""]
    if subprocess.run(probe, capture_output=True).returncode:
        pytest.skip(f"{python} is not installed here")
    subprocess.run([python, "-m", "venv", str(tmp_path / "venv")], check=True)
    install = [str(tmp_path / "venv/bin/pip"), "install", "--quiet", str(ROOT)]
    subprocess.run(install, check=True, capture_output=True)
    command = [str(tmp_path / "venv/bin/python"), *COMMAND[1:], "--out", str(tmp_path / "run")]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    assert (tmp_path / "run" / EPISODES).read_bytes() == (finished / EPISODES).read_bytes()
