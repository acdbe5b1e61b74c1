"""How far supporters bring people, by those who rated them, and how each differs from the first."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rlver_gym.core.cards import env_card
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


def measure_levels(corpus: Corpus, env: str = ENV) -> list[Level]:
    """Every supporter of whom something is rated, in the order in which the corpus names them, then
    the differences to the first. Finals by the card `env`, an id or a file.
    """
    card, replies = env_card(env), group((x.supporter, x) for x in corpus.rated_replies())
    changes = group((x.place, x.mean("change")) for each in replies.values() for x in each)
    finals = group(
        (line.supporter, (line.persona, card.final_emotion(changes[line.id])))
        for line in corpus.dialogues
        if line.turns and len(changes.get(line.id, ())) == len(line.turns)
    )
    means = {
        name: (
            mean_by(finals.get(name, ())),
            mean_by((x.persona, x.mean("change")) for x in replies[name]),
            mean_by(
                (x.persona, x.mean("human"))
                for x in replies[name]
                if any(isinstance(rating, Rating) for rating in x.ratings)
            ),
        )
        for name in dict.fromkeys((*corpus.supporters, *replies))
        if name in replies
    }
    levels = [_make_level(name, None, means[name], len(finals.get(name, ()))) for name in means]
    for first in list(means)[:1]:
        for name in list(means)[1:]:
            pairs = zip(means[name], means[first], strict=True)
            over = [{who: a[who] - b[who] for who in a.keys() & b.keys()} for a, b in pairs]
            levels.append(_make_level(name, first, over, len(over[0])))
    return levels


def _make_level(
    name: str, over: str | None, measures: Iterable[Mapping[str, float]], dialogues: int
) -> Level:
    """`measures`: final, change and human, each by person."""
    final, change, human = (bootstrap(by[who] for who in sorted(by)) for by in measures)
    return Level(name, over, final, change, human, dialogues)
