"""inspect_ai's evals: the task `rlver_empathy`, its solver, a `generate` a turn, and a scorer.

    inspect eval rlver_gym/rlver_empathy --model openai/gpt-5 -T split=test -T seeds=3 --epochs 2

The log holds rewards, outcome and transcript of each sample in its store.
"""

# pyright: reportCallIssue=false, reportGeneralTypeIssues=false

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from rlver_gym.core.emotion import Outcome
from rlver_gym.core.persona import SplitChoice
from rlver_gym.core.user import SentientUser
from rlver_gym.integrations.episodes import (
    DEFAULT_ENV,
    EpisodeHost,
    EpisodeSpec,
    TextEpisode,
    list_specs,
)
from rlver_gym.util.errors import DialogueError, needs_extra

with needs_extra("inspect-ai"):
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageSystem, ChatMessageUser
    from inspect_ai.scorer import Score, Scorer, Target, ci, mean, scorer, stderr
    from inspect_ai.solver import Generate, Solver, TaskState, solver
    from inspect_ai.util import StoreModel

EPOCH_STRIDE = 1_000_000
"""Epoch e of a sample with seed s plays seed s + (e - 1) * EPOCH_STRIDE: each epoch meets the
person in another mood, the first one as `reset(seed=s)` does. Seeds of samples lie below it.
"""


class DialogueRecord(StoreModel):
    """A dialogue so far, in its sample's store: `sample.store_as(DialogueRecord)`."""

    seed: int | None = None
    """What `reset` got: the sample's seed, moved by its epoch. None before the dialogue."""
    rewards: list[float] = Field(default_factory=list)
    """One a turn."""
    transcript: list[dict[str, str]] = Field(default_factory=list)
    """Messages as the person heard them: without control characters, cut at the card's limit."""
    emotion: int | None = None
    """The last emotion, in [0, 100]; None before the dialogue."""
    outcome: str | None = None
    """"content", "left", "out_of_turns", or "failed" when the user failed, which is no score; None
    when a limit of inspect_ai cut the dialogue off.
    """


def make_samples(
    env: str = DEFAULT_ENV, split: SplitChoice | None = None, seeds: int | Sequence[int | str] = 1
) -> list[Sample]:
    """A sample for each persona of a split with each seed: PERSONA_SEED and the system prompt."""
    return [
        Sample(
            id=f"{spec.persona}_{spec.seed}",
            input=[ChatMessageSystem(content=spec.system_prompt)],
            metadata=spec.to_dict(),
        )
        for spec in list_specs(env, split, _parse_seeds(seeds))
    ]


@task
def rlver_empathy(
    env: str = DEFAULT_ENV,
    split: SplitChoice | None = None,
    seeds: int | Sequence[int | str] = 1,
    user: str | SentientUser = "embedded",
    **options: Any,
) -> Task:
    """Supportive dialogues with the personas of a split, scored by the final emotion.

    `seeds`: how many dialogues with each persona, with the seeds from 0; or a list of seeds
    (`-T seeds=7,8`), else DialogueError. The log keeps `user` and its options, such as
    `-T user=openai:MODEL -T base_url=http://...`, so keys are read from the environment.
    """
    return Task(
        dataset=MemoryDataset(make_samples(env, split, seeds), name=env),
        solver=empathy_dialogue(user, **options),
        scorer=final_emotion(),
    )


@solver
def empathy_dialogue(user: str | SentientUser = "embedded", **options: Any) -> Solver:
    """Plays the dialogue that a sample names; a server that is out is the sample's error."""
    host = EpisodeHost(user, written_to="the log", **options)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        spec = _epoch_spec(EpisodeSpec.from_dict(state.metadata), state.epoch)
        episode = host.episode(spec)
        record = state.store_as(DialogueRecord)
        record.seed = spec.seed
        reply = await episode.abegin()
        _update(state, record, episode, reply)
        while not (episode.done or state.completed):
            state = await generate(state)
            result = await episode.asay(state.output.completion)
            _update(state, record, episode, result.reply)
        return state

    return solve


@scorer(metrics=[mean(), stderr(cluster="persona"), ci(cluster="persona")])
def final_emotion() -> Scorer:
    """The last emotion, from 0 to 1, also of a dialogue that a limit of inspect_ai cut off. Where
    the user failed, or no dialogue took place, the sample is unscored: metrics and epoch reducers
    leave it out. The standard error and the interval are over personas, since dialogues with the
    same person are not independent.
    """

    async def score(state: TaskState, target: Target) -> Score:
        record = state.store_as(DialogueRecord)
        if record.emotion is None:
            return Score.unscored(
                reason="scoring_failed",
                explanation="no dialogue took place: the sample needs the solver empathy_dialogue",
            )
        if record.outcome == Outcome.FAILED:
            return Score.unscored(
                reason="grader_failed",
                explanation="the simulated user failed; this is no score of the model",
            )
        turns, outcome = len(record.rewards), record.outcome or "cut off by a limit"
        return Score(
            value=record.emotion / 100,
            answer=state.output.completion,
            explanation=f"emotion {record.emotion} of 100 after {turns} turns: {outcome}",
            metadata={"turns": turns, "outcome": record.outcome},
        )

    return score


def _epoch_spec(spec: EpisodeSpec, epoch: int) -> EpisodeSpec:
    return spec._replace(seed=spec.seed + (epoch - 1) * EPOCH_STRIDE)


def _update(state: TaskState, record: DialogueRecord, episode: TextEpisode, reply: str) -> None:
    """What the person answered goes to the model, how they feel to the store alone."""
    if reply:
        state.messages.append(ChatMessageUser(content=reply))
    record.rewards = list(episode.rewards)
    record.transcript = episode.messages
    record.emotion = episode.emotion
    metrics = episode.metrics
    record.outcome = next((str(ending) for ending in Outcome if metrics[f"outcome_{ending}"]), None)


def _parse_seeds(seeds: int | Sequence[int | str]) -> list[int]:
    try:
        chosen = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    except (TypeError, ValueError):
        chosen = []
    if not chosen or not all(0 <= seed < EPOCH_STRIDE for seed in chosen):
        raise DialogueError(
            f"seeds={seeds!r} names no seeds. Give a count from 1, as in seeds=3, or a list of"
            f" numbers from 0 to {EPOCH_STRIDE - 1}, as in seeds=7,8."
        )
    return list(dict.fromkeys(chosen))
