"""TorchRL: its wrapper takes both views as they are, and its language models talk in a ChatEnv."""

import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchrl")

import gymnasium as gym
from failing import FailsInTurn
from integrations.drivers.torchrl import ScriptedPolicy
from integrations.scripted import hold_episode

with warnings.catch_warnings():  # TorchRL's collectors inherit from a class that is deprecated
    warnings.simplefilter("ignore")
    from torchrl.collectors.llm import LLMCollector
from adapters.torchrl_env import EmpathyChatEnv, ValidReader, fill_log_probs
from torchrl.data import LazyStackStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.envs import GymWrapper
from torchrl.envs.utils import check_env_specs
from torchrl.modules.llm import TransformersWrapper
from torchrl.objectives.llm import GRPOLoss, MCAdvantage

from rlver_gym.integrations.episodes import EpisodeSpec
from rlver_gym.library.personas import library
from rlver_gym.policy.models.model import load_model, load_tokenizer

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The env passed to LLMCollector:FutureWarning"),
    pytest.mark.filterwarnings("ignore:size_average and reduce args:UserWarning"),
]
PERSONA, OTHER = library().ids("train")[:2]
SPEC = EpisodeSpec(PERSONA, 5)
WORDS = ("What happened?", "That sounds hard. What did you do?", "Thank you for telling me.")
VIEWS = ("RLVER-Strategy-v0", "RLVER-Empathy-v0")


@pytest.mark.parametrize("view", VIEWS)
def test_their_wrapper_can_be_told_to_say_that_the_user_failed(view):
    env = GymWrapper(gym.make(view, user=FailsInTurn(2), on_failure="truncate"))
    env.set_info_dict_reader(ValidReader())
    check_env_specs(env)
    data = env.rollout(8)
    assert data["next", "valid"].tolist() == [True, False]
    assert data["next", "truncated"].flatten().tolist() == [False, True]


def test_a_chat_rollout_holds_the_dialogue_and_fits_its_specs():
    env = EmpathyChatEnv([EpisodeSpec(OTHER, 1), SPEC])
    begun = env.reset()
    assert begun["query"] == f"{OTHER}/1"
    assert env.observation_spec.contains(begun.select(*env.observation_spec.keys()))
    data = env.rollout(3, ScriptedPolicy(WORDS))
    episode = hold_episode(SPEC.persona, SPEC.seed, WORDS)
    last = data["next", "history"].prompt[0, -1]
    said = [
        {"role": r, "content": c} for r, c in zip(list(last.role), list(last.content), strict=True)
    ]
    assert said == episode.messages
    assert data["next", "reward"].shape == (1, 3, 1, 1)
    assert data["next", "reward"].flatten().tolist() == episode.rewards
    assert not data["next", "done"].any()
    assert set(data["next"].keys()) == {
        *("history", "query", "valid", "reward", "done", "terminated", "truncated")
    }


def test_a_language_model_is_trained_by_their_grpo_on_dialogues():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = load_model("tiny", device="cpu")
    options = {"tokenizer": load_tokenizer("tiny"), "return_log_probs": True}
    generate = {"max_new_tokens": 8, "do_sample": True, "top_k": model.config.vocab_size}
    policy = TransformersWrapper(model, input_mode="history", generate_kwargs=generate, **options)
    collector = LLMCollector(
        EmpathyChatEnv([SPEC]),
        policy=policy,
        yield_completed_trajectories=True,
        postproc=fill_log_probs,
    )
    buffer = ReplayBuffer(
        storage=LazyStackStorage(100), sampler=SamplerWithoutReplacement(), batch_size=4
    )
    buffer.append_transform(MCAdvantage(grpo_size=3, trajectory_return="sum"))
    returns = []
    for _, trajectory in zip(range(3), collector, strict=False):
        assert trajectory["next", "done"].flatten().tolist()[-1]
        returns.append(float(trajectory["next", "reward"].sum()))
        for turn in trajectory.unbind(0):
            tokens = turn["tokens"]
            assert torch.equal(tokens.full, torch.cat([tokens.prompt, tokens.response]))
            is_trained_T = torch.isfinite(turn["log_probs"].full)
            num_left_out = len(tokens.prompt) + 1  # and the first token, whose log-prob is unknown
            assert is_trained_T.tolist() == (
                [False] * num_left_out + [True] * (len(tokens.response) - 1)
            )
        buffer.extend(trajectory)
    advantages = {round(float(value), 4) for value in buffer[:]["advantage"].flatten()}
    assert len(advantages) == len(set(returns)) > 1
    learner = TransformersWrapper(model, input_mode="tokens", generate=False, **options)
    loss = GRPOLoss(learner, masking_strategy="sft", entropy_bonus=False)
    values = loss(buffer.sample())
    assert float(values.kl_approx.abs()) < 1e-3, "the tokens that were sampled, and no others"
    assert float(values.ESS) == pytest.approx(1, abs=1e-3)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    values.loss_objective.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert all(torch.isfinite(weight).all() for weight in model.parameters())
    assert any(not torch.equal(before[name], weight) for name, weight in model.named_parameters())
