"""TRL's GRPOTrainer on the text environment: the same dialogues as our own learner's, and what of
TRL that rests on.
"""

import inspect
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("trl", reason="needs trl: pip install 'rlver-gym[trl]'")

import torch
import trl
from tiny_trainer import PEOPLE, make_trainer

from rlver_gym.integrations.trl import (
    DialogueSpec,
    Rollout,
    final_emotion,
    parse_prompt,
    prompt_rows,
)
from rlver_gym.integrations.trl_tool import EmpathyTool
from rlver_gym.io.errors import DialogueError, TrainingError, UserFailed
from rlver_gym.policy.learning.algorithms import group_relative
from rlver_gym.policy.learning.batch import pack
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.models.rollout import ResetSpec, collect_rollouts
from rlver_gym.policy.models.sampler import ModelSampler, Sampling
from rlver_gym.users import EmbeddedUser

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # TRL and transformers warn of each other
    # Both doors are called experimental by TRL.
    pytest.mark.filterwarnings("ignore:You are using:UserWarning"),
]
TOOLS = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text(encoding="utf-8")


def batch_of(trainer: Any) -> list[dict[str, Any]]:
    """The rows that TRL hands over in its first step."""
    return next(iter(trainer.get_train_dataloader()))


def test_trl_and_our_own_learner_have_the_same_tokens_masks_and_rewards(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, scale_rewards="none", num_iterations=2, temperature=1.3)
    rows = batch_of(trainer)
    torch.manual_seed(7)
    theirs = trainer._generate_and_score_completions(rows)

    torch.manual_seed(7)
    tokenizer = trainer.processing_class
    renderer = Renderer(tokenizer, rows[0]["prompt"][0]["content"])
    ours = pack(
        collect_rollouts(
            ModelSampler(trainer.model),
            renderer,
            Sampling(8, renderer.stop_ids, 1.3),
            [gym.make("rlver_gym:RLVER-Empathy-v0") for _ in range(4)],
            [
                ResetSpec(number, 0, number // 2, {"persona": PEOPLE[number // 2]})
                for number in range(4)
            ],
            draw_seed=int(torch.randint(2**31, ())),
            max_tokens=4000,
        )
    )
    assert ours.dialogues == 4
    for number, length in enumerate(ours.length_B):
        prompt, said = (theirs[f"{part}_mask"][number].bool() for part in ("prompt", "completion"))
        prompt_ids, completion_ids = (
            theirs["prompt_ids"][number][prompt],
            theirs["completion_ids"][number][said],
        )
        mask, logprobs = (
            theirs[name][number][said] for name in ("tool_mask", "old_per_token_logps")
        )
        assert (
            torch.cat([prompt_ids, completion_ids]).tolist() == ours.id_BT[number, :length].tolist()
        )
        assert [*[0] * len(prompt_ids), *mask.tolist()] == ours.action_mask_BT[
            number, :length
        ].int().tolist()
        sampled = ours.sampled_BT[number, len(prompt_ids) : length][mask.bool()]
        assert torch.allclose(logprobs[mask.bool()], sampled, atol=1e-3), (
            "TRL's own log-probabilities"
        )
        turns = int(ours.turns_D[number])
        assert rows[number]["turn_rewards"] == ours.reward_DN[number, :turns].tolist()
        assert rows[number]["emotion"] == 40 + ours.reward_DN[number].sum()
    advantages = group_relative(ours.reward_DN.sum(1) / 100, ours.group_D, scale=False)
    assert np.ptp(advantages) > 0, "dialogues that earn the same would not show a difference"
    assert theirs["advantages"].tolist() == pytest.approx(advantages.tolist(), abs=1e-5)


def test_a_group_meets_the_same_person_in_the_same_mood_and_hears_other_replies(
    tmp_path: Path,
) -> None:
    trainer = make_trainer(tmp_path, prompt_rows(PEOPLE[:1], seeds=(3, 4)))
    rows = batch_of(trainer)
    told = trainer.rollout_func([row["prompt"] for row in rows], trainer)
    assert list(zip(told["persona"], told["seed"], strict=True)) == [
        (PEOPLE[0], seed) for seed in (3, 3, 4, 4)
    ]
    openings = [one[0]["content"] for one in told["dialogue"]]
    assert openings[0] == openings[1]
    assert told["prompt_ids"][0] == told["prompt_ids"][1]
    assert told["dialogue"][0] != told["dialogue"][1]
    again = trainer.rollout_func([row["prompt"] for row in rows], trainer)
    assert again["dialogue"] != told["dialogue"], "another call draws anew"


def test_the_columns_reach_the_reward_functions_and_the_weights_move(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def first_turn(turn_rewards: list[list[float]], **columns: Any) -> list[float]:
        seen.update(columns)
        return [rewards[0] for rewards in turn_rewards]

    trainer = make_trainer(tmp_path, rewards=[final_emotion, first_turn], learning_rate=1e-2)
    before = [weight.clone() for weight in trainer.model.parameters()]
    trainer.train()
    assert {"emotion", "dialogue", "persona", "seed", "outcome", "context_overflow"} <= set(seen)
    assert set(seen["outcome"]) <= {"content", "left", "out_of_turns"}
    (logged,) = [line for line in trainer.state.log_history if "reward" in line]
    assert logged["emotion"] == pytest.approx(sum(seen["emotion"]) / 4)
    assert logged["context_overflow"] == 0
    assert any(
        (old != new).any() for old, new in zip(before, trainer.model.parameters(), strict=True)
    )


class Fails(EmbeddedUser):
    """Answers Noor, and nobody else."""

    def appraise(self, scene: Any, dialogue: Any, *rest: Any) -> Any:
        if scene.persona.id != PEOPLE[0]:
            raise UserFailed("gone")
        return super().appraise(scene, dialogue, *rest)


def test_a_dialogue_that_broke_off_is_nothing_to_learn_from(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, rollout=Rollout(max_reply_tokens=8, user=Fails()))
    rows = batch_of(trainer)
    scored = trainer._generate_and_score_completions(rows)
    assert [row["emotion"] is None for row in rows] == [False, False, True, True]
    assert [row["outcome"] for row in rows[2:]] == ["failed", "failed"]
    assert scored["tool_mask"].mul(scored["completion_mask"]).sum(1).ne(0).tolist() == [
        True,
        True,
        False,
        False,
    ]
    assert scored["advantages"][2:].tolist() == [0, 0]


def test_a_dialogue_in_which_nothing_could_be_said_is_nothing_to_learn_from(tmp_path: Path) -> None:
    class Dumb(EmbeddedUser):
        def open(self, *scene: Any) -> Any:
            raise UserFailed("gone")

    trainer = make_trainer(tmp_path, rollout=Rollout(max_reply_tokens=8, user=Dumb()))
    scored = trainer._generate_and_score_completions(batch_of(trainer))
    assert scored["advantages"].tolist() == [0] * 4
    assert not scored["tool_mask"].any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_p": 0.1}, "knows no min_p.*Leave that out"),
        ({"repetition_penalty": 1.2}, "repetition_penalty"),
        ({"max_completion_length": 60}, "max_completion_length is 60.*4096"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_a_remedy(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(TrainingError, match=message):
        make_trainer(tmp_path, **settings).train()


def test_prompts_that_say_too_little_are_refused_with_a_remedy(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path)
    good, other = (
        prompt_rows(PEOPLE[:1])[0]["prompt"],
        prompt_rows(PEOPLE[:1], system="Be kind.")[0]["prompt"],
    )
    for prompts, message in (
        (["Hello."] * 2, "whom to meet.*prompt_rows"),
        ([[{"role": "user", "content": "Hello."}]] * 2, "whom to meet.*prompt_rows"),
        ([good[1:]] * 2, "same system message.*prompt_rows"),
        ([good, good, other, other], "same system message"),
        ([good] * 3, "did not hand each prompt over 2 times"),
    ):
        with pytest.raises(TrainingError, match=message):
            trainer.rollout_func(prompts, trainer)
    with pytest.raises(TrainingError, match="rlver-gym train --style think"):
        Rollout(style="think")


# The tool


def test_the_tool_is_one_function_and_ends_with_the_dialogue() -> None:
    tool = EmpathyTool()
    row = prompt_rows(PEOPLE[:1], seeds=(5,))[0]
    assert parse_prompt(row["prompt"]) == DialogueSpec(PEOPLE[0], 5)
    opening = tool.reset(**row)
    assert opening == tool.reset(**row)
    assert tool.get_reward() == 0.4
    heard = [tool.say(f"Number {turn}?") for turn in range(3)]
    assert len({opening, *heard}) == 4
    while tool.get_reward() >= 0.1:  # pyright: ignore[reportOptionalOperand]
        tool.say("")
    with pytest.raises(DialogueError, match="over"):
        tool.say("")
    failed = EmpathyTool(user=Fails())
    failed.reset(**prompt_rows(PEOPLE[1:])[0])
    failed.say("Hello.")
    assert failed.get_reward() is None


def test_trl_lets_a_policy_speak_through_the_tool(tmp_path: Path) -> None:
    trainer = make_trainer(
        tmp_path,
        rewards=[],
        factory=partial(EmpathyTool, user="embedded"),
        chat_template=TOOLS,
        max_tool_calling_iterations=3,
    )
    utterances = ["You sat with him all night.", "What was he like?"]
    trainer.model.generate = Calling(trainer.processing_class, utterances)
    rows = batch_of(trainer)
    scored = trainer._generate_and_score_completions(rows)

    tool = EmpathyTool()
    for number, row in enumerate(rows):
        heard = [tool.reset(prompt=row["prompt"]), *map(tool.say, utterances)]
        ids = [*scored["prompt_ids"][number].tolist(), *scored["completion_ids"][number].tolist()]
        text = trainer.processing_class.decode(ids)
        assert all(words in text for words in heard)
        assert trainer.environments[number].get_reward() == tool.get_reward()
    assert "EmpathyTool" in trainer.reward_func_names


class Calling:
    """In place of a model: calls the tool with one utterance after the other, then says goodbye."""

    def __init__(self, tokenizer: Any, utterances: Sequence[str]) -> None:
        self.tokenizer = tokenizer
        self.calls = [
            json.dumps({"name": "say", "arguments": {"message": one}}) for one in utterances
        ]

    def __call__(self, input_ids: torch.Tensor, **rest: Any) -> torch.Tensor:
        text = f"<tool_call>\n{self.calls.pop(0)}\n</tool_call>" if self.calls else "Goodbye."
        new = torch.tensor(self.tokenizer(f"{text}<|im_end|>")["input_ids"])
        return torch.cat([input_ids, new.expand(len(input_ids), -1)], dim=1)


# What this rests on

REMEDY = (
    "TRL {version}: {what}. Nothing of this is promised by TRL. Read what its release notes say of"
    " rollout_func and environment_factory, mend {where}, see that its tests in tests/integrations"
    " pass, and then move the pin of trl in setup.cfg; until then: pip install 'trl==1.16.*'."
)
ROLLOUT, TOOL = "rlver_gym/integrations/trl.py", "rlver_gym/integrations/trl_tool.py"


def _calls(trainer: Any) -> list[Any]:
    """What TRL gives to a rollout_func in its first step."""
    given: list[Any] = []

    def noted(*arguments: Any, **named: Any) -> Any:
        given.append((arguments, named))
        told = {
            "prompt_ids": [5],
            "completion_ids": [6, 7],
            "logprobs": [0, 0],
            "emotion": 50,
            "context_overflow": False,
        }
        return {name: [one] * 4 for name, one in told.items()}

    trainer.rollout_func = noted
    trainer.train()
    return given


def _hands_over_prompts_and_trainer(trainer: Any) -> bool:
    ((arguments, named),) = _calls(trainer)
    return not named and len(arguments) == 2 and arguments[1] is trainer


def _repeats_prompts_and_keeps_what_they_name(trainer: Any) -> bool:
    ((arguments, _),) = _calls(trainer)
    return [parse_prompt(prompt) for prompt in arguments[0]] == [
        DialogueSpec(one, 0) for one in PEOPLE for _ in range(2)
    ]


def _has_the_settings(trainer: Any) -> bool:
    names = (
        "temperature top_p top_k max_completion_length num_generations num_generations_eval"
        " use_vllm is_fsdp_enabled is_deepspeed_enabled processing_class model"
    )
    args = "bf16 min_p repetition_penalty generation_kwargs"
    return all(hasattr(trainer, name) for name in names.split()) and all(
        hasattr(trainer.args, name) for name in args.split()
    )


def _masks_what_the_policy_did_not_say(trainer: Any) -> bool:
    scored = trainer._generate_and_score_completions(batch_of(trainer))
    return bool((scored["tool_mask"] == 0).any()) and int(scored["num_items_in_batch"]) == int(
        (scored["tool_mask"] * scored["completion_mask"]).sum()
    )


def _only_say_is_a_tool(trainer: Any) -> bool:
    offered = make_trainer(
        trainer.args.output_dir, rewards=[], factory=EmpathyTool, chat_template=TOOLS
    )
    return [tool.__name__ for tool in offered.tools] == ["say"] and offered.reward_func_names == [
        "EmpathyTool"
    ]


PINS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "it is not the version that this was written for": (
        lambda _: trl.__version__.startswith("1.16."),
        ROLLOUT,
    ),
    "GRPOTrainer takes no rollout_func or environment_factory any more": (
        lambda _: (
            {"rollout_func", "environment_factory"}
            <= set(inspect.signature(trl.GRPOTrainer).parameters)
        ),
        f"{ROLLOUT} and {TOOL}",
    ),
    "rollout_func is not called with the prompts and the trainer": (
        _hands_over_prompts_and_trainer,
        ROLLOUT,
    ),
    "prompts are not repeated num_generations times, or lose the names of persona and seed": (
        _repeats_prompts_and_keeps_what_they_name,
        ROLLOUT,
    ),
    "the trainer has lost a setting that is read": (_has_the_settings, ROLLOUT),
    "env_mask does not keep the user's words out of the loss": (
        _masks_what_the_policy_did_not_say,
        ROLLOUT,
    ),
    "the public methods of an environment are not its tools, or get_reward not its reward": (
        _only_say_is_a_tool,
        TOOL,
    ),
}


@pytest.mark.parametrize("what", PINS)
def test_what_this_needs_of_trl_is_as_it_was(what: str, tmp_path: Path) -> None:
    holds, where = PINS[what]
    remedy = REMEDY.format(version=trl.__version__, what=what, where=where)
    try:
        held = holds(make_trainer(tmp_path))
    except Exception as error:
        raise AssertionError(remedy) from error
    assert held, remedy
