"""Fit the English score: from rated replies to rlver_gym/users/embedded/english.npz.

python research/fit_english.py [--measure]

A small network from what is perceived (`users/embedded/perception.py`) to the six factors that
readers rate. It is fitted to ratings of supporters, of searches by earlier versions of the score
and of trained policies; to their differences within one dialogue or moment; to the pairs of
tests/data/expectations_en.jsonl (the half `dev`); and to replies that nobody rated one by one, but
whose kind was: good replies put where another person had spoken, and random mixes of what searches
are made of. Supporters count by the root of their replies, policies less. Needs torch. `--measure`
says how far the fits agree that had not seen the supporter, then how far the whole fit agrees with
the test split.
"""

import argparse
import json
import random
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from rlver_gym.audit.agreement import describe_agreement
from rlver_gym.audit.attacks import STOCK, others_good_replies, swap_pronouns
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Appraisal, Dialogue, Turn
from rlver_gym.core.library import library
from rlver_gym.core.persona import HiddenNeed, Persona
from rlver_gym.core.user import Scene
from rlver_gym.core.words import sentences
from rlver_gym.data.corpus import FACTORS, Corpus, RatedReply
from rlver_gym.users.embedded.english import LIMIT, NEEDS, lay_out
from rlver_gym.users.embedded.perception import FEATURES, perceive
from rlver_gym.users.embedded.speech import speak

ROOT = Path(__file__).parents[1]
OUT = ROOT / "rlver_gym" / "users" / "embedded" / "english.npz"
HIDDEN, EPOCHS, SEEDS, DROPOUT, DECAY, RATE = 32, 12, 3, 0.2, 0.03, 2e-3
WITHIN, ELSEWHERE, PAIRS = 2.0, 0.05, 0.15
"""What differences within a place, displaced replies and pairs weigh beside a rating."""
HIGHEST = np.array([4.0] * 5 + [1.0])
SURE, LEAST = 0.84, 60


class Rows(NamedTuple):
    """Replies, laid out."""

    inputs: np.ndarray
    targets: np.ndarray
    """Six factors and the change."""
    supporters: np.ndarray
    places: np.ndarray


def lay_out_all(replies: list[RatedReply]) -> Rows:
    """Perceive every reply."""
    shelf = library()
    return Rows(
        np.array([lay_out(perceive(shelf.get(one.persona), one.dialogue)) for one in replies]),
        np.array([[one.mean(name) for name in (*FACTORS, "change")] for one in replies]),
        np.array([one.supporter for one in replies]),
        np.array([one.place for one in replies]),
    )


def displace(replies: list[RatedReply], count: int = 2_500) -> tuple[np.ndarray, np.ndarray]:
    """Good replies where another person, in another situation, had spoken; and who said them."""
    chance, shelf = random.Random(3), library()
    good = [one for one in replies if one.kind == "role" and one.mean("change") >= 2]
    inputs, names = [], []
    for one in chance.sample(good, count):
        own = shelf.get(one.persona).situation.id
        while True:
            other = chance.choice(replies)
            there = shelf.get(other.persona)
            if there.situation.id != own and other.dialogue.turns:
                break
        inputs.append(lay_out(perceive(there, other.dialogue.with_utterance(one.text))))
        names.append(one.supporter)
    return np.array(inputs), np.array(names)


def read_pairs() -> tuple[np.ndarray, np.ndarray]:
    """The better and the worse replies of the pairs to develop with."""
    better, worse = [], []
    for line in (ROOT / "tests/data/expectations_en.jsonl").read_text().splitlines():
        pair = json.loads(line)
        if pair.get("half", "dev") != "dev":
            continue
        persona = library().get(pair["persona"])
        if pair.get("need"):
            persona = persona.model_copy(update={"need": HiddenNeed(pair["need"])})
        dialogue = _unmoved(persona, pair.get("before", ()))
        for name, found in (("better", better), ("worse", worse)):
            found.append(lay_out(perceive(persona, dialogue.with_utterance(pair[name]))))
    return np.array(better), np.array(worse)


def _unmoved(persona: Persona, before: list[str]) -> Dialogue:
    """The dialogue in which these words changed nothing."""
    scene, nothing = Scene(persona, env_card("SAGE-Sentient-v0"), 0), Appraisal(0, "", ())
    start = scene.card.start
    dialogue = Dialogue(speak.opening(scene, start))
    for text in before:
        said = dialogue.with_utterance(text)
        reply = speak.answer(scene, start, said, nothing)
        dialogue = said.with_turn(Turn(text, nothing, start, 0.0, None, reply))
    return dialogue


class Fit(NamedTuple):
    """The arrays of the network, as they are shipped."""

    mean: np.ndarray
    spread: np.ndarray
    inner: np.ndarray
    inner_bias: np.ndarray
    outer: np.ndarray
    outer_bias: np.ndarray

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """Factors, as `english.predict` computes them."""
        known = np.rint(np.clip((inputs - self.mean) * self.spread, -4, 6) * 256) / 256
        drive = known @ self.inner + self.inner_bias
        inner = np.rint(drive / (1 + np.abs(drive)) * 4096) / 4096
        return np.clip(np.rint((inner @ self.outer + self.outer_bias) * 256) / 256, 0, HIGHEST)


def fit(rows: Rows, elsewhere: np.ndarray, pairs: tuple[np.ndarray, np.ndarray]) -> Fit:
    """Fit SEEDS networks, and put them side by side as one."""
    mean = rows.inputs.mean(0)
    spread = 1 / np.maximum(rows.inputs.std(0), 0.03)
    level, scale = rows.targets.mean(0), rows.targets.std(0)
    _names, number, counts = np.unique(rows.supporters, return_inverse=True, return_counts=True)
    weight = counts[number] ** -0.5
    is_there = np.char.startswith(rows.supporters, "misplaced")
    there = rows.targets[is_there].mean(0) if is_there.any() else level

    def tensor(values: np.ndarray) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32)

    def known(inputs: np.ndarray) -> torch.Tensor:
        return tensor(np.clip((inputs - mean) * spread, -4, 6))

    x, t, w = (
        known(rows.inputs),
        tensor((rows.targets - level) / scale),
        tensor(weight / weight.mean()),
    )
    x_there, t_there = known(elsewhere), tensor((there - level) / scale)
    better, worse = map(known, pairs)
    by_place: dict[str, list[int]] = {}
    for at, place in enumerate(rows.places):
        by_place.setdefault(place, []).append(at)
    nets = []
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        chance = np.random.default_rng(seed)
        net = torch.nn.Sequential(
            torch.nn.Dropout(DROPOUT), torch.nn.Linear(x.shape[1], HIDDEN), torch.nn.Softsign(),
            torch.nn.Dropout(DROPOUT), torch.nn.Linear(HIDDEN, 7),
        )  # fmt: skip
        steps = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
        for _ in range(EPOCHS):
            for batch, place in _batches(by_place, chance):
                said, wanted = net(x[batch]), t[batch]
                loss = (((said - wanted) ** 2).mean(1) * w[batch]).mean()
                off = said - wanted
                loss = (
                    loss + WITHIN * ((off - place @ ((place / place.sum(0)).T @ off)) ** 2).mean()
                )
                drawn = chance.choice(len(x_there), 40)
                loss = loss + ELSEWHERE * ((net(x_there[drawn]) - t_there) ** 2).mean()
                drawn = chance.choice(len(better), 30)
                ahead = net(better[drawn]) - net(worse[drawn])
                loss = loss + PAIRS * torch.relu(1.2 - ahead[:, [0, 6]]).mean()
                steps.zero_grad()
                loss.backward()
                steps.step()
        nets.append([one.detach().double().numpy() for one in net.parameters()])
    inner = np.concatenate([one[0] for one in nets]).T
    outer = np.concatenate([one[2] for one in nets], 1).T[:, :6] / SEEDS
    bias = np.mean([one[3] for one in nets], 0)[:6]
    return Fit(
        np.rint(mean * 4096) / 4096, np.rint(spread * 256) / 256, _whole(inner),
        _whole(np.concatenate([one[1] for one in nets])), _whole(outer * scale[:6]),
        _whole(bias * scale[:6] + level[:6]),
    )  # fmt: skip


def _whole(values: np.ndarray) -> np.ndarray:
    return np.rint(values * 1024) / 1024


def _batches(by_place: dict[str, list[int]], chance: np.random.Generator):
    names, packed = list(by_place), []
    chance.shuffle(names)
    for name in names:
        packed.append(by_place[name])
        if sum(map(len, packed)) >= 160:
            at = np.concatenate(packed)
            of = np.repeat(np.arange(len(packed)), [len(one) for one in packed])
            yield at, torch.nn.functional.one_hot(torch.tensor(of), len(packed)).float()
            packed = []


def weigh_factors(
    rows: Rows, predicted: np.ndarray, is_role: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points per unit of each factor, and the levels that go with no change. What a fit that has
    not seen the supporter predicts varies less than ratings do: points make up for it. The level is that of roles: machines attack.
    """
    change = rows.targets[:, 6]
    design = np.column_stack([rows.targets[:, :6], np.ones(len(change))])
    found = np.linalg.lstsq(design, change, rcond=None)[0]
    raw = predicted @ found[:6]
    gain = change.std() / raw.std()
    worth, level = found[:6], rows.targets[:, :6].mean(0)
    slope = ((change - change.mean()) @ (rows.targets[:, :6] - level)) / (
        (change - change.mean()) ** 2
    ).sum()
    neutral = level - slope * change.mean()
    worth = worth * gain
    missing = (change - (predicted - neutral) @ worth)[is_role].mean()
    return worth, neutral - missing * worth / (worth @ worth)


def find_sure(
    predicted: np.ndarray, rated: np.ndarray
) -> tuple[dict[str, float], dict[str, float]]:
    """Predictions up to and from which SURE of the replies are rated low (at most 1), or high."""
    low, high = {}, {}
    for at, name in enumerate(FACTORS):
        is_low = rated[:, at] <= (0 if name == "false" else 1)
        is_high = rated[:, at] >= (1 if name == "false" else 2)
        for sign, so, found in ((1, is_low, low), (-1, is_high, high)):
            order = np.argsort(sign * predicted[:, at], kind="stable")
            share = np.cumsum(so[order]) / np.arange(1, len(order) + 1)
            enough = np.flatnonzero((share >= SURE) & (np.arange(len(order)) >= LEAST))
            if len(enough):
                found[name] = round(float(predicted[order[enough[-1]], at]), 3)
    return low, high


def leave_out(
    rows: Rows, elsewhere: np.ndarray, who: np.ndarray, pairs, folds: int = 4
) -> np.ndarray:
    """What fits say that had not seen the supporter."""
    names = np.unique(rows.supporters)
    fold = dict(zip(names, np.random.default_rng(0).permutation(len(names)) % folds, strict=True))
    of, of_there = (np.array([fold[one] for one in each]) for each in (rows.supporters, who))
    predicted = np.zeros((len(of), 6))
    for each in range(folds):
        seen = Rows(*(part[of != each] for part in rows))
        predicted[of == each] = fit(seen, elsewhere[of_there != each], pairs)(
            rows.inputs[of == each]
        )
    return predicted


def main() -> None:
    """Fit, measure if asked, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--measure", action="store_true")
    measure = parser.parse_args().measure
    torch.set_num_threads(1)
    replies = Corpus(ROOT / "recordings/en/train").rated_replies()
    rows, pairs = lay_out_all(replies), read_pairs()
    elsewhere, who = displace(replies)
    predicted = leave_out(rows, elsewhere, who, pairs)
    worth, neutral = weigh_factors(
        rows, predicted, np.array([one.kind == "role" for one in replies])
    )
    low, high = find_sure(predicted, rows.targets[:, :6])
    whole = fit(rows, elsewhere, pairs)
    meta = {"features": [*FEATURES, *EXPERT_ITEMS, *NEEDS], "low": low, "high": high}
    np.savez_compressed(
        OUT, worth=worth.round(3), neutral=neutral.round(3),
        meta=np.frombuffer(json.dumps(meta).encode(), np.uint8),
        **{name: part.astype(np.float32) for name, part in whole._asdict().items()},
    )  # fmt: skip
    print("worth", worth.round(2), "neutral", neutral.round(2), "low", low, "high", high)
    if measure:
        points = worth, neutral
        print("left out:", describe_agreement(replies, (predicted - points[1]) @ points[0]))
        for name in ("test", "policies"):
            others = Corpus(ROOT / "recordings/en" / name).rated_replies()
            there = whole(lay_out_all(others).inputs)
            print(f"{name}:", describe_agreement(others, (there - points[1]) @ points[0]))


if __name__ == "__main__":
    main()
