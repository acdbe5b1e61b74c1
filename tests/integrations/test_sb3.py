"""Learners on the strategy view: what they are compared with, and Stable-Baselines3's own."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import gymnasium as gym
import pytest
from commands import run_command

from rlver_gym.agents.strategies import STRATEGIES, Strategy
from rlver_gym.bench.folder import read_episodes
from rlver_gym.integrations.gyms.discrete_policies import (
    evaluate_policy,
    make_fixed_policies,
    run_episodes,
)
from rlver_gym.util.svg import draw_line_chart

PEOPLE = ("noor-the-old-dog", "elias-the-old-dog")
LISTEN = STRATEGIES.index(Strategy.LISTEN)


def test_a_learner_that_only_listens_is_as_good_as_listening_and_better_than_a_random_one() -> None:
    done: list[int] = []
    trial = evaluate_policy("learner", lambda seed: lambda seen: LISTEN, PEOPLE, 1, done.append)
    assert done == list(range(1, 2 * 14 + 1))
    assert trial.difference_to("listen") == (0, 0, 0)
    assert trial.difference_to("random").mean == trial.mean_final("learner") - trial.mean_final(
        "random"
    )
    assert trial.best_fixed_strategy in {strategy.name.lower() for strategy in STRATEGIES}
    assert trial.to_dict()["minus"]["random"]["mean"] == trial.difference_to("random").mean


def test_everybody_meets_the_same_people_in_the_same_mood() -> None:
    policies = make_fixed_policies()
    first, second = (
        list(run_episodes(name, policies[name], PEOPLE, 2)) for name in ("random", "praise")
    )
    assert [(one.persona, one.seed, one.opening) for one in first] == [
        (one.persona, one.seed, one.opening) for one in second
    ]
    assert first == list(run_episodes("random", policies["random"], PEOPLE, 2))


def test_the_picture_names_every_line_and_is_valid_xml() -> None:
    svg = draw_line_chart({"a < b": [(10, 40.0), (20, 62.0)]}, {"random": 38.0, "listen": 38.5})
    texts = [
        node.text or ""
        for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {"a < b 62", "random 38", "listen 38"} <= set(texts)
    heights = [
        float(node.get("y", 0))
        for node in ElementTree.fromstring(svg).iter()
        if (node.text or "")[:4] in ("rand", "list")
    ]
    assert abs(heights[0] - heights[1]) >= 13, "labels of equal levels must not lie upon each other"


def test_without_sb3_the_command_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    monkeypatch.delitem(sys.modules, "rlver_gym.integrations.gyms.sb3", raising=False)
    done = run_command("sb3")
    assert done.returncode == 2
    assert "pip install '.[sb3]'" in " ".join(done.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["ppo", "recurrent-ppo"])
def test_a_saved_learner_chooses_the_same_when_loaded_with_sb3s_own_load(
    algo: str, tmp_path: Path
) -> None:
    pytest.importorskip("stable_baselines3")
    contrib = pytest.importorskip("sb3_contrib")
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from rlver_gym.integrations.gyms.sb3 import TrainedPolicy, train

    steps: list[int] = []
    learned = train(algo, 1, on_progress=steps.append)  # pyright: ignore[reportArgumentType]
    assert steps == [1024]
    assert [point.steps for point in learned.curve] == [1024]
    assert 0 < learned.curve[0].emotion < 100
    learned.save(tmp_path)
    model = (PPO if algo == "ppo" else contrib.RecurrentPPO).load(tmp_path / "model.zip")
    env = DummyVecEnv([lambda: gym.make("RLVER-Strategy-v0")])
    loaded = TrainedPolicy(model, VecNormalize.load(str(tmp_path / "vecnormalize.pkl"), env), ())
    first, second = (
        list(run_episodes("learner", one.make_policy, PEOPLE, 1)) for one in (learned, loaded)
    )
    assert [one.turns for one in first] == [one.turns for one in second]


@pytest.mark.slow
def test_the_command_writes_everything_and_prints_the_comparison(tmp_path: Path) -> None:
    pytest.importorskip("sb3_contrib")
    words = ["sb3", "--steps", "1", "--seeds", "1", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "rlver_gym", *words], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert "ppo minus random" in done.stdout
    files = {"model.zip", "vecnormalize.pkl", "episodes.jsonl", "results.json", "curve.svg"}
    assert {path.name for path in tmp_path.iterdir()} == files
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert {score["agent"] for score in results["scores"]} == {"ppo", *make_fixed_policies()}
    assert len(read_episodes(tmp_path)) == 14 * 24
