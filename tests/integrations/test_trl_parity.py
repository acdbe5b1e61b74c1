"""One dialogue through every door: the same persona, seed and utterances give the same rewards.

A door takes a persona id, a seed and utterances, and gives what came of each: text, reward and
whether it was over. A new view or a foreign loop joins by one more function in `DOORS`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import gymnasium as gym
import pytest

import rlver_gym  # noqa: F401 (registers the environments)
from rlver_gym.agents.strategies import STRATEGIES
from rlver_gym.bench.plan import BenchPlan, Case
from rlver_gym.bench.run import run_case
from rlver_gym.core.dialogue import Message
from rlver_gym.io.errors import DialogueError

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # TRL and transformers warn of each other
    # TRL calls both of its doors experimental.
    pytest.mark.filterwarnings("ignore:You are using:UserWarning"),
]
PERSONAS = ("clara-silent-kitchen", "theo-the-burst-pipe")


class Felt(NamedTuple):
    """What came of one utterance."""

    text: str
    reward: float
    over: bool


Door = Callable[[str, int, Sequence[str]], list[Felt]]


def through_gym(persona: str, seed: int, utterances: Sequence[str]) -> list[Felt]:
    env = gym.make("RLVER-Empathy-v0")
    env.reset(seed=seed, options={"persona": persona})
    return [Felt(text, float(reward), over) for text, reward, over, *_ in map(env.step, utterances)]


def through_the_vector_env(persona: str, seed: int, utterances: Sequence[str]) -> list[Felt]:
    env = gym.make_vec("RLVER-Empathy-v0", num_envs=2, autoreset_mode="Disabled")
    env.reset(seed=[seed + 1, seed], options={"persona": persona})  # pyright: ignore[reportArgumentType] (ours takes a list)
    felt = []
    for utterance in utterances:
        texts, rewards, over, *_ = env.step(("", utterance))
        felt.append(Felt(texts[1], float(rewards[1]), bool(over[1])))
        if over[0]:
            env.reset(options={"persona": persona, "reset_mask": over & [True, False]})
    return felt


class Reciting:
    """Says what it was given, line by line."""

    def __init__(self, utterances: Sequence[str]) -> None:
        self.utterances = utterances

    def reply(self, messages: Sequence[Message]) -> str:
        return self.utterances[sum(message.speaker == "agent" for message in messages)]


def through_the_benchmark(persona: str, seed: int, utterances: Sequence[str]) -> list[Felt]:
    plan = BenchPlan(env="RLVER-Empathy-v0", agents=("listener",), persona_ids=(persona,))
    case = Case("reciting", persona, _user_seed(persona, seed))
    episode = run_case(case, plan, lambda persona, seed: Reciting(utterances))
    return [
        Felt(turn.reply, float(turn.reward), turn.outcome is not None) for turn in episode.turns
    ]


def _user_seed(persona: str, seed: int) -> int:
    """The user's seed that an environment draws for this seed; the benchmark is given it
    directly.
    """
    env = gym.make("RLVER-Empathy-v0")
    env.reset(seed=seed, options={"persona": persona})
    return env.get_wrapper_attr("session").scene.seed


def through_trls_rollout(persona: str, seed: int, utterances: Sequence[str]) -> list[Felt]:
    pytest.importorskip("trl", reason="needs trl: pip install '.[trl]'")
    from tiny_trainer import reciting_trainer

    from rlver_gym.integrations.trl import prompt_rows

    trainer = reciting_trainer(utterances)
    told = trainer.rollout_func(
        [row["prompt"] for row in prompt_rows([persona], [seed])] * 2, trainer
    )
    texts = [message["content"] for message in told["dialogue"][1] if message["role"] == "user"][1:]
    rewards, outcome = told["turn_rewards"][1], told["outcome"][1]
    last = len(rewards) - 1
    return [
        Felt(text, reward, turn == last and outcome is not None)
        for turn, (text, reward) in enumerate(zip(texts, rewards, strict=True))
    ]


def through_trls_tool(persona: str, seed: int, utterances: Sequence[str]) -> list[Felt]:
    pytest.importorskip("trl", reason="needs trl: pip install '.[trl]'")
    from rlver_gym.integrations.trl import prompt_rows
    from rlver_gym.integrations.trl_tool import EmpathyTool

    def points() -> int:
        return round(100 * (tool.get_reward() or 0))

    tool = EmpathyTool()
    tool.reset(**prompt_rows([persona], [seed])[0])
    felt = []
    for utterance in utterances:
        before, text = points(), tool.say(utterance)
        felt.append(Felt(text, float(points() - before), False))
    with pytest.raises(DialogueError, match="over"):
        tool.say("")
    return [*felt[:-1], felt[-1]._replace(over=True)]


DOORS: dict[str, Door] = {
    "gym": through_gym,
    "vector env": through_the_vector_env,
    "benchmark": through_the_benchmark,
    "TRL's rollout_func": through_trls_rollout,
    "TRL's tool": through_trls_tool,
}


def by_strategies(persona: str, seed: int) -> tuple[list[str], list[Felt]]:
    """A dialogue of the strategy view, each turn another strategy: its utterances, and what came of
    them.
    """
    env = gym.make("RLVER-Strategy-v0")
    env.reset(seed=seed, options={"persona": persona})
    spoken: list[str] = []
    felt: list[Felt] = []
    while not felt or not felt[-1].over:
        _, reward, over, _, info = env.step((len(felt) + seed) % len(STRATEGIES))
        spoken.append(info["utterance"])
        felt.append(
            Felt(env.get_wrapper_attr("session").dialogue.user_lines[-1], float(reward), over)
        )
    return spoken, felt


@pytest.mark.parametrize("persona", PERSONAS)
@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())
def test_what_the_strategy_view_says_is_felt_the_same_through_every_door(
    door: Door, persona: str, seed: int
) -> None:
    spoken, felt = by_strategies(persona, seed)
    assert door(persona, seed, spoken) == felt
    assert len({one.reward for one in felt}) > 2, "such a dialogue would not show a difference"


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())
def test_another_word_is_felt_differently(door: Door) -> None:
    spoken, felt = by_strategies(PERSONAS[0], 0)
    changed = ["You idiot, it is all your own fault.", *spoken[1:]]
    assert door(PERSONAS[0], 0, changed)[0] != felt[0]
