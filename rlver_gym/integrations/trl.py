"""TRL's GRPOTrainer on a text environment: prompts that say whom to meet, a `rollout_func` that
plays their dialogues, and a reward.

A prompt is a system message and a user message without words that names a persona and a seed: the
person speaks first, and says the same to every dialogue of a group. The dialogues are the learner's
own (`policy.rollout`); nothing that was sampled is tokenized again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rlver_gym.core.agent import agent_prompt
from rlver_gym.environment.make import make_for_loop
from rlver_gym.integrations.episodes import DEFAULT_ENV, EpisodeSpec
from rlver_gym.util.errors import TrainingError, needs_extra

with needs_extra("trl"):
    import torch
    from datasets import Dataset

    from rlver_gym.integrations.trl_trainer import (
        check_groups,
        check_settings,
        make_sampler,
        max_dialogue_tokens,
    )
    from rlver_gym.policy.evaluate import final_score
    from rlver_gym.policy.models.renderer import Renderer
    from rlver_gym.policy.models.rollout import ResetSpec, TextEnv, collect_rollouts
    from rlver_gym.policy.models.sampler import Sampler, Sampling
    from rlver_gym.policy.models.trajectory import Trajectory

Prompt = Sequence[Mapping[str, Any]]
Columns = dict[str, list[Any]]


def prompt_rows(
    personas: Iterable[str], seeds: Iterable[int] = (0,), system: str | None = None
) -> Dataset:
    """A `train_dataset`: a row a persona and seed; `system`: None for `agent_prompt()`."""
    told, seeds = {"role": "system", "content": system or agent_prompt()}, tuple(seeds)
    met = (
        {"role": "user", "content": "", "persona": persona, "seed": seed}
        for persona in personas
        for seed in seeds
    )
    return Dataset.from_list([{"prompt": [told, message]} for message in met])


def parse_prompt(prompt: Prompt) -> EpisodeSpec:
    """Whom a prompt names. TrainingError for one that names nobody."""
    last = prompt[-1] if isinstance(prompt, Sequence) and prompt else None
    said = last if isinstance(last, Mapping) else {}
    if said.get("persona") is None or said.get("seed") is None:
        raise TrainingError(
            "a prompt does not say whom to meet: its last message must name a persona and a seed."
            " Make the dataset with rlver_gym.integrations.trl.prompt_rows()."
        )
    return EpisodeSpec(said["persona"], said["seed"])


def final_emotion(
    completions: Sequence[Any],
    emotion: Sequence[float | None],
    log_metric: Callable[[str, float], None] | None = None,
    **columns: Any,
) -> list[float | None]:
    """A reward: the score of the dialogue; None, which TRL leaves out, when it broke off."""
    ended = [value for value in emotion if value is not None]
    if log_metric and ended:
        log_metric("emotion", sum(ended) / len(ended))
        log_metric("context_overflow", sum(columns["context_overflow"]) / len(emotion))
    return [None if value is None else value / 100 for value in emotion]


class Rollout:
    """A `rollout_func`: plays one dialogue a prompt with the trainer's model or its vLLM, all at
    once, and gives exact token ids. DeepSpeed's stage 3 and FSDP with `use_vllm` alone.

    Beside `prompt_ids`, `completion_ids`, `logprobs` (in nats, 0 where the policy did not speak)
    and `env_mask` (1 where it did), reward functions get a column each of: `emotion` (the last;
    None when the dialogue broke off), `turn_rewards`, `dialogue` (messages), `persona`, `seed`,
    `outcome` and `context_overflow` (it ended because the context was full). A dialogue that broke
    off has no token to learn from.
    """

    def __init__(
        self,
        env: str = DEFAULT_ENV,
        *,
        max_reply_tokens: int = 256,
        workers: int = 1,
        sampler: Sampler | None = None,
        **env_options: Any,
    ) -> None:
        """`env`, `env_options`: for `gym.make`. `workers`: how many users are waited for at the
        same time. `sampler`: None for the trainer's model or its vLLM. The trainer's
        `max_completion_length` bounds the whole dialogue, its prompt included. TRL takes one
        sequence a dialogue: a policy that thinks, which leaves one a turn, is trained with
        rlver-gym train --style think.
        """
        self.max_reply_tokens = max_reply_tokens
        self.workers = workers
        self._sampler = sampler
        self._make: Callable[[], TextEnv] = lambda: make_for_loop(env, **env_options)
        self._envs: list[TextEnv] = []

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> Columns:
        """What TRL asks for. TrainingError for settings of the trainer that this cannot follow."""
        met = [parse_prompt(prompt) for prompt in prompts]
        check_settings(trainer, has_sampler=self._sampler is not None)
        check_groups(met, trainer)
        renderer = Renderer(trainer.processing_class, _shared_system_prompt(prompts))
        self._envs += [self._make() for _ in range(len(prompts) - len(self._envs))]
        group_of = {scene: number for number, scene in enumerate(dict.fromkeys(met))}
        drawn = trainer.temperature, trainer.top_p, trainer.top_k or 0
        played = collect_rollouts(
            self._sampler or make_sampler(trainer),
            renderer,
            Sampling(self.max_reply_tokens, renderer.stop_ids, *drawn),
            self._envs[: len(prompts)],
            [
                ResetSpec(number, scene.seed, group_of[scene], {"persona": scene.persona})
                for number, scene in enumerate(met)
            ],
            # the trainer seeds torch, and saves its state with a checkpoint
            draw_seed=int(torch.randint(2**31, ())),
            max_tokens=max_dialogue_tokens(trainer),
            workers=self.workers,
        )
        if any(trajectory.context_overflow and not trajectory.sequences for trajectory in played):
            raise TrainingError(
                f"a dialogue has no room for a single reply of {self.max_reply_tokens} tokens:"
                f" max_completion_length is {trainer.max_completion_length}, and holds the whole"
                " dialogue, its prompt included. Set it to 4096 or so in the GRPOConfig."
            )
        return _columns(played, met, renderer.end_of_turn)


def _columns(played: Sequence[Trajectory], met: Sequence[EpisodeSpec], end_of_turn: int) -> Columns:
    roles = {"agent": "assistant", "user": "user"}
    rows = [
        {
            **_token_columns(trajectory, end_of_turn),
            "emotion": final_score(trajectory) if trajectory.valid else None,
            "turn_rewards": trajectory.reward_N.tolist(),
            "dialogue": [
                {"role": roles[line.speaker], "content": line.text} for line in trajectory.lines
            ],
            "persona": whom.persona,
            "seed": whom.seed,
            "outcome": trajectory.info.get("outcome"),
            "context_overflow": trajectory.context_overflow,
        }
        for trajectory, whom in zip(played, met, strict=True)
    ]
    return {name: [row[name] for row in rows] for name in rows[0]}


def _token_columns(trajectory: Trajectory, end_of_turn: int) -> dict[str, list[Any]]:
    if not trajectory.sequences:
        nothing = {"completion_ids": [end_of_turn], "logprobs": [0.0], "env_mask": [0]}
        return {"prompt_ids": [end_of_turn], **nothing}
    (sequence,) = trajectory.sequences
    first = int(sequence.action_mask_T.argmax())
    counts_T = sequence.action_mask_T & trajectory.valid
    return {
        "prompt_ids": sequence.id_T[:first].tolist(),
        "completion_ids": sequence.id_T[first:].tolist(),
        "logprobs": sequence.logprob_T[first:].tolist(),
        "env_mask": counts_T[first:].astype(int).tolist(),
    }


def _shared_system_prompt(prompts: Sequence[Prompt]) -> str:
    told = {prompt[0]["content"] if prompt[0]["role"] == "system" else None for prompt in prompts}
    first, *others = told
    if first is None or others:
        raise TrainingError(
            "the prompts of a batch must begin with the same system message. Make the dataset with"
            " rlver_gym.integrations.trl.prompt_rows()."
        )
    return first
