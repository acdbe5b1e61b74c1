"""Make the reader's head for a base: from rated replies and the states of a frozen causal model.

python research/fit_reader.py BASE --out HEAD.npz [--states FOLDER] [--threads 1] [--no-extract]
    [--dtype float32] [--curve] [--test]
python research/fit_reader.py BASE --test [--head HEAD.npz]

BASE is a folder or a hub name. First the states of every rated reply are extracted into FOLDER:
hours on two cores, minutes on a GPU; it can be stopped at any time and goes on where it was. On a
processor without avx512_bf16 or amx_bf16 take `--dtype float32`, which needs twice the memory. Then
the head is solved, in minutes: ridge regression of readers' changes and factors on differences
within a place (a dialogue, a moment, samples of a policy at one state), and a little on levels.
Depths, penalty, mix with the embedded user and doubt are chosen on validation people, by fits that
had seen neither the supporter nor the situation. `--no-extract` fits to what is there; `--curve`
prints how agreement grows with replies; `--test` measures the test split, once, at the end. Without
`--out` nothing is fitted, and both look at the shipped head or at `--head`.
Use it as `reader:HEAD.npz`. Needs: pip install '.[reader]'.
"""

import argparse
import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from extract_states import CORPORA, StatesFile, extract
from fidelity import appraise_replies, compare_agreements, describe_agreement
from fit_english import displace, join, lay_out, leave_out

from rlver_gym.core.capabilities import FACTORS
from rlver_gym.corpora.corpus import Corpus, RatedReply, Rating
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.users.reader import SHIPPED, Head, doubt
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.correlation import centre, correlation_within
from rlver_gym.util.interval import bootstrap

OWN = ("samples/own", "samples/round1", "samples/round1-written")
"""A policy's samples at places of its own dialogues."""
FITTED = ("train", "samples/train", "policies", *OWN)
OUTPUTS = ("change", *FACTORS)
LEVEL = 0.03
"""What a squared difference between places counts beside one within a place."""
PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Of a standardised state's weight, as a share of the number of replies."""
FOLDS = 3
DOUBTED = (0.2, 0.1, 0.05, 0.02, 0.01)
"""Shares of left-out replies that may be doubted."""
COST_OF_DOUBT = 0.003
"""What r may fall by, for it."""
SIZES = (250, 500, 1000, 2000, 4000, 8000)
WORTH = 0.02
"""What r must gain for a second depth, which makes head and passes larger."""
DIRECTIONS = 96
"""Along which the distance is measured."""
MAX_GAIN = 2.0
"""What is predicted varies less than what is rated."""


class Rows(NamedTuple):
    """Rated replies and what is known of them, one an element."""

    row: np.ndarray
    """In the file of states."""
    states: np.ndarray
    """[R, F] of the depths that are looked at."""
    rated: np.ndarray
    """[R, 7] change and factors, which are nan where nobody rated them."""
    felt: np.ndarray
    """By the embedded user, from a fit that did not know the reply."""
    weight: np.ndarray
    supporter: np.ndarray
    situation: np.ndarray
    place: np.ndarray
    kind: np.ndarray
    """Of the place: "dialogue", "moment", "own" (a policy's own places)."""
    is_validation: np.ndarray
    is_role: np.ndarray

    def pick(self, chosen: np.ndarray) -> "Rows":
        return Rows(*[column[chosen] for column in self])


class Solved(NamedTuple):
    """A head in the making."""

    mean: np.ndarray
    scale: np.ndarray
    weight: np.ndarray
    """[F, 7] of standardised states."""
    level: np.ndarray
    """[7] of what is rated."""
    gram: torch.Tensor
    ridge: float

    def predict(self, states: np.ndarray) -> np.ndarray:
        return (states - self.mean) / self.scale @ self.weight + self.level

    def find_directions(self) -> np.ndarray:
        """[F, K]: the penalty times the leverage is the squared length of a standardised state, but
        for what it has along the directions in which the replies differ most.
        """
        torch.manual_seed(0)
        count = min(DIRECTIONS, len(self.gram))
        vectors, values, _ = torch.svd_lowrank(self.gram, q=count, niter=4)
        return (vectors * (values / (values + self.ridge)).sqrt()).numpy()


class Mix(NamedTuple):
    """How both opinions become a change: `embedded` x felt + `read` x read + `constant`, where what
    is predicted is read as `scale` x predicted + `shift`, in points.
    """

    embedded: float
    read: float
    constant: float
    scale: float
    shift: float

    def calibrate(self, predicted: np.ndarray) -> np.ndarray:
        return self.scale * predicted + self.shift

    def apply(self, felt: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return self.embedded * felt + self.read * self.calibrate(predicted) + self.constant


def lay_out_rows(folder: Path) -> tuple[dict[str, Any], Rows]:
    """The header of a folder of states, and the rows that are fitted to."""
    header, row_of = StatesFile(folder).find_rows()
    left_out, shelf, user = leave_out_embedded(folder), library(), EmbeddedUser()
    validation, parts = set(shelf.ids("validation")), []
    for part in FITTED:
        rated = [one for one in Corpus(CORPORA / part).rated_replies() if (part, one.id) in row_of]
        if not rated:
            continue
        felt = (
            [left_out[one.id] for one in rated]
            if all(one.id in left_out for one in rated)
            else appraise_replies(user, rated)
        )
        voices: dict[str, set[str]] = {}
        for one in rated:
            voices.setdefault(one.place, set()).add(one.supporter)
        _, number, many = np.unique(
            [one.supporter for one in rated], return_inverse=True, return_counts=True
        )
        is_own = part in OWN
        parts.append(
            Rows(
                np.array([row_of[part, one.id] for one in rated]),
                np.zeros((len(rated), 0), np.float32),
                np.array([list_ratings(one) for one in rated], np.float32),
                np.array(felt, float),
                many[number] ** -0.5,
                np.array([one.supporter for one in rated]),
                np.array([shelf.get(one.persona).situation.id for one in rated]),
                np.array([f"{part} {one.place}" for one in rated]),
                np.array(
                    [
                        "own" if is_own else "dialogue" if len(voices[one.place]) == 1 else "moment"
                        for one in rated
                    ]
                ),
                np.array([one.persona in validation for one in rated]),
                np.array([one.kind == "role" and part == "train" for one in rated]),
            )
        )
    if not any(part.is_validation.any() for part in parts):
        raise SystemExit(f"{folder} holds no states of validation people yet: extract more")
    return header, Rows(*map(np.concatenate, zip(*parts, strict=True)))


def list_ratings(reply: RatedReply) -> list[float]:
    """Change and factors; nan for factors that nobody gave."""
    has_factors = any(isinstance(one, Rating) for one in reply.ratings)
    return [reply.mean(name) if has_factors or name == "change" else np.nan for name in OUTPUTS]


def leave_out_embedded(folder: Path) -> dict[str, float]:
    """What fits of the embedded score say of replies whose supporter and situation they had not
    seen; kept in the folder, by version.
    """
    path = folder / f"embedded-{EmbeddedUser().version}.json"
    if not path.exists():
        train = Corpus(CORPORA / "train").rated_replies()
        spoken = [
            one
            for part in ("policies", "samples/train")
            for one in Corpus(CORPORA / part).rated_replies()
        ]
        rows = join([lay_out(train), lay_out(spoken, 0.1), displace(train)])
        felt = leave_out(rows, len(train) + len(spoken)).round(3).tolist()
        ids = [one.id for one in (*train, *spoken)]
        path.write_text(json.dumps(dict(zip(ids, felt, strict=True))), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def solve(rows: Rows, penalties: Sequence[float], level: float = LEVEL) -> list[Solved]:
    """Ridge regression on differences within a place, and at a small weight on places' means."""
    weight = (rows.weight / rows.weight.mean()).astype(np.float32)[:, None]
    _, place = np.unique(rows.place, return_inverse=True)
    total = np.bincount(place, weight[:, 0]).astype(np.float32)[:, None]

    def split(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The mean, and what is left of it within places and between them."""
        mean = np.average(values, axis=0, weights=weight[:, 0]).astype(np.float32)
        sums = np.zeros((len(total), values.shape[1]), np.float32)
        np.add.at(sums, place, (values - mean) * weight)
        return mean, (values - mean - (sums / total)[place]) * np.sqrt(weight), sums / total

    mean, inside, between = split(rows.states)
    mid, rated, rated_between = split(rows.rated)
    scale = np.sqrt(np.square(inside).sum(0) / weight.sum()) + 1e-6
    inside /= scale
    far = torch.from_numpy(between / scale * np.sqrt(level * total))
    near = torch.from_numpy(inside)
    gram = near.T @ near + far.T @ far
    right = near.T @ torch.from_numpy(rated)
    right += far.T @ torch.from_numpy(rated_between * np.sqrt(level * total))
    solved = []
    for penalty in penalties:
        ridge = penalty * len(weight)
        whole = gram + ridge * torch.eye(len(gram))
        found = torch.cholesky_solve(right, torch.linalg.cholesky(whole)).numpy()
        solved.append(Solved(mean, scale, found, mid, gram, ridge))
    return solved


def solve_all(rows: Rows, penalty: float) -> Solved:
    """The change by all replies, the factors by those whose factors were rated."""
    (solved,) = solve(rows, [penalty])
    (known,) = solve(rows.pick(np.asarray(~np.isnan(rows.rated).any(axis=1))), [penalty])
    weight = known.weight * (solved.scale / known.scale)[:, None]
    level = known.level + (solved.mean - known.mean) / known.scale @ known.weight
    weight[:, 0], level[0] = solved.weight[:, 0], solved.level[0]
    return solved._replace(weight=weight, level=level)


def split_folds(labels: np.ndarray, seed: int) -> np.ndarray:
    """Which of the folds each row is in; equal labels are in one."""
    names, number = np.unique(labels, return_inverse=True)
    return (np.random.default_rng(seed).permutation(len(names)) % FOLDS)[number]


def predict_left_out(
    rows: Rows, penalty: float, *, by_supporter: bool, limit: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Changes, and distances, by fits that had not seen the situation (and the supporter); with a
    `limit`, fits to so many replies at most, whole places by lot.
    """
    whom = split_folds(rows.situation, 1)
    who = split_folds(rows.supporter, 2) if by_supporter else np.zeros(len(whom), int)
    changes, distances = np.zeros(len(whom)), np.zeros(len(whom))
    for cell in {*zip(who.tolist(), whom.tolist(), strict=True)}:
        chosen = (who == cell[0]) & (whom == cell[1])
        known = whom != cell[1]
        if by_supporter:
            known &= who != cell[0]
        if limit:
            known &= _draw_places(rows.place, known, limit)
        if not known.any():
            continue
        solved = solve(rows.pick(known), [penalty])[0]
        changes[chosen] = solved.predict(rows.states[chosen])[:, 0]
        if limit is None:
            distances[chosen] = measure_distance(solved, rows.states[chosen])
    return changes, distances


def measure_distance(solved: Solved, states: np.ndarray) -> np.ndarray:
    standard = (states - solved.mean) / solved.scale
    along = standard @ solved.find_directions()
    return np.sqrt(np.maximum((standard**2).sum(1) - (along**2).sum(1), 0))


def _draw_places(place: np.ndarray, known: np.ndarray, limit: int) -> np.ndarray:
    names, counts = np.unique(place[known], return_counts=True)
    order = np.random.default_rng(3).permutation(len(names))
    inside = order[np.cumsum(counts[order]) <= limit]
    return np.isin(place, names[inside])


def choose_mix(rows: Rows, predicted: np.ndarray) -> Mix:
    """Closed form: least squares on differences within a place; the level and the spread of
    places after it.
    """
    weight = np.sqrt(rows.weight)
    sides = [centre(side, rows.place) * weight for side in (rows.felt, predicted)]
    target = centre(rows.rated[:, 0], rows.place) * weight
    shares = np.linalg.lstsq(np.column_stack(sides), target, rcond=None)[0]
    if shares.min() < 0:  # one of them says nothing of its own
        best = int(np.argmax(shares))
        shares = np.zeros(2)
        shares[best] = max(0.0, sides[best] @ target / (sides[best] @ sides[best]))
    mixed = shares[0] * rows.felt + shares[1] * predicted
    gain = float(np.clip(_spread(rows, rows.rated[:, 0]) / _spread(rows, mixed), 1, MAX_GAIN))
    scale = float(np.clip(_spread(rows, rows.rated[:, 0]) / _spread(rows, predicted), 1, MAX_GAIN))
    embedded, read = gain * shares[0], gain * shares[1] / scale
    role = rows.is_role
    rated, felt, heard = (
        float(np.average(values[role], weights=rows.weight[role]))
        for values in (rows.rated[:, 0], rows.felt, predicted)
    )
    shift = rated - scale * heard
    return Mix(embedded, read, rated - embedded * felt - read * rated, scale, shift)


def _spread(rows: Rows, values: np.ndarray) -> float:
    """Standard deviation of places' means."""
    return float((values - centre(values, rows.place)).std()) + 1e-6


def choose_doubt(rows: Rows, mix: Mix, predicted: np.ndarray, distances: np.ndarray) -> float:
    """The distance from which on the worse of both counts: as near as costs next to nothing."""
    best = _within(rows, mix.apply(rows.felt, predicted))
    for share in DOUBTED:
        near = float(np.quantile(distances, 1 - share))
        if (
            _within(rows, apply_doubt(rows, mix, predicted, distances / near))
            > best - COST_OF_DOUBT
        ):
            return near
    return float(distances.max())


def apply_doubt(rows: Rows, mix: Mix, predicted: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """The change as the user mixes it, unrounded."""
    read = mix.calibrate(predicted)
    mixed = mix.apply(rows.felt, predicted)
    return mixed + doubt(distance) * np.minimum(0, np.minimum(rows.felt, read) - mixed)


def _within(rows: Rows, values: np.ndarray) -> float:
    return correlation_within(rows.rated[:, 0], values, rows.place)


def describe(rows: Rows, values: np.ndarray) -> str:
    """r with readers within places of each kind."""
    told = []
    for kind in ("dialogue", "moment", "own"):
        chosen = rows.kind == kind
        if chosen.any():
            told.append(f"{kind} {_within(rows.pick(chosen), values[chosen]):.3f}")
    return ", ".join(told)


def describe_gain(rows: Rows, values: np.ndarray) -> str:
    """By how much the reply that is read as the best at a place is better than one drawn, by
    readers, with a 95 % interval over places; and by how much their own best is.
    """
    told = []
    for kind in ("moment", "own"):
        gains, most = [], []
        for place in np.unique(rows.place[rows.kind == kind]):
            here = rows.place == place
            rated, read = rows.rated[here, 0], values[here]
            gains.append(float(rated[np.argmax(read)] - rated.mean()))
            most.append(float(rated.max() - rated.mean()))
        if gains:
            gain = bootstrap(np.array(gains, float))
            told.append(
                f"{kind} {gain.mean:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]"
                f" of {np.mean(most):+.2f} ({len(gains)} places)"
            )
    return ", ".join(told)


def take_states(folder: Path, header: dict[str, Any], rows: Rows, depths: Sequence[int]) -> Rows:
    """The rows with their states at some depths."""
    states = StatesFile(folder).read_states(header, rows.row, depths)
    return rows._replace(states=states)


def choose_depths_and_penalty(
    folder: Path, header: dict[str, Any], rows: Rows
) -> tuple[list[int], float]:
    """By the mix, within places of validation people, supporters left out: the best depth, or that
    with another if it is worth it.
    """
    tried: dict[tuple[tuple[int, ...], float], float] = {}
    who, validation = split_folds(rows.supporter, 2), rows.pick(rows.is_validation)

    def consider(depths: tuple[int, ...]) -> None:
        part = take_states(folder, header, rows, depths)
        predicted = np.zeros((len(PENALTIES), len(who)))
        for fold in range(FOLDS):
            chosen = (who == fold) & rows.is_validation
            known = part.pick((who != fold) & ~rows.is_validation)
            for number, solved in enumerate(solve(known, PENALTIES)):
                predicted[number, chosen] = solved.predict(part.states[chosen])[:, 0]
        for penalty, values in zip(PENALTIES, predicted[:, rows.is_validation], strict=True):
            mixed = choose_mix(validation, values).apply(validation.felt, values)
            tried[depths, penalty] = _within(validation, mixed)
            print(
                f"depths {depths}, penalty {penalty}: {describe(validation, values)};"
                f" mixed {describe(validation, mixed)}; {tried[depths, penalty]:.3f}",
                flush=True,
            )

    for depth in header["depths"]:
        consider((depth,))
    (best,) = max(tried, key=lambda key: tried[key])[0]
    for depth in header["depths"]:
        if depth != best:
            consider((min(best, depth), max(best, depth)))
    depths, penalty = max(tried, key=lambda key: tried[key] - WORTH * (len(key[0]) - 1))
    return list(depths), penalty


def fit(folder: Path, header: dict[str, Any], rows: Rows, out: Path) -> None:
    """Choose, solve, and write the head."""
    depths, penalty = choose_depths_and_penalty(folder, header, rows)
    rows = take_states(folder, header, rows, depths)
    predicted, distances = predict_left_out(rows, penalty, by_supporter=True)
    validation = rows.is_validation
    mix = choose_mix(rows.pick(validation), predicted[validation])
    chosen = rows.pick(validation), mix, predicted[validation], distances[validation]
    near = choose_doubt(*chosen)
    doubted = apply_doubt(rows, mix, predicted, distances / near)
    print(f"{len(rows.felt)} replies, depths {depths}, penalty {penalty}, {mix}, doubt {near:.1f}")
    print(f"left out: embedded {describe(rows, rows.felt)}")
    print(f"left out: read {describe(rows, predicted)}")
    print(f"left out: mixed {describe(rows, mix.apply(rows.felt, predicted))}")
    print(
        f"left out: doubted {describe(rows, doubted)}; {(distances > near).mean():.1%} of replies"
    )
    for name, values in (("embedded", rows.felt), ("read", predicted), ("doubted", doubted)):
        print(f"best of those at a place: {name} {describe_gain(rows, values)}")
    solved = solve_all(rows, penalty)
    # In points, and standardised within the head: the change is scaled, the factors stay.
    scale = np.array([mix.scale, *[1.0] * len(FACTORS)])
    shift = np.array([mix.shift, *[0.0] * len(FACTORS)])
    about = {
        "base": header["base"],
        "layout": header["layout"],
        "depths": depths,
        "fingerprint": header["fingerprints"][depths[-1] - 1],
        "embedded": round(mix.embedded, 4),
        "read": round(mix.read, 4),
        "constant": round(mix.constant, 4),
        "embedded_version": EmbeddedUser().version,
        "penalty": penalty,
        "replies": len(rows.felt),
    }
    file = BytesIO()
    np.savez(
        file,
        about=np.array(json.dumps(about)),
        mean=solved.mean,
        scale=solved.scale,
        weight=(solved.weight * scale).astype(np.float32),
        intercept=(solved.level * scale + shift).astype(np.float32),
        basis=solved.find_directions().astype(np.float16),
        near=np.array(near, np.float32),
    )
    write_atomically(out, file.getvalue())
    print(f"{out}: {out.stat().st_size / 2**20:.2f} MiB")


def trace_curve(folder: Path, header: dict[str, Any], rows: Rows, head: Head) -> None:
    """Print the agreement of what is read, alone and mixed, by the number of replies and depth."""
    for depth in header["depths"]:
        part = take_states(folder, header, rows, [depth])
        for size in (*[size for size in SIZES if size < len(rows.felt)], len(rows.felt)):
            told = []
            for by_supporter in (False, True):
                values, _ = predict_left_out(
                    part, head.about["penalty"], by_supporter=by_supporter, limit=size
                )
                mixed = choose_mix(rows, values).apply(rows.felt, values)
                told.append(f"alone {describe(rows, values)}; mixed {describe(rows, mixed)}")
            print(f"depth {depth}, {size} replies: people left out: {told[0]}", flush=True)
            print(f"    people and supporters left out: {told[1]}", flush=True)


def measure_test(header: dict[str, Any], folder: Path, head: Head) -> None:
    """Print how far the embedded user and the reader agree on the test splits, and how far apart
    they are; a split whose states are not all there is left out.
    """
    file = StatesFile(folder)
    _, row_of = file.find_rows()
    for part in ("test", "samples/test", "ordinary", "talk"):
        rated = Corpus(CORPORA / part).rated_replies()
        if not all((part, one.id) in row_of for one in rated):
            print(f"{part}: its states are not all there")
            continue
        chosen = np.array([row_of[part, one.id] for one in rated])
        read = head.read(file.read_states(header, chosen, head.about["depths"]))
        felt = appraise_replies(EmbeddedUser(), rated)
        change = np.array([reading.change for reading in read])
        mixed = head.about["embedded"] * felt + head.about["read"] * change
        mixed += head.about["constant"]
        far = doubt(np.array([reading.distance for reading in read]))
        mixed += far * np.minimum(0, np.minimum(felt, change) - mixed)
        for name, values in (("embedded", felt), ("read", change), ("mixed", mixed)):
            agreement = describe_agreement(rated, values.clip(-10, 10))
            print(f"{part}, {name}:", {k: v and round(v, 3) for k, v in agreement.items()})
        for line in compare_agreements(rated, mixed.clip(-10, 10), felt):
            print(f"{part}: {line}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("base")
    parser.add_argument("--out", type=Path, help="where the head that is fitted goes")
    parser.add_argument("--head", type=Path, default=SHIPPED, help="to measure, without --out")
    parser.add_argument("--states", type=Path, help="default: states/BASE")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--no-extract", action="store_true")
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--test", action="store_true")
    asked = parser.parse_args()
    if not (asked.out or asked.curve or asked.test):
        parser.error("--out HEAD.npz says where the head goes (--test alone measures a head)")
    torch.set_num_threads(asked.threads)
    folder = asked.states or Path("states") / Path(asked.base).name
    if not asked.no_extract:
        for line in extract(asked.base, StatesFile(folder), asked.device, asked.dtype):
            print(line, flush=True)
    if asked.out:
        fit(folder, *lay_out_rows(folder), asked.out)
    head, (header, _) = Head.load(asked.out or asked.head), StatesFile(folder).find_rows()
    if head.about["fingerprint"] not in header["fingerprints"]:
        raise SystemExit(f"{asked.head} was made for {head.about['base']}, another base: --head")
    if asked.curve:
        trace_curve(folder, *lay_out_rows(folder), head)
    if asked.test:
        measure_test(header, folder, head)


if __name__ == "__main__":
    main()
