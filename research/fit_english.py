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
from fidelity import describe_agreement

from rlver_gym.bench.attacks.attacks import (
    STOCK,
    collect_other_situations_anchor_sentences,
    swap_pronouns,
)
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Appraisal, Dialogue, Turn
from rlver_gym.core.library import library
from rlver_gym.core.persona import HiddenNeed, Persona
from rlver_gym.core.user import Scene
from rlver_gym.core.words import sentences
from rlver_gym.corpora.corpus import FACTORS, Corpus, RatedReply
from rlver_gym.users.embedded.english import LIMIT, NEEDS, order_network_inputs
from rlver_gym.users.embedded.perception import FEATURES, perceive
from rlver_gym.users.embedded.speech import speak

ROOT = Path(__file__).parents[1]
OUT = ROOT / "rlver_gym" / "users" / "embedded" / "english.npz"
HIDDEN, EPOCHS, SEEDS, DROPOUT, DECAY, RATE = 32, 12, 4, 0.2, 0.03, 2e-3
WITHIN, ELSEWHERE, MIXED, PAIRS, POLICIES = 2.0, 0.05, 0.12, 0.1, 0.3
"""What differences within a place, displaced replies, mixes, pairs and policies weigh beside a
rating.
"""
HARD, HARD_FROM = 0.25, 2
"""The share of mixes, those of which a fit thinks best, that it goes on with after so many rounds:
what a search by the score would find.
"""
HIGHEST = np.array([4.0] * 5 + [1.0])
SURE, LEAST = 0.84, 60


class Rows(NamedTuple):
    """Replies, laid out."""

    inputs: np.ndarray
    targets: np.ndarray
    """Six factors and the change."""
    supporters: np.ndarray
    places: np.ndarray
    situations: np.ndarray
    is_policy: np.ndarray


def lay_out_all(replies: list[RatedReply], is_policy: bool = False) -> Rows:
    """Perceive every reply."""
    shelf = library()
    return Rows(
        np.array(
            [
                order_network_inputs(perceive(shelf.get(one.persona), one.dialogue))
                for one in replies
            ]
        ),
        np.array([[one.mean(name) for name in (*FACTORS, "change")] for one in replies]),
        np.array([one.supporter for one in replies]),
        np.array([one.place for one in replies]),
        np.array([shelf.get(one.persona).situation.id for one in replies]),
        np.full(len(replies), is_policy),
    )


class Unrated(NamedTuple):
    """Replies of which readers rated others of the same kind."""

    inputs: np.ndarray
    targets: np.ndarray


def displace(replies: list[RatedReply], count: int = 2_500) -> Unrated:
    """Good replies where another person, in another situation, had spoken."""
    chance, shelf = random.Random(3), library()
    good = [one for one in replies if one.kind == "role" and one.mean("change") >= 2]
    inputs = []
    for one in chance.sample(good, count):
        own = shelf.get(one.persona).situation.id
        while True:
            other = chance.choice(replies)
            there = shelf.get(other.persona)
            if there.situation.id != own and other.dialogue.turns:
                break
        inputs.append(
            order_network_inputs(perceive(there, other.dialogue.with_utterance(one.text)))
        )
    level = _level(replies, "misplaced")
    return Unrated(np.array(inputs), np.tile(level, (len(inputs), 1)))


def mix(replies: list[RatedReply], count: int = 9_000) -> Unrated:
    """Random mixes of what searches by the score put together: stock sentences and quotations,
    sentences that are good for others, and blends of all of them.
    """
    chance, shelf, inputs, targets = random.Random(5), library(), [], []
    roles = [one for one in replies if one.kind == "role"]
    good = [part for one in roles if one.mean("change") >= 2 for part in sentences(one.text)]
    levels = [
        _level(replies, "best-of-30-others", "others-replies", "stitched"),
        _level(replies, "evolution"),
        _level(replies, "best-of-30-r1", "stock"),
    ]
    for number in range(count):
        at = chance.choice(roles)
        persona, lines = shelf.get(at.persona), at.dialogue.user_lines[-3:]
        quotes = [f"{swap_pronouns(part)}." for line in lines for part in sentences(line)]
        others = collect_other_situations_anchor_sentences(persona)
        if number % 3 == 0:
            said = chance.sample(others, 2)
        elif number % 3 == 1:
            bank = [*STOCK, *quotes, *chance.sample(others, 30), *chance.sample(good, 10)]
            said = chance.sample(bank, chance.randint(2, 5))
            if chance.random() < 0.8:
                front, back = said[0].split(), chance.choice(bank).split()
                cut = chance.randint(1, len(front)), chance.randint(0, len(back) - 1)
                said[0] = " ".join([*front[: cut[0]], *back[cut[1] :]])
        else:
            said = chance.sample([*STOCK, *quotes], chance.randint(1, 3))
        inputs.append(
            order_network_inputs(perceive(persona, at.dialogue.with_utterance(" ".join(said))))
        )
        targets.append(levels[number % 3])
    return Unrated(np.array(inputs), np.array(targets))


def _level(replies: list[RatedReply], *names: str) -> np.ndarray:
    """The mean rating of machines whose names begin so."""
    found = [
        [one.mean(name) for name in (*FACTORS, "change")]
        for one in replies
        if one.supporter.startswith(names)
    ]
    return np.mean(found, 0)


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
            found.append(
                order_network_inputs(perceive(persona, dialogue.with_utterance(pair[name])))
            )
    return np.array(better), np.array(worse)


def _unmoved(persona: Persona, before: list[str]) -> Dialogue:
    """The dialogue in which these words changed nothing."""
    scene, nothing = Scene(persona, env_card("SAGE-Sentient-v0"), 0), Appraisal(0, "", ())
    start = scene.card.start
    dialogue = Dialogue(speak.compose_opening(scene, start))
    for text in before:
        said = dialogue.with_utterance(text)
        reply = speak.compose_reply(scene, start, said, nothing)
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
        known = np.rint(np.clip((inputs - self.mean) * self.spread, -LIMIT, LIMIT) * 256) / 256
        drive = known @ self.inner + self.inner_bias
        inner = np.rint(drive / (1 + np.abs(drive)) * 4096) / 4096
        return np.clip(np.rint((inner @ self.outer + self.outer_bias) * 256) / 256, 0, HIGHEST)


def fit(rows: Rows, unrated: list[Unrated], pairs: tuple[np.ndarray, np.ndarray]) -> Fit:
    """Fit SEEDS networks, and put them side by side as one."""
    mean = rows.inputs.mean(0)
    spread = 1 / np.maximum(rows.inputs.std(0), 0.05)
    level, scale = rows.targets.mean(0), rows.targets.std(0)
    _names, number, counts = np.unique(rows.supporters, return_inverse=True, return_counts=True)
    weight = counts[number] ** -0.5 * np.where(rows.is_policy, POLICIES, 1.0)

    def tensor(values: np.ndarray) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32)

    def known(inputs: np.ndarray) -> torch.Tensor:
        return tensor(np.clip((inputs - mean) * spread, -LIMIT, LIMIT))

    x, t, w = (
        known(rows.inputs),
        tensor((rows.targets - level) / scale),
        tensor(weight / weight.mean()),
    )
    kinds = [
        (known(one.inputs), tensor((one.targets - level) / scale), share)
        for one, share in zip(unrated, (ELSEWHERE, MIXED), strict=True)
    ]
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
        mixes = kinds[1][0]
        tempting = np.arange(len(mixes))
        for epoch in range(EPOCHS):
            for group in steps.param_groups:
                group["lr"] = RATE * (1 - 0.8 * epoch / EPOCHS)
            if epoch >= HARD_FROM:
                with torch.no_grad():
                    liked = net.eval()(mixes)[:, 6].numpy()
                tempting = np.argsort(-liked, kind="stable")[: int(HARD * len(liked))]
                net.train()
            for batch, place in _batches(by_place, chance):
                said, wanted = net(x[batch]), t[batch]
                loss = (((said - wanted) ** 2).mean(1) * w[batch]).mean()
                off = said - wanted
                loss = (
                    loss + WITHIN * ((off - place @ ((place / place.sum(0)).T @ off)) ** 2).mean()
                )
                for inputs, targets, share in kinds:
                    drawn = chance.choice(tempting if inputs is mixes else len(inputs), 50)
                    loss = loss + share * ((net(inputs[drawn]) - targets[drawn]) ** 2).mean()
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


def leave_out(rows: Rows, unrated: list[Unrated], pairs, folds: int = 3) -> np.ndarray:
    """What fits say that had seen neither the supporter nor the person: an ability to generalise
    that the fit to all can only surpass.
    """
    chance = np.random.default_rng(0)
    of = []
    for each in (rows.supporters, rows.situations):
        names, number = np.unique(each, return_inverse=True)
        of.append((chance.permutation(len(names)) % folds)[number])
    predicted = np.zeros((len(rows.inputs), 6))
    for who in range(folds):
        for whom in range(folds):
            seen = Rows(*(part[(of[0] != who) & (of[1] != whom)] for part in rows))
            chosen = (of[0] == who) & (of[1] == whom)
            predicted[chosen] = fit(seen, unrated, pairs)(rows.inputs[chosen])
    return predicted


def main() -> None:
    """Fit, measure if asked, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--measure", action="store_true")
    measure = parser.parse_args().measure
    torch.set_num_threads(1)
    replies = Corpus(ROOT / "recordings/en/train").rated_replies()
    spoken = [
        *Corpus(ROOT / "recordings/en/policies").rated_replies(),
        *Corpus(ROOT / "recordings/en/samples/train").rated_replies(),
    ]
    rated, pairs = lay_out_all(replies), read_pairs()
    rows = Rows(*map(np.concatenate, zip(rated, lay_out_all(spoken, True), strict=True)))
    unrated = [displace(replies), mix(replies)]
    predicted = leave_out(rows, unrated, pairs)[: len(replies)]
    is_role = np.array([one.kind == "role" for one in replies])
    worth, neutral = weigh_factors(rated, predicted, is_role)
    low, high = find_sure(predicted, rated.targets[:, :6])
    whole = fit(rows, unrated, pairs)
    meta = {"features": [*FEATURES, *NEEDS], "low": low, "high": high}
    np.savez_compressed(
        OUT, worth=worth.round(3), neutral=neutral.round(3),
        meta=np.frombuffer(json.dumps(meta).encode(), np.uint8),
        **{name: part.astype(np.float32) for name, part in whole._asdict().items()},
    )  # fmt: skip
    print("worth", worth.round(2), "neutral", neutral.round(2), "low", low, "high", high)
    if measure:
        points = worth, neutral
        print("left out:", describe_agreement(replies, (predicted - points[1]) @ points[0]))
        for name in ("test", "samples/test"):
            others = Corpus(ROOT / "recordings/en" / name).rated_replies()
            there = whole(lay_out_all(others).inputs)
            print(f"{name}:", describe_agreement(others, (there - points[1]) @ points[0]))


if __name__ == "__main__":
    main()
