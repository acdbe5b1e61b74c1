"""Every choice of a training run, in one frozen value.

The command line, its help, the checks and the saved file come from it.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.fields import FieldInfo

from rlver_gym.core.agent import Style, agent_prompt
from rlver_gym.core.cards import DEFAULT_ENV, env_card, shipped_env_ids
from rlver_gym.core.languages import Language
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.policy.learning.registry import (
    ALGORITHMS,
    CRITIC_OPTIONS,
    GROUP_OPTIONS,
    NOT_OF_REPLIES,
    REPLY_OPTIONS,
    AdvantageConfig,
    Aggregate,
    Algorithm,
    Comparison,
    GroupAdvantage,
    NextReply,
    Objective,
)
from rlver_gym.policy.models.precision import Dtype
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.field_errors import explain_invalid
from rlver_gym.util.files import path_inside, read_text
from rlver_gym.util.json_text import parse_object
from rlver_gym.util.secret_words import find_secret
from rlver_gym.util.terminal import one_line
from rlver_gym.util.user_code import is_own_name
from rlver_gym.util.yaml_file import read_yaml

FEWEST_PEOPLE = 3
"""Of whom a reference must read dialogues, for a gap with an interval."""
PRESETS = Path(__file__).parent / "presets"
_IGNORED = "{name} would be ignored: {why}. Leave it out."
CONFIG = "config.json"
"""In a run's folder."""
_MAX_CONFIG_BYTES = 1 << 20
_MAX_CHARS = 200
RUN_FOLDER = "train-{algo}-{style}-{model}-{seed}"
"""The name of a run's folder unless told otherwise."""


class Section(BaseModel):
    """Choices of a run, which are written into its folder and its checkpoints."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _holds_no_secret(cls, values: Any) -> Any:
        if where := find_secret(values):
            raise ValueError(
                f"{where}: a key or a password would stand in the run's files. Set OPENAI_API_KEY"
                " and OPENAI_BASE_URL instead, for --vllm VLLM_API_KEY."
            )
        return values


class PromptOptions(Section):
    """What the policy is told."""

    style: Style = "direct"
    """think: the policy thinks in <think>…</think> before it replies; nobody hears that."""
    language: Language = "en"
    """Of the prompt that the policy is given."""
    system: str | None = None
    """The prompt itself; none takes what the model's folder says (rlver_gym.json), or else the
    package's own."""

    @model_validator(mode="after")
    def _has_one_prompt(self) -> Self:
        if self.system is not None and self.language != "en":
            raise ValueError(_IGNORED.format(name="language", why="system is the whole prompt"))
        return self

    @property
    def prompt(self) -> str:
        """The system prompt, once `pin_prompt` has looked into the model's folder."""
        own = agent_prompt(self.language, self.style)
        return own if self.system is None else self.system


class _TaskOptions(PromptOptions):
    """Who learns, and where."""

    model: str = "Qwen/Qwen2.5-1.5B-Instruct"
    """A Hugging Face causal LM (name or folder); "tiny" builds a small one; or "smollm2"."""
    env: str = DEFAULT_ENV
    """The Gymnasium id of a text environment."""
    env_options: dict[str, Any] = Field(default_factory=dict)
    """Passed on to gym.make, such as user=openai:MODEL; without a user the embedded one pays."""
    seed: int = Field(default=0, ge=0)
    """Decides the personas, what is sampled, and the order of learning."""
    corpus: str | None = None
    """Learn from the rated replies of this folder (research/corpus.md) instead of own dialogues."""


class _SamplingOptions(Section):
    """What an iteration plays."""

    iterations: int = Field(default=100, ge=1)
    """Rounds of rollouts and updates."""
    dialogues: int = Field(default=32, ge=1)
    """Dialogues an iteration."""
    max_reply_tokens: int = Field(default=256, ge=1)
    """The longest reply; a longer one is cut."""
    max_tokens: int = Field(default=4096, ge=16)
    """The longest dialogue, prompt included; one that outgrows it ends there."""
    temperature: float = Field(default=1.0, gt=0)
    """Of sampling and of the log-probabilities that are learned from."""
    workers: int = Field(default=1, ge=1)
    """Dialogues whose users are waited for at the same time; more than 1 pays with LLM users."""


class _RewardOptions(Section):
    """What a reply earned, as it is learned from."""

    reward: str | None = None
    """A function of your own, MODULE:NAME (docs/training.md), that adds to what a reply earned."""
    reward_scale: float = Field(default=0.01, gt=0)
    """Rewards are multiplied by this before learning."""
    format_penalty: float = Field(default=1.0, ge=0, le=1)
    """The share of the dialogue's gains that a broken format costs."""
    overlong_tokens: int = Field(default=0, ge=0)
    """The last tokens before max_reply_tokens, which cost up to overlong_cost; 0 for none."""
    overlong_cost: float = Field(default=0.0, ge=0)
    """What a reply of max_reply_tokens costs, in the environment's rewards."""


class _ComparisonOptions(Section):
    """From rewards to advantages."""

    algo: str = "grpo"
    """ppo learns a critic; rft and dpo compare replies to a moment, the others what --compare
    says."""
    compare: Comparison | None = None
    """Dialogues that begin alike, or replies to one moment; none takes the algorithm's own."""
    group_size: int = Field(default=4, ge=1)
    """Dialogues of one group, or replies that are tried at every moment."""
    next_reply: NextReply | None = None
    """Of replies to one moment, which goes on: the best or one drawn by lot; none takes the best
    for rft and dpo, a drawn one for the others."""
    advantage: GroupAdvantage = "episode"
    """A turn is compared by the whole return, the return from it on, or its own reward."""
    min_std: float = Field(default=0.01, ge=0)
    """No smaller standard deviation divides, in scaled rewards."""
    margin: float = Field(default=2.0, gt=0)
    """The least distance of a pair's rewards, or of the winner from the mean, in points."""
    gamma: float = Field(default=1.0, ge=0, le=1)
    """Discount from turn to turn: of gae, and of the return with advantage turn."""
    gae_lambda: float = Field(default=1.0, ge=0, le=1)
    """GAE's lambda, from turn to turn."""
    critic_lr: float = Field(default=5e-6, gt=0)
    """Learning rate of the critic, a model of its own, begun from the policy's weights."""
    critic_knows: Literal["words", "persona"] = "words"
    """The critic goes by the words; or also by a running mean for each persona."""


class _UpdateOptions(Section):
    """From advantages to steps."""

    lr: float = Field(default=1e-6, gt=0)
    """Learning rate of the policy."""
    warmup: int = Field(default=0, ge=0)
    """Iterations over which the learning rates rise to their values."""
    anneal: bool = False
    """Learning rates fall in a line, to a tenth in the last iteration."""
    epochs: int = Field(default=1, ge=1)
    """Passes over the dialogues of an iteration."""
    minibatches: int = Field(default=1, ge=1)
    """Steps of the optimizer a pass."""
    clip_low: float | None = Field(default=None, gt=0)
    """The probability ratio counts down to 1 - this; none takes the algorithm's own, mostly 0.2."""
    clip_high: float | None = Field(default=None, gt=0)
    """The ratio counts up to 1 + this; none takes the algorithm's own, mostly 0.2."""
    value_clip: float | None = Field(default=0.5, gt=0)
    """How far a value may move from its old one; none for no bound."""
    target_kl: float | None = Field(default=None, gt=0)
    """No further steps in an iteration once the policy has moved this far (KL, nats a token)."""
    aggregate: Aggregate | None = None
    """What losses are means over (docs/training.md); none takes the algorithm's own."""
    entropy: float = Field(default=0.0, ge=0)
    """Weight of the entropy bonus."""
    kl: float | None = Field(default=None, ge=0)
    """Weight of the divergence from the model at the start; none takes the algorithm's own."""
    beta: float = Field(default=0.1, gt=0)
    """Of dpo: how much rising above the model at the start counts; a smaller one moves further."""
    tis_cap: float | None = Field(default=2.0, ge=1)
    """Truncated importance sampling where a copy or a server samples; none for no correction."""
    max_sampler_kl: float | None = Field(default=0.1, gt=0)
    """The run ends when the sampler lies this far from the learner (KL, nats a token)."""
    grad_clip: float = Field(default=1.0, gt=0)
    """Largest norm of a gradient."""


class _ComputeOptions(Section):
    """What it is computed with."""

    lora_rank: int = Field(default=0, ge=0)
    """Rank of LoRA adapters; 0 trains all weights."""
    dtype: Dtype = "auto"
    """What the forward passes compute in; auto is bfloat16 on a GPU and float32 elsewhere."""
    gradient_checkpointing: bool = False
    """Saves memory, costs a third of the speed."""
    microbatch_tokens: int = Field(default=8192, ge=64)
    """Tokens (padding included) that pass through the model at once while learning, at most."""
    vllm: str | None = None
    """The address of a vLLM server that samples instead, such as http://HOST:8000/v1."""
    vllm_folder: Path | None = None
    """A folder that the vLLM server sees under the same path, for the adapters it is given."""
    vllm_seeds: bool = False
    """Send each reply's seed to the vLLM server, so that equal runs draw equally; slower."""


class _WatchOptions(Section):
    """What is measured and kept on the way."""

    eval_every: int = Field(default=10, ge=0)
    """Iterations between evaluations on held-out personas; 0 for none."""
    eval_dialogues: int = Field(default=24, ge=1)
    """Dialogues of an evaluation, one a persona from the first on."""
    eval_options: dict[str, Any] = Field(default_factory=lambda: {"split": "validation"})
    """What differs for the environment when evaluating; never the test people."""
    eval_temperature: float = Field(default=0.0, ge=0)
    """Of sampling when evaluating, and of the agent hf:PATH; 0 takes the likeliest token."""
    stop_on_alarm: bool = False
    """The run ends when an evaluation after some learning raises an alarm (docs/training.md)."""
    reference: str | None = None
    """Another user than the one that pays (reader, openai:MODEL, …), who appraises some again."""
    reference_options: dict[str, Any] = Field(default_factory=dict)
    """Of that user, such as base_url=http://HOST/v1."""
    reference_every: int = Field(default=5, ge=1)
    """Iterations between its appraisals; the first and the last are always appraised."""
    reference_dialogues: int = Field(default=16, ge=1)
    """Dialogues that it appraises, at most."""
    stop_on_gap: float | None = Field(default=None, gt=0)
    """The run ends once the reward has surely gained so many points more than the reference, if the
    two told replies apart alike at the start."""
    save_every: int = Field(default=10, ge=1)
    """Iterations between checkpoints."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """How many of the last checkpoints to keep, beside the best."""
    show_every: int = Field(default=10, ge=0)
    """Iterations between dialogues written down to read; 0 for none."""


class TrainConfig(
    # pydantic lists the fields of the last base first
    _WatchOptions,
    _ComputeOptions,
    _UpdateOptions,
    _ComparisonOptions,
    _RewardOptions,
    _SamplingOptions,
    _TaskOptions,
):
    """A training run, completely described. Unknown fields are an error."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for problem in self._contradictions():
            raise ValueError(problem)
        for name, why in self.explain_unused_options().items():
            field = TrainConfig.model_fields[name]
            if getattr(self, name) != field.get_default(call_default_factory=True):
                raise ValueError(_IGNORED.format(name=name, why=why))
        if "group_size" not in self._ignored and self.group_size < 2:
            raise ValueError(f"{self.algo} compares {self.compares}: group_size must be 2 or more.")
        if self.dialogues % self.group:
            raise ValueError(
                f"dialogues ({self.dialogues}) must be a multiple of group_size ({self.group})."
                " Change one of them."
            )
        return self

    def _contradictions(self) -> list[str]:
        if self.algo not in ALGORITHMS:
            return [f"algo: there is no {self.algo!r}. One of: {', '.join(ALGORITHMS)}."]
        found = {
            "reward: a function of your own is named MODULE:NAME.": (
                self.reward is not None and not is_own_name(self.reward, ())
            ),
            "vllm, vllm_folder and lora_rank go together: the server is given the policy as"
            " adapters, in a folder that both see.": (
                bool(self.vllm) != bool(self.vllm_folder) or (self.vllm and not self.lora_rank)
            ),
            "overlong_tokens and overlong_cost go together, and no more tokens can cost something"
            " than a reply may have.": (
                self.overlong_tokens > self.max_reply_tokens
                or bool(self.overlong_tokens) != bool(self.overlong_cost)
            ),
            f"max_reply_tokens ({self.max_reply_tokens}) must leave room for a prompt in"
            f" max_tokens ({self.max_tokens}).": self.max_reply_tokens >= self.max_tokens,
            "a corpus holds direct replies to one moment, as they are: leave --compare dialogues,"
            " overlong_tokens and style think out.": (
                self.corpus is not None
                and (self.compare == "dialogues" or self.overlong_tokens or self.style == "think")
            ),
            f"stop_on_gap needs {FEWEST_PEOPLE} people an iteration whose dialogues the reference"
            " appraises: more dialogues, or smaller groups.": (
                self.stop_on_gap is not None
                and min(self.reference_dialogues, self.dialogues // max(self.group, 1))
                < FEWEST_PEOPLE
            ),
            "eval_options: test people would choose the model. Evaluate with split=validation, and"
            " measure the test split once, afterwards (rlver-gym bench).": (
                self.eval_every > 0
                and draws_test_people(self.env, self.env_options | self.eval_options)
            ),
            f"reference is {self.reference}, the user that pays: take another one, such as"
            " reader or openai:MODEL.": (
                self.reference is not None
                and self.reference == self.env_options.get("user", "embedded")
            ),
        }
        return [problem for problem, is_true in found.items() if is_true]

    @property
    def _ignored(self) -> frozenset[str]:
        return self.algorithm.list_unused_options(self.compares)

    def explain_unused_options(self) -> dict[str, str]:
        """The options that decide nothing here, each with the reason."""
        unused = dict.fromkeys(sorted(self._ignored), f"{self.algo} has none")
        if self.compares == "replies" and not self.algorithm.has_margin:
            words = "replies to one moment are compared by their reward alone"
            unused |= dict.fromkeys(NOT_OF_REPLIES - self.algorithm.ignores, words)
        elif self.advantage_config.kind not in ("gae", "turn"):
            unused["gamma"] = "it is for ppo, and for advantage turn"
        if self.has_one_step:
            words = "the policy cannot move before the only step (--minibatches, --epochs)"
            unused = (
                dict.fromkeys(("clip_low", "clip_high", "value_clip", "target_kl"), words) | unused
            )
        if not (self.vllm or self.dtype != "float32") or self.corpus:
            unused["tis_cap"] = "what samples is what learns"
        if self.style == "direct":
            unused["format_penalty"] = "it is for style think"
        if not self.vllm:
            unused["vllm_seeds"] = "there is no vllm"
        if not self.eval_every:
            names = ("stop_on_alarm", "eval_dialogues", "eval_options")
            unused |= dict.fromkeys(names, "eval_every is 0")
        if not self.algorithm.learns_pairs:
            unused["beta"] = "it is for dpo"
        if self.corpus is not None:
            names = ("next_reply", "max_sampler_kl", "group_size", "reference")
            unused |= dict.fromkeys(names, "a corpus holds what was said")
            if not self.eval_every:
                names = ("env", "env_options", "vllm", "vllm_folder", "workers")
                unused |= dict.fromkeys(names, "a corpus holds what was said, and eval_every is 0")
        if self.reference is None:
            names = ("reference_options", "reference_every", "reference_dialogues", "stop_on_gap")
            unused |= dict.fromkeys(names, "there is no reference")
        return unused

    @property
    def algorithm(self) -> Algorithm:
        return ALGORITHMS[self.algo]

    @property
    def compares(self) -> Comparison:
        """What there are `group_size` of."""
        own: Comparison = "replies" if self.corpus else self.algorithm.advantage.compare
        return self.compare or own

    @property
    def group(self) -> int:
        """Dialogues that share persona and seed."""
        return 1 if "group_size" in self._ignored or self.compares == "replies" else self.group_size

    @property
    def num_candidates(self) -> int:
        """Replies that are tried at every moment."""
        return self.group_size if self.compares == "replies" else 1

    @property
    def goes_on_from_best(self) -> bool:
        """Whether a dialogue goes on from the best of the replies that were tried."""
        own: NextReply = "best" if self.algorithm.has_margin else "drawn"
        return (self.next_reply or own) == "best"

    @property
    def has_one_step(self) -> bool:
        """Whether an iteration is one step of the optimizer, before which all ratios are 1."""
        return self.epochs * self.minibatches == 1

    @property
    def has_reference(self) -> bool:
        return bool(self.objective.kl) or self.algorithm.learns_pairs

    @property
    def is_sampled(self) -> bool:
        return self.corpus is None

    @property
    def advantage_config(self) -> AdvantageConfig:
        """The algorithm's, with what this config changes in it."""
        own = self.algorithm.advantage
        names = ("gamma", "gae_lambda", "min_std", "margin")
        changes = {name: getattr(self, name) for name in names if name not in self._ignored}
        if "advantage" in self.algorithm.ignores:
            return replace(own, compare=self.compares, **changes)
        if self.compares == "replies":  # r - mean, which nothing divides
            return replace(own, kind="reply", compare="replies", scale=False, **changes)
        return replace(own, kind=self.advantage, **changes)

    @property
    def objective(self) -> Objective:
        own, has_other_sampler = self.algorithm.objective, self.vllm or self.dtype != "float32"
        is_corrected = self.tis_cap is not None and has_other_sampler and self.is_sampled
        return replace(
            own,
            clip_low=self.clip_low or own.clip_low,
            clip_high=self.clip_high or own.clip_high,
            aggregate=self.aggregate or own.aggregate,
            tis_cap=self.tis_cap if is_corrected and self.tis_cap else math.inf,
            entropy=self.entropy,
            kl=own.kl if self.kl is None else self.kl,
            beta=self.beta,
            value_clip=self.value_clip,
        )


def draws_test_people(env: str, options: Mapping[str, Any]) -> bool:
    """Whether the split that is asked for, or else the environment's own, holds test people."""
    own = env_card(env).split if env in shipped_env_ids() else None
    return options.get("split", own) in ("test", "all")


FIELDS: dict[str, FieldInfo] = TrainConfig.model_fields
_SECTIONS = {
    "ppo": CRITIC_OPTIONS | {"gamma", "reward_scale"},
    "group": GROUP_OPTIONS | REPLY_OPTIONS | {"gamma", "margin", "reward_scale"},
}
"""Sections of a file: what only some algorithms have, those with a critic or those with groups."""


def make_config(values: dict[str, Any], source: str) -> TrainConfig:
    end = ". See: rlver-gym train --help"
    with explain_invalid(TrainingError, f"{source}: ", "the combination", end):
        return TrainConfig(**values)


def make_saved_config(values: dict[str, Any], place: str) -> TrainConfig:
    """The config of a run that was saved. TrainingError for one with other options than ours."""
    if unknown := sorted(values.keys() - FIELDS.keys()):
        names = one_line(", ".join(unknown), max_chars=_MAX_CHARS)
        raise TrainingError(
            f"{place}: the run was made by a version with other options: this one has no {names}."
            " Go on with that version, or begin anew with another --out."
        )
    return make_config(values, place)


def _drop_server(name: str, value: Any) -> Any:
    if name not in ("env_options", "eval_options"):
        return value
    return {name: each for name, each in value.items() if name not in ChatSettings.model_fields}


MAY_CHANGE = frozenset(
    "iterations eval_every save_every keep_checkpoints show_every workers microbatch_tokens"
    " vllm vllm_folder vllm_seeds max_sampler_kl stop_on_alarm"
    " reference_every reference_dialogues reference_options stop_on_gap".split()
)
"""Settings that decide nothing of what was learned so far."""


def refuse_changes(saved: Section, wanted: Mapping[str, Any], place: Path) -> None:
    """TrainingError for another value (as JSON) of what decided what a run learned so far. How a
    server is reached, and at which cost, decides nothing.
    """
    theirs = saved.model_dump(mode="json")
    for name, value in wanted.items():
        if name not in theirs.keys() - MAY_CHANGE:
            continue
        if _drop_server(name, value) != _drop_server(name, theirs[name]):
            raise TrainingError(
                f"{place} was made with {name} {theirs[name]!r}, this run has {value!r}."
                " Go on with the same, or choose another --out."
            )


def read_run_config(folder: Path) -> TrainConfig:
    """The config of a run's folder. TrainingError when it cannot be read."""
    path = path_inside(folder, CONFIG, error=TrainingError)
    hint = f"Is {folder} the folder of a training run?"
    text = read_text(path, max_bytes=_MAX_CONFIG_BYTES, error=TrainingError, hint=hint)
    return make_saved_config(parse_object(text, path, TrainingError, hint), str(path))


def resume_config(folder: Path, given: dict[str, Any]) -> TrainConfig:
    """A folder's own config, with given values of what may change; TrainingError for others."""
    saved = read_run_config(folder)
    refuse_changes(saved, {name: _to_json(name, value) for name, value in given.items()}, folder)
    unsaid = {name: value for name, value in saved if name not in given}
    _reject_imports_from_file(unsaid, folder / CONFIG)
    return make_config({**dict(saved), **given}, "the options")


def _to_json(name: str, value: Any) -> Any:
    """The value as the config would save it; itself when it does not fit."""
    if name not in FIELDS:
        return value
    field: TypeAdapter[Any] = TypeAdapter(FIELDS[name].annotation or Any)
    try:
        return field.dump_python(field.validate_python(value), mode="json")
    except ValidationError:
        return value


def folder_name(config: TrainConfig) -> str:
    return RUN_FOLDER.format(
        algo=config.algo, style=config.style, model=Path(config.model).name, seed=config.seed
    )


def list_presets() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def read_config_values(
    path_or_preset: str, given: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """The fields of a YAML file, or of a preset by name, of which those that decide nothing are
    left out, `given` being asked for instead of the file's: of a preset all, of a file those that
    stand under `ppo:` and `group:`, which only some kinds of algorithm have.
    TrainingError when there is none, it holds no fields, or it names code to import.
    """
    is_preset = path_or_preset in list_presets()
    path = PRESETS / f"{path_or_preset}.yaml" if is_preset else Path(path_or_preset)
    values = read_yaml(
        path,
        TrainingError,
        f"Presets: {', '.join(list_presets())}; or give the path of a YAML file.",
    )
    if not isinstance(values, dict):
        raise TrainingError(f"{path}: must hold fields of a config, such as model: and iterations:")
    _reject_imports_from_file(values, path)
    sections = {name: values.pop(name, {}) for name in _SECTIONS}
    for name, section in sections.items():
        if not isinstance(section, dict) or not set(section) <= _SECTIONS[name]:
            known = ", ".join(sorted(_SECTIONS[name]))
            raise TrainingError(f"{path}: {name}: must hold nothing but {known}.")
    asked = {name: value for name, value in given.items() if value != "none"}
    wanted = TrainConfig.model_construct(**values | asked)
    if wanted.algo not in ALGORITHMS:
        return values
    unused = wanted.explain_unused_options()
    may_go = values | sections["ppo"] | sections["group"]
    kept = {name: value for name, value in may_go.items() if name not in unused}
    return kept if is_preset else values | kept


def _reject_imports_from_file(values: dict[str, Any], path: Path) -> None:
    """A file may come from anybody: what would be imported is said on the command line."""
    named = {name: (values.get(name), f"--{name} ") for name in ("reference", "reward")}
    for name in ("env_options", "eval_options"):
        if isinstance(options := values.get(name), dict):
            flag = f"--{name.replace('_', '-')} user="
            named[f"{name}.user"] = options.get("user"), flag
    if ":" in str(values.get("env", "")):
        raise TrainingError(
            f"{path}: env: names a module, which a file cannot. Give it on the command line: --env"
        )
    for field, (user, flag) in named.items():
        kind, colon, _ = str(user).partition(":")
        if colon and kind not in ("embedded", "openai"):
            is_reader = kind == "reader"
            raise TrainingError(
                f"{path}: {field}: names {'another file' if is_reader else 'a module'}, which a"
                " file cannot. Give it on the command line:"
                f" {flag}{'reader:FILE' if is_reader else 'MODULE:NAME'}"
            )
