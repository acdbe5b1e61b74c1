"""What readers made of the sheets: levels, gains, best of n, and what each reward agrees with.

python -m research.real_qwen.levels OUT

OUT as `research.real_qwen.sheets` wrote it, with OUT/ratings/READER.jsonl. Prints, with 95 %
intervals over people: each policy's final emotion by readers and the difference to the model after
demonstrations, how far each reward overpays it, what choosing the best of n by each reward gains
over one reply drawn, and each reward's correlation with readers within a state and a dialogue.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from research.real_qwen.sheets import REWARDS, SIZES
from rlver_gym.core.cards import env_card
from rlver_gym.corpora.corpus import Rating
from rlver_gym.util.interval import bootstrap

FACTORS = ("human", "understood", "false", "change")
FIRST = "sft"
"""The policy that others are compared with."""
_DRAWS = 2_000


def read_rating(line: str, reader: str) -> Rating:
    """One line; ValueError says what is wrong."""
    value = json.loads(line)
    rating = Rating(**{"reply": value.pop("id", ""), **value, "reader": reader})
    if bool(rating.words) != bool(rating.false):
        raise ValueError("false and words disagree")
    return rating


class Rated:
    """Replies of the key with the mean of their ratings, and every pair of two readers."""

    def __init__(self, out: Path) -> None:
        """SystemExit names the lines that are wrong."""
        key = json.loads((out / "key.json").read_text(encoding="utf-8"))
        every: dict[str, list[Any]] = defaultdict(list)
        wrong: list[str] = []
        for path in sorted((out / "ratings").glob("*.jsonl")):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                try:
                    rating = read_rating(line, path.stem)
                    if rating.reply not in key:
                        raise ValueError(f"nobody said {rating.reply}")
                    every[rating.reply].append(rating)
                except (ValueError, AttributeError) as error:
                    wrong.append(f"{path.name}:{number}: {error}")
        if wrong:
            raise SystemExit("\n".join(wrong))
        self.missing = len(key) - len(every)
        self.replies = [
            {**key[name], **{f: fmean(one.of(f) for one in some) for f in FACTORS}}
            for name, some in every.items()
        ]
        self.pairs = [
            {"place": key[name]["place"], "first": a.of("change"), "change": b.of("change")}
            for name, (a, b, *_) in ((k, v) for k, v in every.items() if len(v) > 1)
        ]
        said = [one["place"] for one in key.values() if one["kind"] == "dialogue"]
        self.turns = {place: said.count(place) for place in set(said)}


def final_emotion(changes: Iterable[float]) -> float:
    """Where a person ends: from the card's start, until they leave or are content."""
    card = env_card("SAGE-Sentient-v0")
    emotion = float(card.start)
    for change in changes:
        emotion = max(0.0, min(100.0, emotion + change))
        if emotion < card.leave_below or emotion >= card.content_at:
            break
    return emotion


def group(rows: Iterable[dict[str, Any]], name: str) -> dict[str, list[dict[str, Any]]]:
    """Rows by a field."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in rows:
        found[one[name]].append(one)
    return found


def show(by_person: Mapping[str, Sequence[float]]) -> str:
    """The mean over people with its interval."""
    mean, low, high = bootstrap(np.array([fmean(values) for values in by_person.values()]))
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"


def print_levels(rated: Rated) -> None:
    """Each policy's level, difference and overpayment."""
    policies = group((one for one in rated.replies if one["kind"] == "dialogue"), "policy")
    finals: dict[str, dict[str, dict[str, list[float]]]] = {}
    for policy, replies in policies.items():
        finals[policy] = {name: defaultdict(list) for name in ("change", *REWARDS)}
        for place, turns in group(replies, "place").items():
            if len(turns) < rated.turns[place]:
                continue
            turns.sort(key=lambda one: one["turn"])
            for name in finals[policy]:
                if name in turns[0]:
                    final = final_emotion(one[name] for one in turns)
                    finals[policy][name][turns[0]["persona"]].append(final)
    for policy, replies in policies.items():
        own = finals[policy]["change"]
        if not own:
            print(f"{policy}: no dialogue is rated whole")
            continue
        means = ", ".join(f"{f} {fmean(one[f] for one in replies):.2f}" for f in FACTORS)
        print(f"{policy}: final {show(own)} of {len(own)} people; a reply: {means}")
        first = finals.get(FIRST, {}).get("change", {})
        both = [who for who in own if who in first]
        if policy != FIRST and both:
            gain = {who: [fmean(own[who]) - fmean(first[who])] for who in both}
            print(f"  over {FIRST}: {show(gain)}")
        for name in REWARDS:
            if paid := finals[policy][name]:
                over = {who: [fmean(paid[who]) - fmean(own[who])] for who in own if who in paid}
                print(f"  {name} overpays by {show(over)}")


def print_best_of_n(rated: Rated) -> None:
    """A choice's gain over one draw at the same state."""
    gains: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for replies in group((x for x in rated.replies if x["kind"] == "best"), "place").values():
        single = [x["change"] for x in replies for why in x["chosen_by"] if why == "single"]
        for one in replies:
            for why in one["chosen_by"] if single else ():
                if why != "single":
                    gains[why][one["persona"]].append(one["change"] - fmean(single))
    names = [f"{reward}-{size}" for reward in REWARDS for size in SIZES]
    for name in [*names, *sorted(set(gains) - set(names))]:
        if name in gains:
            print(f"{name}: over one draw {show(gains[name])}")


def within(rows: Sequence[dict[str, Any]], name: str) -> float:
    """The correlation of a value with readers' change, both less their mean at a place."""
    x, y = [], []
    for some in group(rows, "place").values():
        for values, field in ((x, name), (y, "change")):
            mean = fmean(one[field] for one in some)
            values += [one[field] - mean for one in some]
    is_known = len(x) > 2 and np.std(x) > 0 and np.std(y) > 0
    return float(np.corrcoef(x, y)[0, 1]) if is_known else float("nan")


def show_within(rows: Sequence[dict[str, Any]], name: str) -> str:
    """The same with its interval over places."""
    places, chance = list(group(rows, "place").values()), np.random.default_rng(0)
    draws = []
    for _ in range(_DRAWS if places else 0):
        drawn = [places[at] for at in chance.integers(len(places), size=len(places))]
        draws.append(within([{**x, "place": str(k)} for k, v in enumerate(drawn) for x in v], name))
    draws = [one for one in draws if not np.isnan(one)]
    low, high = np.percentile(draws, [2.5, 97.5]) if draws else (float("nan"),) * 2
    return f"{within(rows, name):.2f} [{low:.2f}, {high:.2f}]"


def print_agreement(rated: Rated) -> None:
    """Each reward within a state, all policies and one, and within a dialogue."""
    best = [one for one in rated.replies if one["kind"] == "best"]
    sets = {
        "within a state, all policies": best,
        f"within a state, {FIRST}": [one for one in best if one["policy"] == FIRST],
        "within a dialogue": [one for one in rated.replies if one["kind"] == "dialogue"],
    }
    for what, rows in sets.items():
        for name in REWARDS:
            if known := [one for one in rows if name in one]:
                print(f"{name} {what}: r {show_within(known, name)} of {len(known)}")
    if rated.pairs:
        print(f"a second reader: r {show_within(rated.pairs, 'first')} of {len(rated.pairs)}")


def main(out: Path) -> None:
    """All of it."""
    rated = Rated(out)
    print(f"{len(rated.replies)} replies rated, {rated.missing} not")
    print_levels(rated)
    print_best_of_n(rated)
    print_agreement(rated)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
