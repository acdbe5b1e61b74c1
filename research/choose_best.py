"""What choosing the best of several replies by a user gains, by those who rated the replies.

python research/choose_best.py BASE [--head HEAD.npz] [--read] CORPUS...

CORPUS is a folder of recordings/en/samples, such as `test`; BASE is what the reader's head, the
shipped one or HEAD, was made for: a folder or a hub name. Where a policy has at least four rated
replies at a moment: the change of the reply that a user feels most of, minus the mean change of
all, in points a reply; where several are felt equally, their mean. Blind readers of a part of a
payer's corpus stand in `research/run/read-CORPUS.jsonl`: with `--read` only the moments that they
saw, by them. 95 % over people, each of whom counts as much.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from run.agreement import read_changes

from rlver_gym.core.cards import env_card
from rlver_gym.core.user import Moment, Scene, SentientUser, appraise_many
from rlver_gym.corpora.corpus import ENV, Corpus, RatedReply
from rlver_gym.library.personas import library
from rlver_gym.users import make_user
from rlver_gym.util.correlation import correlation_within
from rlver_gym.util.interval import bootstrap, format_estimate
from rlver_gym.util.progress import progress_bar

RESEARCH = Path(__file__).parent
SAMPLES = RESEARCH.parent / "recordings" / "en" / "samples"
AT_LEAST = 4
"""Replies of a policy at a moment."""


class Choice(NamedTuple):
    """Replies of a policy to a moment, with what raters made of each."""

    persona: str
    replies: list[RatedReply]
    rated: np.ndarray
    """[R] mean changes."""


def list_choices(name: str, is_read: bool) -> list[Choice]:
    """All of a corpus; `is_read`: those that blind readers saw, with their changes."""
    changes = read_changes(RESEARCH / "run" / f"read-{name}.jsonl") if is_read else None
    places: dict[tuple[str, int, str], list[RatedReply]] = defaultdict(list)
    for reply in Corpus(SAMPLES / name).rated_replies():
        if changes is None or reply.id in changes:
            places[reply.place, len(reply.dialogue.turns), reply.supporter].append(reply)
    chosen = [replies for replies in places.values() if len(replies) >= AT_LEAST]
    given = [[changes[x.id] if changes else x.mean("change") for x in each] for each in chosen]
    pairs = zip(chosen, given, strict=True)
    return [Choice(each[0].persona, each, np.array(rated)) for each, rated in pairs]


def feel(user: SentientUser, choice: Choice) -> np.ndarray:
    """[R] changes by a user, as it would reward them."""
    card = env_card(ENV)
    scene = Scene(library().get(choice.persona), card, 0)
    moments = [Moment(scene, card.start, reply.dialogue) for reply in choice.replies]
    return np.array([appraisal.change for appraisal in appraise_many(user, moments)])


def measure_gain(felt: np.ndarray, rated: np.ndarray) -> float:
    """What raters give to the replies that are felt most, above the mean of all."""
    return float(rated[felt == felt.max()].mean() - rated.mean())


def describe(choices: list[Choice], felt: dict[str, list[np.ndarray]]) -> list[str]:
    """A line for each way to choose, with r within a moment."""
    rated = np.concatenate([choice.rated for choice in choices])
    place = np.repeat(np.arange(len(choices)), [len(choice.rated) for choice in choices])
    lines = [f"{len(choices)} moments, {len(rated)} replies, {rated.mean():+.1f} on average"]
    for name, each in felt.items():
        gains: dict[str, list[float]] = defaultdict(list)
        for choice, one in zip(choices, each, strict=True):
            gains[choice.persona].append(measure_gain(one, choice.rated))
        people = np.array([fmean(of_person) for of_person in gains.values()])
        r = correlation_within(np.concatenate(each).astype(float), rated, place)
        estimate = format_estimate(bootstrap(people), signed=True, digits=2)
        lines.append(f"{name:<9} {estimate}, r {r:.2f}, {len(people)} people")
    return lines


def main() -> None:
    """Print every corpus, and in those of several policies each of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("base")
    parser.add_argument("corpora", nargs="+")
    parser.add_argument("--head")
    parser.add_argument("--read", action="store_true")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    asked = parser.parse_args()
    users = {"embedded": make_user("embedded")}
    users["reader"] = make_user(
        f"reader:{asked.head}" if asked.head else "reader", base=asked.base, dtype=asked.dtype
    )
    for name in asked.corpora:
        choices = list_choices(name, asked.read)
        felt: dict[str, list[np.ndarray]] = {user: [] for user in users}
        with progress_bar() as bar:
            for choice in bar.track(choices, description=name):
                for user in users:
                    felt[user].append(feel(users[user], choice))
        felt["longest"] = [np.array([len(x.text) for x in each.replies]) for each in choices]
        felt["own best"] = [choice.rated for choice in choices]
        for policy in sorted({choice.replies[0].supporter for choice in choices}):
            own = [choice.replies[0].supporter == policy for choice in choices]
            theirs = {
                user: [x for x, is_own in zip(each, own, strict=True) if is_own]
                for user, each in felt.items()
            }
            chosen = [choice for choice, is_own in zip(choices, own, strict=True) if is_own]
            print(f"{name}, {policy}:", *describe(chosen, theirs), sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
