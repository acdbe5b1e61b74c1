"""open-instruct's text environments: `rlver_empathy`, and the rows of a dataset for it.

A script of one's own names the environment, and begins the training with `--tools rlver_empathy
--reward_aggregator sum`:

    TOOL_REGISTRY[EmpathyTextEnv.config_name] = EmpathyTextEnvConfig
    # and then what stands at the end of open_instruct/grpo_fast.py

The trainer does not use what `reset` returns: the person's first words stand in the prompt of a
row. A step that takes longer than the trainer's `tool_call_timeout` is the reward 0 to it: for a
language model as the user, set that above the user's own timeouts and retries.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false
# (it is no dependency, and the types are checked without it, where its name is taken for this file)

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rlver_gym.core.cards import env_card
from rlver_gym.core.persona import SplitChoice
from rlver_gym.integrations.episodes import (
    DEFAULT_ENV,
    EpisodeHost,
    EpisodeSpec,
    TextEpisode,
    list_specs,
)
from rlver_gym.io.errors import (
    CardError,
    DialogueError,
    TrainingError,
    UserFailed,
    UtteranceError,
    needs_packages,
)
from rlver_gym.users import SentientUser

with needs_packages("Install open-instruct from github.com/allenai/open-instruct"):
    from open_instruct.environments.base import (
        BaseEnvConfig,
        RLEnvironment,
        StepResult,
        TextRLEnvironment,
    )
    from openenv.core.env_server.types import State

_log = logging.getLogger(__name__)
ENV_NAME = "rlver_empathy"
END_TOKENS = ("<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "</s>")


def make_rows(
    env: str = DEFAULT_ENV,
    split: SplitChoice | None = None,
    seeds: Iterable[int] = (0,),
    user: str | SentientUser = "embedded",
    **options: Any,
) -> list[dict[str, Any]]:
    """The rows of a dataset: every persona of a split (None: the environment's) with each seed. A
    prompt is the system message and the person's first words, which `user` says (waits for it).

    `max_steps` is the turns of the card: the trainer's default, 5, would cut dialogues off.

    UserFailed when the user has no first words.
    """
    host = EpisodeHost(user, **options)
    rows = []
    for spec in list_specs(env, split, seeds):
        episode = host.episode(spec)
        opening = episode.begin()
        _check_user(episode)
        named = {"env_name": ENV_NAME, "is_text_env": True, "opening": opening, **spec.to_dict()}
        rows.append(
            {
                "messages": episode.messages,
                "ground_truth": "",
                "dataset": "passthrough",
                "env_config": {"max_steps": env_card(spec.env).turns, "env_configs": [named]},
            }
        )
    return rows


class EmpathyTextEnv(TextRLEnvironment):
    """One dialogue after the other. The reward of a turn is the change of the emotion in points, in
    [-10, 10], or what the card says; `--reward_aggregator sum` adds them up.

    open-instruct cannot leave a rollout out: an exception in a step is the reward 0, and the policy
    reads its message. When the user failed, the rollout therefore ends with the error in its
    metadata, and `get_metrics`, which is asked next, stops the training with UserFailed. With
    `stop_on_failure=False` it goes on: the rollout then counts with what it had until then, is a
    failed tool call in the log, and `failed` among the metrics says how many they were.
    """

    config_name = ENV_NAME
    response_role = "user"

    def __init__(
        self,
        user: str | SentientUser = "embedded",
        options: Mapping[str, Any] | None = None,
        stop_on_failure: bool = True,
        end_tokens: Sequence[str] = END_TOKENS,
        **unused: Any,
    ) -> None:
        """`user`, `options`: as for `gym.make`. `end_tokens`: what the text of a model may end
        with, which is not heard. `unused`: the `call_name` that open-instruct adds.

        UnknownName for what does not exist, CardError for a key among the options.
        """
        options = dict(options or {})
        if options.get("api_key") is not None or "@" in str(options.get("base_url", "")):
            raise CardError(
                "a key, or a password in base_url, would stand in the trainer's log. Set"
                " OPENAI_API_KEY and OPENAI_BASE_URL instead."
            )
        self._host = EpisodeHost(user, **options)
        self._stop_on_failure = stop_on_failure
        self._end_tokens = tuple(end_tokens)
        self._episode: TextEpisode | None = None
        self._is_broken = False

    async def _reset(self, **kwargs: Any) -> StepResult:
        """Begin the dialogue that a row's `env_config` names.

        DialogueError when it names nobody, UnknownName for what does not exist, TrainingError when
        the person's first words are not those of the prompt, as with a user that says them anew
        each time.
        """
        self._episode = self._host.episode(EpisodeSpec.from_dict(kwargs))
        self._is_broken = False
        opening = await self._episode.abegin()
        told = kwargs.get("opening", opening)
        if self._episode.valid and opening != told:
            raise TrainingError(
                f"the prompt begins with {told[:80]!r}, but the person says {opening[:80]!r}. Make"
                " the rows with make_rows of rlver_gym.integrations.gyms.open_instruct and the same"
                ' user; of a language model with options={"opening": "card"}.'
            )
        return StepResult(result=opening)

    async def text_step(self, text: str) -> StepResult:
        """Say the words of the text to the person. DialogueError before `reset` and after the
        end.
        """
        episode = self._began()
        if self._is_broken or (episode.done and not episode.valid and not episode.rewards):
            return _failed()
        try:
            result = await episode.asay(self._strip_end(text))
        except (DialogueError, UtteranceError):
            raise
        except Exception:  # its message may quote the persona, and the policy would read it
            _log.exception("the simulated user cannot go on")
            self._is_broken = True
            return _failed()
        if not result.valid:
            return _failed()
        return StepResult(result=result.reply, reward=result.reward, done=result.done)

    def get_metrics(self) -> dict[str, float]:
        """Of the dialogue so far: emotion, gain (points since the start), turns, a 1 for the
        outcome, and `failed`. UserFailed when the user failed, unless `stop_on_failure` is False.
        """
        if self._episode is None:
            return {}
        if self._stop_on_failure:
            _check_user(self._episode, self._is_broken)
        metrics = self._episode.metrics
        failed = metrics.pop("outcome_failed")
        return {**metrics, "failed": float(self._is_broken) or failed}

    def state(self) -> State:
        """How many turns there were."""
        return State(step_count=len(self._episode.rewards) if self._episode else 0)

    def _began(self) -> TextEpisode:
        if self._episode is None:
            raise DialogueError("the dialogue has not begun. Call reset() first.")
        return self._episode

    def _strip_end(self, text: str) -> str:
        for token in self._end_tokens:
            text = text.rstrip().removesuffix(token)
        return text.rstrip()


@dataclass
class EmpathyTextEnvConfig(BaseEnvConfig):
    """What `--tool_configs` may hold, as in '{"user": "openai:MODEL", "options": {...}}'."""

    tool_class: ClassVar[type[RLEnvironment]] = EmpathyTextEnv
    user: str = "embedded"
    options: dict[str, Any] = field(default_factory=dict)
    stop_on_failure: bool = True


def _failed() -> StepResult:
    return StepResult(result="", done=True, metadata={"error": "the simulated user failed"})


def _check_user(episode: TextEpisode, is_broken: bool = False) -> None:
    if is_broken or not episode.valid:
        raise UserFailed(
            "the simulated user failed: this rollout is no score, and open-instruct cannot leave it"
            " out. See to the user's server, or train with stop_on_failure=False."
        )
