"""Fit the English score: from rated replies to rlver_gym/users/embedded/score.json.

python research/fit_english.py [--measure] [--leave-out]

Least squares on the inputs of `users/embedded/appraise.py`, each weight held to the sign that its
group promises. It is fitted to changes that readers gave, to their differences within a dialogue or
a moment, and to replies whose kind was rated: good ones put where another person had spoken.
Supporters count by the root of their replies, policies less. A word of the table `words` weighs what
replies with it were worth beside others, shrunk; while the score is fitted, what a supporter's words
weigh comes from others. `--measure` says how far fits agree that had seen neither supporter nor
person, then the whole fit with the test split; `--leave-out` does so without each group in turn.
"""

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fidelity import describe_agreement

from rlver_gym.corpora.corpus import Corpus, RatedReply
from rlver_gym.library.personas import library
from rlver_gym.users.embedded.appraise import GROUPS, INPUTS, compute_inputs
from rlver_gym.users.embedded.compile import compile_card
from rlver_gym.users.embedded.recall import recall
from rlver_gym.users.embedded.rules import find_rules, find_void
from rlver_gym.util.files import load_json

ROOT = Path(__file__).parents[1]
OUT = ROOT / "rlver_gym" / "users" / "embedded" / "score.json"
WITHIN, DIALOGUE, DISPLACED, POLICIES, RIDGE = 4.0, 8.0, 0.15, 0.1, 0.01
GAIN = 2.0
"""What fits predict varies less than ratings do."""
FEWEST, SHRINK = 8, 60.0
"""Supporters that a word of the table needs, and how many replies its weight is shrunk by."""
_HELD = load_json("rlver_gym.users.embedded", "inputs.json")
SIGN = np.array([_HELD[group]["sign"] for group, names in GROUPS.items() for _ in names])
WORDY = INPUTS.index("plain_words")


class Rows(NamedTuple):
    """Replies, laid out; without `plain_words`, which the fit puts in."""

    inputs: np.ndarray
    change: np.ndarray
    supporters: np.ndarray
    places: np.ndarray
    situations: np.ndarray
    weight: np.ndarray
    is_ruled: np.ndarray
    """Whether a rule holds for it: no weight has to learn what the rules say."""
    is_role: np.ndarray
    is_dialogue: np.ndarray
    """Whether its place is a whole dialogue."""
    words: np.ndarray
    counts: np.ndarray


def lay_out(replies: list[RatedReply], share: float = 1.0) -> Rows:
    shelf, inputs, words, counts, ruled = library(), [], [], [], []
    for one in replies:
        persona = shelf.get(one.persona)
        [moment] = recall([(compile_card(persona), one.dialogue)])
        ruled.append(find_void(moment) is not None or any(c.points for c in find_rules(moment)[0]))
        values = compute_inputs(moment, persona.need)
        inputs.append([values[name] for name in INPUTS])
        words.append(frozenset(moment.heard.words))
        counts.append(max(2.5, len(frozenset(moment.heard.words)) ** 0.5))
    supporters = np.array([one.supporter for one in replies])
    _, number, many = np.unique(supporters, return_inverse=True, return_counts=True)
    return Rows(
        np.array(inputs),
        np.array([one.mean("change") for one in replies]),
        supporters,
        np.array([one.place for one in replies]),
        np.array([shelf.get(one.persona).situation.id for one in replies]),
        share * many[number] ** -0.5,
        np.array(ruled),
        np.array([one.kind == "role" for one in replies]),
        np.array([one.place.startswith("d-") for one in replies]),
        np.array(words, object),
        np.array(counts),
    )


def displace(replies: list[RatedReply], count: int = 1_500) -> Rows:
    """Good replies where another person, in another situation, had spoken."""
    chance, shelf, made = random.Random(3), library(), []
    good = [one for one in replies if one.kind == "role" and one.mean("change") >= 2]
    level = float(np.mean([o.mean("change") for o in replies if o.supporter == "misplaced"]))
    for one in chance.sample(good, count):
        own = shelf.get(one.persona).situation.id
        other = chance.choice(replies)
        while shelf.get(other.persona).situation.id == own or not other.dialogue.turns:
            other = chance.choice(replies)
        said = other.dialogue.with_utterance(one.text)
        made.append(replace(one, persona=other.persona, dialogue=said, place="displaced"))
    rows = lay_out(made)
    return rows._replace(
        change=np.full(len(made), level),
        weight=np.full(len(made), DISPLACED * count**-0.25 / count**0.25),
        is_role=np.zeros(len(made), bool),
        supporters=np.array([f"displaced {at % 40}" for at in range(len(made))]),
        places=np.array([f"displaced {at}" for at in range(len(made))]),
    )


def join(parts: list[Rows]) -> Rows:
    return Rows(*map(np.concatenate, zip(*parts, strict=True)))


def pick(rows: Rows, chosen: np.ndarray) -> Rows:
    return Rows(*[column[chosen] for column in rows])


def weigh_words(rows: Rows) -> dict[str, float]:
    """What a word is worth: ridge regression of changes, and of their differences within a place,
    on which words a reply has; words of few supporters left out.
    """
    who: dict[str, set[str]] = {}
    for words, name in zip(rows.words, rows.supporters, strict=True):
        for word in words:
            who.setdefault(word, set()).add(name)
    known = sorted(word for word, names in who.items() if len(names) >= FEWEST)
    column = {word: at for at, word in enumerate(known)}
    x = np.zeros((len(rows.words), len(known)))
    for at, words in enumerate(rows.words):
        x[at, [column[word] for word in words if word in column]] = 1 / rows.counts[at]
    w = rows.weight / rows.weight.mean()
    _, place = np.unique(rows.places, return_inverse=True)
    inside = WITHIN * w
    off = x - _mean_by(place, x, w)
    change = rows.change - np.average(rows.change, weights=w)
    off_change = change - _mean_by(place, change[:, None], w)[:, 0]
    x = x - np.average(x, axis=0, weights=w)
    gram = (x * w[:, None]).T @ x + (off * inside[:, None]).T @ off
    gram[np.diag_indices(len(gram))] += SHRINK
    found = np.linalg.solve(gram, x.T @ (w * change) + off.T @ (inside * off_change))
    return {
        word: round(float(value), 2)
        for word, value in zip(known, found, strict=True)
        if abs(value) >= 0.05
    }


def _mean_by(place: np.ndarray, values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    sums = np.zeros((place.max() + 1, values.shape[1]))
    np.add.at(sums, place, values * weight[:, None])
    return (sums / np.bincount(place, weight)[:, None])[place]


def value_words(rows: Rows, table: dict[str, float]) -> np.ndarray:
    return np.array([sum([table.get(w, 0.0) for w in words]) for words in rows.words]) / rows.counts


def solve(rows: Rows, inputs: np.ndarray, use: np.ndarray) -> np.ndarray:
    """Weights of the inputs and the intercept, held to their signs: coordinate descent on the
    normal equations.
    """
    x = np.column_stack([inputs * SIGN, np.ones(len(inputs))])
    w = rows.weight / rows.weight.mean()
    gram, right = (x * w[:, None]).T @ x, x.T @ (w * rows.change)
    _, place = np.unique(rows.places, return_inverse=True)
    inside = w * np.where(rows.is_dialogue, DIALOGUE, WITHIN)
    centred = x - _mean_by(place, x, w)
    off = rows.change - _mean_by(place, rows.change[:, None], w)[:, 0]
    gram += (centred * inside[:, None]).T @ centred
    right += centred.T @ (inside * off)
    found = np.zeros(x.shape[1])
    ridge = RIDGE * np.diag(gram) + 1e-3
    ridge[-1] = 0.0
    for _ in range(400):
        for at in range(len(found)):
            if at < len(use) and not use[at]:
                continue
            left = right[at] - gram[at] @ found + gram[at, at] * found[at]
            found[at] = left / (gram[at, at] + ridge[at])
            if at < len(use):
                found[at] = max(0.0, found[at])
    return np.r_[found[:-1] * SIGN, found[-1]]


def fit(rows: Rows, use: np.ndarray | None = None) -> tuple[np.ndarray, dict[str, float]]:
    """Weights with the intercept last, and the table of words."""
    use = np.ones(len(INPUTS), bool) if use is None else use
    rows = pick(rows, ~rows.is_ruled)
    inputs = rows.inputs.copy()
    if use[WORDY]:
        names, number = np.unique(rows.supporters, return_inverse=True)
        of = np.random.default_rng(1).permutation(len(names))[number] % 5
        for part in range(5):
            table = weigh_words(pick(rows, of != part))
            inputs[of == part, WORDY] = value_words(pick(rows, of == part), table)
    found = solve(rows, inputs, use)
    predicted = inputs @ found[:-1] + found[-1]
    found *= GAIN
    role = rows.is_role
    found[-1] = np.average(
        rows.change[role] - GAIN * (predicted[role] - found[-1] / GAIN), weights=rows.weight[role]
    )
    return found, weigh_words(rows)


def predict(rows: Rows, found: tuple[np.ndarray, dict[str, float]]) -> np.ndarray:
    inputs = rows.inputs.copy()
    inputs[:, WORDY] = value_words(rows, found[1])
    return np.clip(inputs @ found[0][:-1] + found[0][-1], -10, 10)


def leave_out(rows: Rows, count: int, use: np.ndarray | None = None, folds: int = 3) -> np.ndarray:
    """What fits say of the first `count` that had seen neither the supporter nor the person."""
    chance, of = np.random.default_rng(0), []
    for each in (rows.supporters, rows.situations):
        names, number = np.unique(each, return_inverse=True)
        of.append((chance.permutation(len(names)) % folds)[number])
    predicted = np.zeros(len(rows.change))
    for who in range(folds):
        for whom in range(folds):
            chosen = (of[0] == who) & (of[1] == whom)
            if chosen[:count].any():
                found = fit(pick(rows, (of[0] != who) & (of[1] != whom)), use)
                predicted[chosen] = predict(pick(rows, chosen), found)
    return predicted[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--leave-out", action="store_true")
    asked = parser.parse_args()
    corpora = ROOT / "recordings/en"
    replies = Corpus(corpora / "train").rated_replies()
    spoken = [
        *Corpus(corpora / "policies").rated_replies(),
        *Corpus(corpora / "samples/train").rated_replies(),
    ]
    rated = lay_out(replies)
    rows = join([rated, lay_out(spoken, POLICIES), displace(replies)])
    found = fit(rows)
    if asked.measure:
        print("left out:", describe_agreement(replies, leave_out(rows, len(replies))))
        for name in ("test", "samples/test"):
            others = Corpus(corpora / name).rated_replies()
            there = predict(lay_out(others), found)
            print(f"{name}:", describe_agreement(others, there))
    if asked.leave_out:
        for group, names in GROUPS.items():
            use = np.array([name not in names for name in INPUTS])
            print(group, describe_agreement(replies, leave_out(rows, len(replies), use)))
    weights = dict(zip(INPUTS, found[0][:-1].round(3).tolist(), strict=True))
    score = {"weights": weights, "intercept": round(float(found[0][-1]), 3)}
    OUT.write_text(json.dumps(score, indent=0) + "\n")
    OUT.with_name("worth.json").write_text(json.dumps(found[1], indent=0) + "\n")
    scale = rated.inputs.std(0)
    for group, names in GROUPS.items():
        print(
            group,
            {n: (weights[n], round(float(weights[n] * scale[INPUTS.index(n)]), 2)) for n in names},
        )
    print("intercept", found[0][-1], "words", len(found[1]))


if __name__ == "__main__":
    main()
