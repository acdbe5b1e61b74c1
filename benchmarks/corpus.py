"""Check the corpus of rated replies, say how far its readers agree, and write blind sheets for more of them.

python benchmarks/corpus.py check [FOLDER]
python benchmarks/corpus.py agree [FOLDER]
python benchmarks/corpus.py left-out [FOLDER]
python benchmarks/corpus.py sheet OUT PLACE... [--folder FOLDER]

`check` counts what docs/corpus.md promises and ends with 1 when a promise is broken. `agree` says how far the embedded user's changes agree with the readers'; `left-out` the same of fits that have not seen the supporter who speaks, and how that grows with the number of supporters and replies (some minutes; needs the extra `calibrate`). `sheet` writes OUT/sheet.md, by which a reader rates all replies of some dialogues and moments
(their ids) with docs/rubric.md, and OUT/key.json, which says who spoke.
"""

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from rlver_gym.calibration.factors import fit_factors
from rlver_gym.calibration.replies import describe_replies, read_pairs
from rlver_gym.cards import env_card
from rlver_gym.corpus import FACTORS, Corpus, RatedReply
from rlver_gym.fidelity.checks import spearman
from rlver_gym.library import library
from rlver_gym.persona import HiddenNeed, Persona
from rlver_gym.users import EmbeddedUser
from rlver_gym.users.base import Scene
from rlver_gym.words import content

FOLDER = Path(__file__).parents[1] / "recordings" / "en"
PAIRS = Path(__file__).parents[1] / "tests" / "data" / "expectations_en.jsonl"
SPLITS = ("train", "test")
_NEARLY = 0.8
"""Share of content words from which two replies are nearly the same."""
_WORDS = 5
"""Content words that a reply must have to be compared."""
_SITTING = 80
"""Replies that one reader rates in one sitting, at most."""
NEEDS = {
    "deep_empathy": "to be felt with: that somebody senses what it is like inside, beyond generic comfort",
    "practical_advice": "concrete, workable help with what to do next",
    "balanced_view": "to see both sides fairly, the others' as well as their own",
    "motives": "to understand why the other person acted as they did",
    "reflection": "to be led to their own part and pattern",
    "listening": "to tell it all to somebody patient who takes in details and fixes nothing",
    "not_at_fault": "to hear convincingly, on the facts, that they are not to blame",
    "praise": "sincere, specific recognition of what they did",
}


def near_duplicates(replies: Sequence[RatedReply]) -> int:
    """Replies that have nearly the same content words as an earlier one."""
    seen: dict[str, list[frozenset[str]]] = defaultdict(list)
    found = 0
    for reply in replies:
        words = content(reply.text)
        if len(words) < _WORDS:
            continue
        others = {id(one): one for word in words for one in seen[word]}.values()
        found += any(len(words & one) >= _NEARLY * len(words | one) for one in others)
        for word in words:
            seen[word].append(words)
    return found


def agreement(rated: Iterable[RatedReply]) -> dict[str, tuple[float, float]]:
    """Of each factor and the change, the correlation of two readers of one reply, and the share of pairs that differ by at most 1."""
    pairs = [pair for one in rated for pair in combinations(one.ratings, 2)]
    found = {}
    for name in ("change", *FACTORS):
        first = np.array([one.of(name) for one, _ in pairs], float)
        second = np.array([other.of(name) for _, other in pairs], float)
        found[name] = (float(np.corrcoef(first, second)[0, 1]), float(np.mean(np.abs(first - second) <= 1)))
    return found


def problems(splits: dict[str, Corpus]) -> Iterator[str]:
    """What docs/corpus.md promises and is not so."""
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
    thoughts = [one.thought.casefold() for corpus in splits.values() for one in corpus.ratings]
    if len(thoughts) - len(set(thoughts)) >= 0.01 * len(thoughts):
        yield "thoughts stand there twice"
    roles = {one.name for one in supporters if one.kind == "role"}
    written = [one for one in every if one.supporter in roles]
    if (found := near_duplicates(written)) >= 0.03 * len(written):
        yield f"{found} written replies are nearly the same as another"
    sittings = Counter(one.reader for corpus in splits.values() for one in corpus.ratings)
    yield from (f"sitting {name} rated {count}" for name, count in sittings.items() if count > _SITTING)
    yield from _leaks(splits, rated)


def _leaks(splits: dict[str, Corpus], rated: dict[str, list[RatedReply]]) -> Iterator[str]:
    shelf = library()
    for what in ("supporter", "person", "situation"):
        each = {
            name: {
                one.supporter if what == "supporter" else getattr(shelf.get(one.persona), what).id for one in replies
            }
            for name, replies in rated.items()
        }
        yield from (f"{what} {name} stands in both splits" for name in sorted(each["train"] & each["test"]))
    test_people = set(shelf.ids("test"))
    for name, corpus in splits.items():
        yield from _strays(name, corpus, test_people)


def _strays(name: str, corpus: Corpus, test_people: set[str]) -> Iterator[str]:
    """What stands in the wrong split, under a doubled id, or without what it refers to."""
    replies = list(corpus.replies())
    known = {one.id for one in replies}
    if len(known) < len(replies):
        yield f"{name}: {len(replies) - len(known)} ids stand there twice"
    yield from (f"{name}: rating of an unknown reply {one.reply}" for one in corpus.ratings if one.reply not in known)
    yield from (
        f"{name}: nobody is called {who}" for who in {one.supporter for one in replies} - set(corpus.supporters)
    )
    yield from (
        f"{name}: {one.name} is of the split {one.split}" for one in corpus.supporters.values() if one.split != name
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
        if bool(rating.words) != bool(rating.false):
            yield f"{name}: {rating.reply} is false without words, or has false words without being false"


def check(folder: Path) -> int:
    """Print the counts, the agreement and what is wrong; 1 when something is."""
    splits = {name: Corpus(folder / name) for name in SPLITS}
    for name, corpus in splits.items():
        rated = corpus.rated_replies()
        kinds = Counter(one.kind for one in corpus.supporters.values())
        print(
            f"{name}: {len(rated):,} rated replies ({sum(len(one.ratings) > 1 for one in rated):,} by two readers) of {kinds['role']} roles and {kinds['machine']} machines, "
            f"{len(corpus.dialogues)} dialogues, {len(corpus.moments)} moments, {len({one.persona for one in rated})} personas"
        )
    every = [one for corpus in splits.values() for one in corpus.rated_replies()]
    for name, (correlation, near) in agreement(every).items():
        print(f"  two readers, {name}: r {correlation:.2f}, within 1 in {near:.0%}")
    rated = splits["train"].rated_replies()
    factors = np.array([[one.mean(name) for name in FACTORS] for one in rated])
    changes = np.array([one.mean("change") for one in rated])
    correlations = ", ".join(
        f"{name} {np.corrcoef(column, changes)[0, 1]:+.2f}" for name, column in zip(FACTORS, factors.T, strict=True)
    )
    design = np.column_stack([factors, np.ones(len(rated))])
    left = changes - design @ np.linalg.lstsq(design, changes, rcond=None)[0]
    print(f"  change by factors, train: R2 {1 - left.var() / changes.var():.2f}; {correlations}")
    wrong = list(problems(splits))
    print("\n".join(wrong) or "all promises kept")
    return int(bool(wrong))


class Agreement(NamedTuple):
    """How far a user's changes agree with the readers'."""

    within: float
    """Correlation, each persona's mean taken out."""
    sign: float
    """Share of replies with the same sign, those left out that readers give 0; a felt 0 is no sign."""
    positive: float
    """What the same share would be for a user that is always pleased."""
    order: float
    """Spearman correlation of the supporters' means, of those with at least 8 replies."""


def compare(rated: Sequence[RatedReply], felt: np.ndarray) -> Agreement:
    """Of each reply what a user feels, against what the readers do; both in points."""
    changes = np.array([one.mean("change") for one in rated])
    has_sign = changes != 0
    spoke = Counter(one.supporter for one in rated)
    of = {name: [at for at, one in enumerate(rated) if one.supporter == name] for name in spoke if spoke[name] >= 8}
    means = np.array([(float(changes[rows].mean()), float(felt[rows].mean())) for rows in of.values()])
    return Agreement(
        float(np.corrcoef(_centred(rated, changes), _centred(rated, felt))[0, 1]),
        float((np.sign(felt[has_sign]) == np.sign(changes[has_sign])).mean()),
        float((changes[has_sign] > 0).mean()),
        spearman(means[:, 0], means[:, 1]),
    )


def _centred(rated: Sequence[RatedReply], values: np.ndarray) -> np.ndarray:
    found = values.astype(float)
    for persona in {one.persona for one in rated}:
        rows = [at for at, one in enumerate(rated) if one.persona == persona]
        found[rows] -= found[rows].mean()
    return found


def interval(rated: Sequence[RatedReply], felt: np.ndarray, draws: int = 300) -> list[tuple[float, float]]:
    """95 % bootstrap intervals over supporters, of within, sign and order."""
    chance, names = np.random.default_rng(0), sorted({one.supporter for one in rated})
    rows = {name: [at for at, one in enumerate(rated) if one.supporter == name] for name in names}
    found = []
    for _ in range(draws):
        drawn = chance.choice(names, len(names))
        chosen = [at for name in drawn for at in rows[name]]
        copies = [one for copy, name in enumerate(drawn) for one in _renamed([rated[at] for at in rows[name]], copy)]
        one = compare(copies, felt[chosen])
        found.append((one.within, one.sign, one.order))
    return [(float(low), float(high)) for low, high in np.nanpercentile(found, (2.5, 97.5), axis=0).T]


def _renamed(rated: Sequence[RatedReply], copy: int) -> list[RatedReply]:
    """A supporter drawn twice is two."""
    return [replace(one, supporter=f"{one.supporter}/{copy}") for one in rated]


def agree(folder: Path) -> int:
    """Print how far the embedded user agrees with the readers, in parts, and each supporter's means."""
    user, card, shelf = EmbeddedUser(), env_card("SAGE-Sentient-v0"), library()
    for name in SPLITS:
        corpus = Corpus(folder / name)
        rated = corpus.rated_replies()
        felt = np.array(
            [user.appraise(Scene(shelf.get(one.persona), card, 0), card.start, one.dialogue).change for one in rated]
        )
        found, bounds = compare(rated, felt), interval(rated, felt)
        within, sign, order = (f"({low:.2f} to {high:.2f})" for low, high in bounds)
        print(
            f"{name}, {len(rated):,} replies: within-person r {found.within:.2f} {within}, sign {found.sign:.0%} {sign} (always pleased: {found.positive:.0%}), order of supporters {found.order:.2f} {order}"
        )
        kind = {one.name: one.kind for one in corpus.supporters.values()}
        parts = {
            f"supporters that are {what}s": [kind[one.supporter] == what for one in rated]
            for what in ("role", "machine")
        }
        parts |= {f"need {need}": [shelf.get(one.persona).need == need for one in rated] for need in HiddenNeed}
        for what, chosen in parts.items():
            part = compare([one for one, is_in in zip(rated, chosen, strict=True) if is_in], felt[np.array(chosen)])
            print(f"  {what:32}{sum(chosen):5}   within-person r {part.within:.2f}, sign {part.sign:.0%}")
        spoke: dict[str, list[int]] = defaultdict(list)
        for at, one in enumerate(rated):
            spoke[one.supporter].append(at)
        means = {who: fmean(rated[at].mean("change") for at in rows) for who, rows in spoke.items()}
        for who in sorted(means, key=lambda who: -means[who]):
            print(
                f"  {who:24}{len(spoke[who]):5}   readers {means[who]:+5.1f}   embedded {felt[spoke[who]].mean():+5.1f}"
            )
    return 0


def left_out(folder: Path) -> int:
    """Print the agreement of fits that have not seen the supporter, for more and more supporters and replies."""
    rated = Corpus(folder / "train").rated_replies()
    rows = describe_replies(rated)
    pairs = read_pairs(PAIRS)
    names = sorted({one.supporter for one in rated})
    chance = np.random.default_rng(0)
    chance.shuffle(names)

    def told(what: str, chosen: Sequence[int]) -> None:
        part = [rated[at] for at in chosen]
        found = compare(part, fit_factors([rows[at] for at in chosen], pairs).worth_B)
        print(
            f"{what}: within-person r {found.within:.2f}, sign {found.sign:.0%}, order of supporters {found.order:.2f}",
            flush=True,
        )

    for count in (*(12 * 2**step for step in range(3)), len(names)):
        of = set(names[:count])
        told(f"{count} supporters", [at for at, one in enumerate(rated) if one.supporter in of])
    for share in (4, 2):
        told(
            f"all supporters, one reply in {share}",
            sorted(chance.permutation(len(rated))[: len(rated) // share].tolist()),
        )
    return 0


def background(persona: Persona) -> list[str]:
    """What a reader is told of the person whose place they take."""
    person, situation = persona.person, persona.situation
    return [
        f"# You are {person.name}",
        f"{person.name}, {person.age}, {person.work}. {person.disposition} ({', '.join(person.traits)}). {person.habits}",
        f"Way of speaking: {person.way_of_speaking}",
        "",
        f"Situation: {situation.cause}",
        "Timeline:",
        *(f"- {event.when}: {event.what} (felt: {event.felt})" for event in situation.timeline),
        f"Now: {situation.now}",
        f"Tried: {' '.join(situation.tried)}",
        "",
        f"HIDDEN NEED, never said aloud: {persona.need.value}: {NEEDS[persona.need.value]}",
    ]


def sheet(folder: Path, out: Path, places: Sequence[str]) -> int:
    """Write a blind sheet and its key."""
    lines: list[str] = []
    key: dict[str, str] = {}
    known: set[str] = set()
    chance = random.Random(0)
    for corpus in (Corpus(folder / name) for name in SPLITS):
        known |= {one.id for one in (*corpus.dialogues, *corpus.moments)}
        for dialogue in (one for one in corpus.dialogues if one.id in places):
            lines += [*background(library().get(dialogue.persona)), "", "## A dialogue", f"PERSON: {dialogue.opening}"]
            for turn in dialogue.turns:
                lines += [f"SUPPORTER {turn.id or ''}: {turn.agent}", f"PERSON: {turn.user}"]
                if turn.id is not None:
                    key[turn.id] = dialogue.supporter
        for moment in (one for one in corpus.moments if one.id in places):
            lines += [
                *background(library().get(moment.persona)),
                "",
                "## A moment. So far:",
                f"PERSON: {moment.opening}",
            ]
            for turn in moment.turns:
                lines += [f"SUPPORTER: {turn.agent}", f"PERSON: {turn.user}"]
            lines.append("### Replies, each as if it alone came next")
            lines += [f"{one.id}: {one.text}" for one in chance.sample(moment.replies, len(moment.replies))]
            key |= {one.id: one.supporter for one in moment.replies}
    if unknown := sorted(set(places) - known):
        sys.exit(f"{folder} has no {', '.join(unknown)}. Give ids of dialogues or moments.")
    if len(key) > _SITTING:
        print(f"{len(key)} replies are more than one reader should rate in a sitting ({_SITTING})", file=sys.stderr)
    out.mkdir(parents=True, exist_ok=True)
    (out / "sheet.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (out / "key.json").write_text(json.dumps(key, indent=1), encoding="utf-8")
    print(f"{len(key)} replies: {out / 'sheet.md'}")
    return 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check", help="counts, agreement, and what is wrong")
    checking.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    agreeing = commands.add_parser("agree", help="how far the embedded user agrees with the readers")
    agreeing.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    leaving = commands.add_parser("left-out", help="the same for supporters that were not seen, and the learning curve")
    leaving.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    writing = commands.add_parser("sheet", help="a blind rating sheet")
    writing.add_argument("out", type=Path)
    writing.add_argument("places", nargs="+", help="ids of dialogues and moments")
    writing.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    if given.command == "sheet":
        return sheet(given.folder, given.out, given.places)
    return {"check": check, "agree": agree, "left-out": left_out}[given.command](given.folder)


if __name__ == "__main__":
    sys.exit(main())
