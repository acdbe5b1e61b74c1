"""RLlib on the strategy view: PPO learns on it, its checkpoint plays, and failed episodes are left
out.
"""

import math
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

ray = pytest.importorskip("ray")
pytest.importorskip("ray.rllib")

from adapters.rllib_env import (
    DropFailedEpisodes,
    EmotionCallback,
    load_policy,
    make_strategy_env,
)
from gymnasium.utils.env_checker import check_env
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.tune.registry import register_env

from rlver_gym.agents.strategies import STRATEGIES
from rlver_gym.core.cards import env_card
from rlver_gym.core.library import library
from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.integrations.gyms.discrete_policies import run_episodes
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import CardError, TrainingError, UnknownName, UserFailed

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Overriding environment rllib-single-agent-env"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
PEOPLE = library().ids("test")[:2]
START = env_card("RLVER-Empathy-v0").start


class FailsAtFirst(EmbeddedUser):
    """Fails in the second turn of its first two dialogues, and never again."""

    failures = 0

    def appraise(self, scene, emotion, dialogue):
        if dialogue.turns and self.failures < 2:
            self.failures += 1
            raise UserFailed("the server is away")
        return super().appraise(scene, emotion, dialogue)


def make_config(env_config: dict[str, object]) -> PPOConfig:
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
def local_ray() -> Iterator[None]:
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


@pytest.fixture(scope="module")
def trained(local_ray: None) -> Iterator[tuple[PPO, list[dict]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        algo = make_config({"every_need": True}).build_algo()
        results = [algo.train() for _ in range(2)]
    yield algo, results
    algo.stop()


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
@pytest.mark.parametrize("env_config", [{"split": "demo"}, {"every_need": True}])
def test_the_environment_is_one_of_gymnasium(env_config):
    check_env(make_strategy_env(env_config), skip_render_check=True)


def test_a_configuration_that_cannot_be_meant_says_what_to_do():
    for others in ({"split": "test"}, {"persona": PEOPLE[0]}):
        with pytest.raises(CardError, match="Leave persona and split out"):
            make_strategy_env({"every_need": True, **others})
    with pytest.raises(CardError, match="OPENAI_API_KEY"):
        make_strategy_env({"user": "openai:any", "api_key": "secret"})
    with pytest.raises(UnknownName, match="nobody"):
        make_strategy_env({"persona": "nobody"})
    with pytest.raises(TrainingError, match=r"no-such-checkpoint.*save_to_path"):
        load_policy("no-such-checkpoint")


def test_ppo_trains_and_its_results_hold_return_and_emotion(trained):
    _, results = trained
    assert [one["training_iteration"] for one in results] == [1, 2]
    for result in results:
        sampled = result["env_runners"]
        assert sampled["num_episodes"] >= 2
        assert 1 <= sampled["episode_len_mean"] <= 8
        assert sampled["emotion"] == pytest.approx(START + sampled["episode_return_mean"])
        learned = result["learners"]["default_policy"]
        assert math.isfinite(learned["total_loss"])
        assert learned["num_module_steps_trained"] >= 64


def test_a_checkpoint_plays_as_the_algorithm_does(trained, tmp_path: Path):
    algo, _ = trained
    policy = load_policy(algo.save_to_path(tmp_path / "checkpoint"))
    episodes = list(run_episodes("ppo", policy, PEOPLE, 1))
    assert [one.persona for one in episodes] == list(PEOPLE)
    env = make_strategy_env({"split": "all"})
    observation, _ = env.reset(seed=0, options={"persona": PEOPLE[0]})
    chosen = []
    over = False
    while not over:
        action = greedy(algo, observation)
        assert action == policy(0)(observation)
        chosen.append(action)
        observation, _, over, _, info = env.step(action)
    assert info["emotion"] == episodes[0].final
    assert len(chosen) == len(episodes[0].turns)
    assert all(0 <= action < len(STRATEGIES) for action in chosen)


def greedy(algo: PPO, observation) -> int:
    import torch

    with torch.no_grad():
        out = algo.get_module().forward_inference({"obs": torch.tensor(observation[None])})
    return int(out["action_dist_inputs"].argmax())


def make_runner(user: EmbeddedUser, **fault_tolerance: bool) -> SingleAgentEnvRunner:
    config = (
        make_config({})
        .environment(lambda _: make_strategy_env({"user": user, "split": "demo"}))
        .env_runners(num_envs_per_env_runner=1)
        .fault_tolerance(**fault_tolerance)
    )
    return SingleAgentEnvRunner(config=config, worker_index=0)


def test_an_episode_in_which_the_user_failed_is_thrown_away():
    user = FailsAtFirst()
    runner = make_runner(user, restart_failed_sub_environments=True)
    episodes = runner.sample(num_episodes=3)
    assert user.failures == 2
    assert len(episodes) == 3
    for episode in episodes:
        infos = episode.get_infos()
        assert all(info["valid"] for info in infos)
        assert infos[-1]["turn"] == len(episode)
        assert START + episode.get_return() == infos[-1]["emotion"]


def test_what_a_policy_sees_holds_nothing_privileged():
    env = make_strategy_env({"split": "demo"})
    assert isinstance(env, DropFailedEpisodes)
    names = env.get_wrapper_attr("names")
    assert len(names) == env.observation_space.shape[0]
    assert not set(EmpathyEnv.privileged_info) & {name.split(":")[0] for name in names}
