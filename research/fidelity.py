"""How far a user's changes agree with those of readers of a corpus of rated replies: within a
dialogue first, for that is all that a learner sees.

python research/fidelity.py recordings/en/test [--user embedded|reader|MODULE:NAME] [--save FILE]
    [--beside FILE]

Each reply is felt from an emotion of 40. Intervals are 95 %, over supporters. `--save` keeps the
changes, `--beside` compares with those that another version saved: differences, drawn in pairs.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rlver_gym.core.cards import env_card
from rlver_gym.core.user import Scene, SentientUser
from rlver_gym.corpora.corpus import Corpus, RatedReply
from rlver_gym.library.personas import library
from rlver_gym.users import make_user
from rlver_gym.util.correlation import correlation, correlation_within
from rlver_gym.util.errors import RecordingError

MIN_REPLIES = 8
"""Of a supporter whose mean counts."""
DRAWS = 300
Agreement = dict[str, float | None]
Bounds = dict[str, tuple[float, float]]


class _Replies(NamedTuple):
    """Rated replies and what was felt, one an element."""

    change: np.ndarray
    felt: np.ndarray
    place: np.ndarray
    persona: np.ndarray
    supporter: np.ndarray
    is_dialogue: np.ndarray
    """Whether its place is a whole dialogue, in which one supporter speaks, and not a moment."""


def appraise_corpus(user: SentientUser, folder: Path) -> tuple[list[RatedReply], np.ndarray]:
    """Have a user appraise every rated reply, from the start of a dialogue's emotion, in points.
    RecordingError for a corpus without any.
    """
    rated = Corpus(folder).rated_replies()
    if not rated:
        raise RecordingError(f"{folder}: no reply of the corpus is rated.")
    return rated, appraise_replies(user, rated)


def appraise_replies(user: SentientUser, rated: Sequence[RatedReply]) -> np.ndarray:
    """The same of some replies."""
    card, shelf = env_card("SAGE-Sentient-v0"), library()
    scenes = [Scene(shelf.get(one.persona), card, 0) for one in rated]
    return np.array(
        [
            float(user.appraise(scene, card.start, one.dialogue).change)
            for scene, one in zip(scenes, rated, strict=True)
        ]
    )


def describe_agreement(
    rated: Sequence[RatedReply], felt: Sequence[float] | np.ndarray
) -> Agreement:
    """Correlations with each dialogue's mean, each moment's and each persona's taken out of both;
    the share of equal signs where readers give one, and that for a user who is always pleased; the
    order of the supporters' means (Spearman). RecordingError without a reply.
    """
    return _compare(_lay_out(rated, felt))


def bootstrap_agreement(
    rated: Sequence[RatedReply], felt: Sequence[float] | np.ndarray, draws: int = DRAWS
) -> Bounds:
    """95 % bootstrap bounds of the same, over supporters; one that is drawn twice is two."""
    return {
        name: (float(np.nanpercentile(values, 2.5)), float(np.nanpercentile(values, 97.5)))
        for name, values in _draw(_lay_out(rated, felt), draws).items()
    }


def compare_agreements(
    rated: Sequence[RatedReply], felt: np.ndarray, other: np.ndarray
) -> Iterator[str]:
    """A line a measure: how much more one user agrees than another, supporters drawn in pairs."""
    mine, theirs = (_draw(_lay_out(rated, each), DRAWS) for each in (felt, other))
    before = describe_agreement(rated, other)
    for name, value in describe_agreement(rated, felt).items():
        if value is not None and name != "always_pleased":
            apart = np.array(mine[name]) - np.array(theirs[name])
            low, high = np.nanpercentile(apart, [2.5, 97.5])
            more = value - (before[name] or 0.0)
            yield f"{name} beside: {more:+.3f} ({low:+.3f} to {high:+.3f})"


def _draw(replies: _Replies, draws: int) -> dict[str, list[float]]:
    """The agreement with supporters drawn again and again, the same ones for equal replies."""
    chance = np.random.default_rng(0)
    names, of = np.unique(replies.supporter, return_inverse=True)
    rows = [np.flatnonzero(of == number) for number in range(len(names))]
    found: dict[str, list[float]] = {}
    for _ in range(draws):
        drawn = chance.choice(len(names), len(names))
        chosen = np.concatenate([rows[number] for number in drawn])
        copy = np.repeat(np.arange(len(drawn)), [len(rows[number]) for number in drawn])
        sample = _Replies(*(part[chosen] for part in replies))
        for name, value in _compare(sample._replace(supporter=copy)).items():
            found.setdefault(name, []).append(np.nan if value is None else value)
    return found


def _lay_out(rated: Sequence[RatedReply], felt: Sequence[float] | np.ndarray) -> _Replies:
    if not rated:
        raise RecordingError("the corpus holds no rated reply: there is nothing to compare.")
    spoke: dict[str, set[str]] = {}
    for one in rated:
        spoke.setdefault(one.place, set()).add(one.supporter)
    return _Replies(
        np.array([one.mean("change") for one in rated]),
        np.asarray(felt, dtype=float),
        np.array([one.place for one in rated]),
        np.array([one.persona for one in rated]),
        np.array([one.supporter for one in rated]),
        np.array([len(spoke[one.place]) == 1 for one in rated]),
    )


def _compare(replies: _Replies) -> Agreement:
    change, felt, place, persona, supporter, is_dialogue = replies
    has_sign = change != 0
    _names, number, counts = np.unique(supporter, return_inverse=True, return_counts=True)
    many = counts >= MIN_REPLIES
    means = [np.bincount(number, values)[many] / counts[many] for values in (change, felt)]

    def inside(chosen: np.ndarray) -> float | None:
        if chosen.sum() < 3:
            return None
        return correlation_within(change[chosen], felt[chosen], place[chosen])

    return {
        "within_dialogue_r": inside(is_dialogue),
        "within_moment_r": inside(~is_dialogue),
        "within_person_r": correlation_within(change, felt, persona),
        "same_sign": _mean(np.sign(felt[has_sign]) == np.sign(change[has_sign])),
        "always_pleased": _mean(change[has_sign] > 0),
        "order_of_supporters": _correlate_ranks(*means) if len(means[0]) > 2 else None,
    }


def _correlate_ranks(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's, ties sharing their mean rank."""
    return correlation(_ranks(a), _ranks(b))


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.array(
        [(values < value).sum() + ((values == value).sum() - 1) / 2 for value in values]
    )


def _mean(of: np.ndarray) -> float | None:
    return float(of.mean()) if len(of) else None


def main() -> None:
    """Print the agreement, a line a measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--user", default="embedded")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--beside", type=Path)
    asked = parser.parse_args()
    user = make_user(asked.user)
    rated, felt = appraise_corpus(user, asked.corpus)
    found, bounds = describe_agreement(rated, felt), bootstrap_agreement(rated, felt)
    print(f"{user.kind} (version {user.version}) and readers: {len(rated)} replies")
    for name, value in found.items():
        if value is not None:
            low, high = bounds[name]
            print(f"{name}: {value:.2f} ({low:.2f} to {high:.2f})")
    if asked.save:
        asked.save.write_text(json.dumps(felt.tolist()), encoding="utf-8")
    if asked.beside:
        other = np.array(json.loads(asked.beside.read_text(encoding="utf-8")))
        for line in compare_agreements(rated, felt, other):
            print(line)


if __name__ == "__main__":
    main()
