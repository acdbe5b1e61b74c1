"""What of TRL our doors into it rest on, and which file to mend when a new version changes it."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trl
from tiny_trainer import PEOPLE, TOOL_TEMPLATE, batch_of, make_trainer

from rlver_gym.integrations.episodes import EpisodeSpec
from rlver_gym.integrations.trl import parse_prompt
from rlver_gym.integrations.trl_tool import EmpathyTool

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # TRL and transformers warn of each other
    # Both doors are called experimental by TRL.
    pytest.mark.filterwarnings("ignore:You are using:UserWarning"),
]
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
        EpisodeSpec(one, 0) for one in PEOPLE for _ in range(2)
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
        trainer.args.output_dir, rewards=[], factory=EmpathyTool, chat_template=TOOL_TEMPLATE
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
