"""Rated replies of a corpus in the place of dialogues of one's own: what trains on the one trains
on the other.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from rlver_gym.corpora.corpus import Corpus, RatedReply
from rlver_gym.policy.models.own_reward import OwnReward, RewardedReply
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.models.rollout import SequenceBuilder
from rlver_gym.policy.models.sampler import Completion
from rlver_gym.policy.models.trajectory import (
    Alternative,
    TokenSequence,
    Trajectory,
    TranscriptLine,
)
from rlver_gym.util.errors import TrainingError


def read_rated_moments(
    folder: Path,
    renderer: Renderer,
    max_tokens: int,
    at_least: int = 2,
    own_reward: OwnReward | None = None,
) -> list[Trajectory]:
    """The moments of a corpus with that many rated replies or more, each as a dialogue of one turn,
    rewarded with the mean change by its readers, to which `own_reward` adds. TrainingError when
    none fits `max_tokens`, RecordingError for what is no corpus.
    """
    moments = (
        _make_moment(replies, number, renderer, own_reward)
        for number, replies in enumerate(group_by_moment(Corpus(folder).rated_replies()))
        if len(replies) >= at_least
    )
    kept = [one for one in moments if _count_longest(one) <= max_tokens]
    if not kept:
        raise TrainingError(
            f"{folder} holds no moment with {at_least} rated replies of at most {max_tokens}"
            " tokens. Rate some (rlver-gym sheets), or allow more with --max-tokens."
        )
    return kept


def group_by_moment(replies: Iterable[RatedReply]) -> list[list[RatedReply]]:
    """The replies to each moment: a place of the corpus, and how much was said there before."""
    moments: dict[tuple[str, int], list[RatedReply]] = defaultdict(list)
    for reply in replies:
        moments[reply.place, len(reply.dialogue.turns)].append(reply)
    return list(moments.values())


def _make_moment(
    replies: Sequence[RatedReply],
    number: int,
    renderer: Renderer,
    own_reward: OwnReward | None = None,
) -> Trajectory:
    dialogue = replies[0].dialogue
    prompt = renderer.prompt(dialogue.user_lines, dialogue.earlier_utterances)

    def build(reply: RatedReply) -> TokenSequence:
        builder, ids = SequenceBuilder(), renderer.reply(reply.text)
        builder.grow(prompt, Completion(ids, [0.0] * len(ids)), 0)
        return builder.sequence()

    def pay(reply: RatedReply, tokens: int) -> float:
        change, who = reply.mean("change"), reply.persona
        if own_reward is None:
            return change
        before = tuple(dialogue.user_lines), tuple(dialogue.earlier_utterances)
        return own_reward(RewardedReply(reply.text, "", *before, change, tokens, who))

    sequences = [build(reply) for reply in replies]
    said, *tried = [
        Alternative(0, sequence, pay(reply, int(sequence.action_mask_T.sum())), format_error=False)
        for reply, sequence in zip(replies, sequences, strict=True)
    ]
    heard, last = dialogue.user_lines[-1], replies[0].text
    return Trajectory(
        group=number,
        seed=number,
        reward_N=np.array([said.reward], np.float32),
        format_error_N=np.zeros(1, np.bool_),
        sequences=(said.sequence,),
        lines=(TranscriptLine("user", heard), TranscriptLine("agent", last)),
        info={"persona": replies[0].persona},
        alternatives=tuple(tried),
    )


def draw_moments(
    moments: Sequence[Trajectory], count: int, iteration: int, seed: int
) -> list[Trajectory]:
    """The next `count` moments, pass after pass, each in an order of its own."""
    chosen = []
    for place in range(iteration * count, (iteration + 1) * count):
        number, at = divmod(place, len(moments))
        order = np.random.default_rng((seed, number, 2)).permutation(len(moments))
        chosen.append(moments[order[at]])
    return chosen


def _count_longest(moment: Trajectory) -> int:
    tried = (x.sequence for x in moment.alternatives)
    return max(len(x.id_T) for x in (*moment.sequences, *tried))
