"""Preference pairs: two replies to the same person, with the same seed, at the same point of the
same talk.

The better one is the one that changed the emotion more, in that very turn. How a dialogue ended is
told beside it and decides nothing: the turns after a reply are not its doing. A point is common to
several agents when all that was said before is equal, letter by letter; nearly always that is the
opening.
"""

from collections.abc import Iterator, Sequence, Set
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

from rlver_gym.bench.export.rows import Row, build_episode_metadata, list_messages_before
from rlver_gym.bench.export.select_dialogues import Record
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.episode import Episode

_SAME = ("env_hash", "persona", "persona_hash", "user", "user_version", "seed", "opening")
_SCENE = (
    "split", "env", "env_hash", "persona", "persona_hash", "need", "disposition", "user",
    "user_version", "seed",
)  # fmt: skip
_Place = tuple[int, tuple[object, ...], tuple[tuple[str, str], ...]]


class Reply(NamedTuple):
    """One of the replies given at a point, by one agent or several."""

    record: Record
    text: str
    agents: tuple[str, ...]
    change: float
    """Of the emotion, in points; the mean when it was said in more than one dialogue."""
    final: float | None
    """The emotion at the end of the dialogue, likewise; None when it was rated alone."""

    def to_metadata(self) -> Row:
        final = {} if self.final is None else {"final": self.final}
        return {"agents": list(self.agents), "change": self.change, **final}


class BranchPoint(NamedTuple):
    """A place in a dialogue at which more than one thing was said."""

    turn: int
    """Counted from 0."""
    replies: tuple[Reply, ...]


def find_branch_points(
    records: Sequence[Record], singles: Sequence[Record] = ()
) -> list[BranchPoint]:
    """The points at which different replies were given; of `singles` only the last was felt."""
    places: dict[_Place, dict[str, list[Record]]] = {}
    alone = set(map(id, singles))
    for record in (*records, *singles):
        turns = record.episode.turns
        for number in range(len(turns) - 1 if id(record) in alone else 0, len(turns)):
            if turns[number].outcome is not Outcome.FAILED:
                said = places.setdefault(_comparison_key(record.episode, number), {})
                said.setdefault(turns[number].utterance, []).append(record)
    return [
        BranchPoint(turn, tuple(_make_reply(text, turn, by, alone) for text, by in said.items()))
        for (turn, *_), said in places.items()
        if len(said) > 1
    ]


def build_dpo_rows(
    points: Sequence[BranchPoint], system: str | None, min_margin: float = 1
) -> Iterator[Row]:
    """A row for every two replies of a point at least `min_margin` points apart."""
    for point in points:
        for pair in combinations(point.replies, 2):
            better, worse = sorted(pair, key=lambda reply: -reply.change)
            if better.change - worse.change >= min_margin:
                yield _build_dpo_row(point, better, worse, system)


def _build_dpo_row(point: BranchPoint, better: Reply, worse: Reply, system: str | None) -> Row:
    scene = build_episode_metadata(better.record)
    return {
        "prompt": list_messages_before(better.record, point.turn, system),
        "chosen": [{"role": "assistant", "content": better.text}],
        "rejected": [{"role": "assistant", "content": worse.text}],
        "metadata": {
            **{name: scene[name] for name in _SCENE if name in scene},
            "turn": point.turn + 1,
            "margin": better.change - worse.change,
            "chosen": better.to_metadata(),
            "rejected": worse.to_metadata(),
        },
    }


def _comparison_key(episode: Episode, turn: int) -> _Place:
    """What has to be equal for two replies to be comparable."""
    before = tuple((exchange.utterance, exchange.reply) for exchange in episode.turns[:turn])
    return turn, tuple(getattr(episode, name) for name in _SAME), before


def _make_reply(text: str, number: int, by: Sequence[Record], alone: Set[int]) -> Reply:
    finals = [record.episode.final for record in by if id(record) not in alone]
    return Reply(
        record=by[0],
        text=text,
        agents=tuple(dict.fromkeys(record.episode.agent for record in by)),
        change=fmean(record.episode.turns[number].appraisal.change for record in by),
        final=fmean(finals) if finals else None,
    )
