"""How far supporters bring people, by those who rated them, and how each differs from the first."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from rlver_gym.core.cards import EnvCard, env_card
from rlver_gym.corpora.corpus import ENV, Corpus, Rating
from rlver_gym.util.groups import group, mean_by
from rlver_gym.util.interval import Interval, bootstrap


class Level(NamedTuple):
    """A supporter, or how much more it gives than the first to the people whom both talked with.

    Intervals are over people; nan where nothing was rated so.
    """

    supporter: str
    over: str | None
    """The first supporter, in a row of differences."""
    final: Interval
    """Where dialogues that are rated whole end, by an env card."""
    change: Interval
    """A reply, of dialogues and moments."""
    human: Interval
    """From 0 to 4; of those whose readers were asked for it."""
    dialogues: int
    """Rated whole; in a row of differences, people with a final of both."""


_ByPerson = Mapping[str, float]


class _Means(NamedTuple):
    """Of a supporter, by person."""

    final: _ByPerson
    change: _ByPerson
    human: _ByPerson
    dialogues: int

    @property
    def measures(self) -> tuple[_ByPerson, _ByPerson, _ByPerson]:
        return self.final, self.change, self.human


def measure_levels(corpus: Corpus, env: str = ENV) -> list[Level]:
    """Every supporter of whom something is rated, in the order in which the corpus names them, then
    the differences to the first. Finals by the card `env`, an id or a file.
    """
    means = _measure_means(corpus, env_card(env))
    levels = [_make_level(name, None, x.measures, x.dialogues) for name, x in means.items()]
    for first, base in list(means.items())[:1]:
        for name, x in list(means.items())[1:]:
            pairs = zip(x.measures, base.measures, strict=True)
            over = [{who: a[who] - b[who] for who in a.keys() & b.keys()} for a, b in pairs]
            levels.append(_make_level(name, first, over, len(over[0])))
    return levels


def _measure_means(corpus: Corpus, card: EnvCard) -> dict[str, _Means]:
    replies = group((x.supporter, x) for x in corpus.rated_replies())
    changes = group((x.place, x.mean("change")) for each in replies.values() for x in each)
    finals = group(
        (line.supporter, (line.persona, card.final_emotion(changes[line.id])))
        for line in corpus.dialogues
        if line.turns and len(changes.get(line.id, ())) == len(line.turns)
    )
    return {
        name: _Means(
            mean_by(finals.get(name, ())),
            mean_by((x.persona, x.mean("change")) for x in replies[name]),
            mean_by(
                (x.persona, x.mean("human"))
                for x in replies[name]
                if any(isinstance(rating, Rating) for rating in x.ratings)
            ),
            len(finals.get(name, ())),
        )
        for name in dict.fromkeys((*corpus.supporters, *replies))
        if name in replies
    }


def _make_level(
    name: str, over: str | None, measures: Iterable[_ByPerson], dialogues: int
) -> Level:
    final, change, human = (
        bootstrap(np.array([by_person[who] for who in sorted(by_person)], np.float64))
        for by_person in measures
    )
    return Level(name, over, final, change, human, dialogues)
