"""RLlib on the strategy view: PPO learns, its checkpoint plays, failed episodes are left out."""

import math
import warnings

import pytest

ray = pytest.importorskip("ray")
pytest.importorskip("ray.rllib")

from adapters.rllib_env import EmotionCallback, make_strategy_env
from failing import FailsInTurn
from gymnasium.utils.env_checker import check_env
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.tune.registry import register_env

from rlver_gym import env_card

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Overriding environment rllib-single-agent-env"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
START = env_card("RLVER-Empathy-v0").start


def make_config(env_config):
    return (
        PPOConfig()
        .environment("strategy", env_config=env_config)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2, batch_mode="complete_episodes")
        .fault_tolerance(restart_failed_sub_environments=True)
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=2)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[16]))
        .callbacks(EmotionCallback)
        .debugging(seed=0)
    )


@pytest.fixture(scope="module", autouse=True)
def local_ray():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(
            num_cpus=1,
            include_dashboard=False,
            object_store_memory=80_000_000,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
        )
    register_env("strategy", make_strategy_env)
    yield
    ray.shutdown()


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
@pytest.mark.parametrize("env_config", [{"split": "demo"}, {"every_need": True}])
def test_the_environment_is_one_of_gymnasium(env_config):
    check_env(make_strategy_env(env_config), skip_render_check=True)


@pytest.mark.filterwarnings("ignore")
def test_ppo_trains_and_its_results_hold_return_and_emotion():
    algo = make_config({"every_need": True}).build_algo()
    for _ in range(2):
        result = algo.train()
        sampled = result["env_runners"]
        assert sampled["emotion"] == pytest.approx(START + sampled["episode_return_mean"])
        learned = result["learners"]["default_policy"]
        assert math.isfinite(learned["total_loss"])
        assert learned["num_module_steps_trained"] >= 64
    algo.stop()


def test_an_episode_in_which_the_user_failed_is_thrown_away():
    user = FailsInTurn(2, times=2)
    config = make_config({}).env_runners(num_envs_per_env_runner=1)
    config = config.environment(lambda _: make_strategy_env({"user": user, "split": "demo"}))
    runner = SingleAgentEnvRunner(config=config, worker_index=0)
    episodes = runner.sample(num_episodes=3)
    assert user.left == 0
    assert len(episodes) == 3
    for episode in episodes:
        infos = episode.get_infos()
        assert all(info["valid"] for info in infos)
        assert infos[-1]["turn"] == len(episode)
        assert START + episode.get_return() == infos[-1]["emotion"]
