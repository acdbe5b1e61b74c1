"""Check the corpus of rated replies.

python benchmarks/corpus.py check [FOLDER]

`check` counts what research/corpus.md promises, says how far two readers agree, and ends with 1
when a promise is broken. Blind sheets are written and read back by `rlver-gym sheets`.
"""

import argparse
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from rlver_gym.core.capabilities import FACTORS
from rlver_gym.core.words import content_stems
from rlver_gym.corpora.corpus import Corpus, RatedReply, Rating, UserRating
from rlver_gym.library.personas import library

FOLDER = Path(__file__).parents[1] / "recordings" / "en"
SPLITS = ("train", "test")
_NEARLY = 0.8
"""Share of content words from which two replies are nearly the same."""
_WORDS = 5
"""Content words that a reply must have to be compared."""
_SITTING = 92
"""Replies that one reader rates in one sitting, at most."""


def near_duplicates(replies: Sequence[RatedReply]) -> int:
    """Replies that have nearly the same content words as an earlier one.

    Two sets that have so much in common share one of their few rarest words (prefix filtering;
    Chaudhuri et al. 2006, doi:10.1109/ICDE.2006.9), so only those are looked up.
    """
    every = [words for reply in replies if len(words := content_stems(reply.text)) >= _WORDS]
    common = Counter(word for words in every for word in words)
    seen: dict[str, list[frozenset[str]]] = defaultdict(list)
    found = 0
    for words in every:
        rarest = sorted(words, key=lambda word: (common[word], word))[
            : len(words) - math.ceil(_NEARLY * len(words)) + 1
        ]
        others = {id(one): one for word in rarest for one in seen[word]}.values()
        found += any(len(words & one) >= _NEARLY * len(words | one) for one in others)
        for word in rarest:
            seen[word].append(words)
    return found


def compare_readers(rated: Iterable[RatedReply]) -> dict[str, tuple[float, float]]:
    """Of each factor and the change, the correlation of two readers of one reply, and the share of
    pairs that differ by at most 1. Ratings of users, who give no factor, are passed over.
    """
    readers = ([x for x in one.ratings if isinstance(x, Rating)] for one in rated)
    pairs = [pair for ratings in readers for pair in combinations(ratings, 2)]
    found = {}
    for name in ("change", *FACTORS):
        first = np.array([one.of(name) for one, _ in pairs], float)
        second = np.array([other.of(name) for _, other in pairs], float)
        found[name] = (
            float(np.corrcoef(first, second)[0, 1]),
            float(np.mean(np.abs(first - second) <= 1)),
        )
    return found


def problems(splits: dict[str, Corpus]) -> Iterator[str]:
    """What research/corpus.md promises and is not so."""
    rated = {name: corpus.rated_replies() for name, corpus in splits.items()}
    every = [one for each in rated.values() for one in each]
    if len(every) < 6_000:
        yield f"{len(every)} rated replies, promised are 6,000"
    supporters = [one for corpus in splits.values() for one in corpus.supporters.values()]
    if len(supporters) < 40:
        yield f"{len(supporters)} supporters, promised are 40"
    full = sum(len(moment.replies) >= 8 for corpus in splits.values() for moment in corpus.moments)
    if full < 400:
        yield f"{full} moments with 8 replies, promised are 400"
    twice = sum(len(one.ratings) > 1 for one in every)
    if twice < 0.15 * len(every):
        yield f"{twice / len(every):.1%} of the replies are rated twice, promised are 15 %"
    ratings = [one for corpus in splits.values() for one in corpus.ratings]
    thoughts = [one.thought.casefold() for one in ratings if one.thought]
    if len(thoughts) - len(set(thoughts)) >= 0.01 * len(thoughts):
        yield "thoughts stand there twice"
    roles = {one.name for one in supporters if one.kind == "role"}
    written = [one for one in every if one.supporter in roles]
    if (found := near_duplicates(written)) >= 0.03 * len(written):
        yield f"{found} written replies are nearly the same as another"
    sittings = Counter(one.reader for corpus in splits.values() for one in corpus.ratings)
    yield from (
        f"sitting {name} rated {count}" for name, count in sittings.items() if count > _SITTING
    )
    yield from _leaks(splits, rated)


def _leaks(splits: dict[str, Corpus], rated: dict[str, list[RatedReply]]) -> Iterator[str]:
    shelf = library()
    for what in ("supporter", "person", "situation"):
        each = {
            name: {
                one.supporter if what == "supporter" else getattr(shelf.get(one.persona), what).id
                for one in replies
            }
            for name, replies in rated.items()
        }
        yield from (
            f"{what} {name} stands in both splits" for name in sorted(each["train"] & each["test"])
        )
    test_people = set(shelf.ids("test"))
    for name, corpus in splits.items():
        yield from _strays(name, corpus, test_people)


def _strays(name: str, corpus: Corpus, test_people: set[str]) -> Iterator[str]:
    """What stands in the wrong split, under a doubled id, or without what it refers to."""
    replies = list(corpus.replies())
    known = {one.id for one in replies}
    if len(known) < len(replies):
        yield f"{name}: {len(replies) - len(known)} ids stand there twice"
    yield from (
        f"{name}: rating of an unknown reply {one.reply}"
        for one in corpus.ratings
        if one.reply not in known
    )
    yield from (
        f"{name}: nobody is called {who}"
        for who in {one.supporter for one in replies} - set(corpus.supporters)
    )
    yield from (
        f"{name}: {one.name} is of the split {one.split}"
        for one in corpus.supporters.values()
        if one.split != name
    )
    yield from (
        f"{name}: {persona} is of the other split"
        for persona in sorted({one.persona for one in replies})
        if (persona in test_people) != (name == "test")
    )
    for one in replies:
        if len({rating.reader for rating in one.ratings}) < len(one.ratings):
            yield f"{name}: one reader rated {one.id} twice"
    for rating in corpus.ratings:
        if isinstance(rating, UserRating):
            yield f"{name}: {rating.reply} is rated by {rating.reader}, without factors"
        elif bool(rating.words) != bool(rating.false):
            yield (
                f"{name}: {rating.reply} is false without words, or has false words without being"
                " false"
            )


def check(folder: Path) -> int:
    """Print the counts, the correlations and what is wrong; 1 when something is."""
    splits = {name: Corpus(folder / name) for name in SPLITS}
    print_counts(splits)
    print_correlations(splits)
    wrong = list(problems(splits))
    print("\n".join(wrong) or "all promises kept")
    return int(bool(wrong))


def print_counts(splits: dict[str, Corpus]) -> None:
    """Print what each split holds."""
    for name, corpus in splits.items():
        rated = corpus.rated_replies()
        kinds = Counter(one.kind for one in corpus.supporters.values())
        print(
            f"{name}: {len(rated):,} rated replies ({sum(len(one.ratings) > 1 for one in rated):,}"
            f" by two readers) of {kinds['role']} roles and {kinds['machine']} machines,"
            f" {len(corpus.dialogues)} dialogues, {len(corpus.moments)} moments,"
            f" {len({one.persona for one in rated})} personas"
        )


def print_correlations(splits: dict[str, Corpus]) -> None:
    """Print how far two readers of one reply agree, and how far the factors explain the change."""
    every = [one for corpus in splits.values() for one in corpus.rated_replies()]
    for name, (correlation, near) in compare_readers(every).items():
        print(f"  two readers, {name}: r {correlation:.2f}, within 1 in {near:.0%}")
    rated = splits["train"].rated_replies()
    factors = np.array([[one.mean(name) for name in FACTORS] for one in rated])
    changes = np.array([one.mean("change") for one in rated])
    correlations = ", ".join(
        f"{name} {np.corrcoef(column, changes)[0, 1]:+.2f}"
        for name, column in zip(FACTORS, factors.T, strict=True)
    )
    design = np.column_stack([factors, np.ones(len(rated))])
    left = changes - design @ np.linalg.lstsq(design, changes, rcond=None)[0]
    print(f"  change by factors, train: R2 {1 - left.var() / changes.var():.2f}; {correlations}")


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check", help="counts, agreement, and what is wrong")
    checking.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    return check(parser.parse_args().folder)


if __name__ == "__main__":
    sys.exit(main())
