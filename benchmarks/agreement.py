"""Say how far the embedded user agrees with the readers of the corpus of rated replies.

python benchmarks/agreement.py agree [FOLDER]
python benchmarks/agreement.py left-out [FOLDER]

`agree` compares the embedded user's changes with the readers'; `left-out` does the same with fits
that have not seen the supporter who speaks, and shows how that grows with the number of supporters
and replies (some minutes; needs the extra `calibrate`).
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from rlver_gym.audit.corpus_agreement import bootstrap_agreement, compare
from rlver_gym.core.cards import env_card
from rlver_gym.core.library import library
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.core.user import Scene
from rlver_gym.core.words import sentences
from rlver_gym.data.calibrate import fit_ratings
from rlver_gym.data.corpus import Corpus, RatedReply
from rlver_gym.data.replies import describe_replies, read_pairs
from rlver_gym.users import EmbeddedUser

FOLDER = Path(__file__).parents[1] / "recordings" / "en"
PAIRS = Path(__file__).parents[1] / "tests" / "data" / "expectations_en.jsonl"
SPLITS = ("train", "test")


def report_agreement(folder: Path) -> int:
    """Print how far the embedded user agrees with the readers, in parts, and each supporter's
    means.
    """
    user, card, shelf = EmbeddedUser(), env_card("SAGE-Sentient-v0"), library()
    for name in SPLITS:
        corpus = Corpus(folder / name)
        rated = corpus.rated_replies()
        felt = np.array(
            [
                user.appraise(
                    Scene(shelf.get(one.persona), card, 0), card.start, one.dialogue
                ).change
                for one in rated
            ]
        )
        found, (lows, highs) = compare(rated, felt), bootstrap_agreement(rated, felt)
        spread = [f"({low:.2f} to {high:.2f})" for low, high in zip(lows, highs, strict=True)]
        print(
            f"{name}, {len(rated):,} replies: within-person r {found.within:.2f} {spread[0]}, sign"
            f" {found.sign:.0%} {spread[1]} (always pleased: {found.positive:.0%}), order of"
            f" supporters {found.order:.2f} {spread[3]}"
        )
        kind = {one.name: one.kind for one in corpus.supporters.values()}
        parts = {
            f"supporters that are {what}s": [kind[one.supporter] == what for one in rated]
            for what in ("role", "machine")
        }
        parts |= {
            f"need {need}": [shelf.get(one.persona).need == need for one in rated]
            for need in HiddenNeed
        }
        for what, chosen in parts.items():
            part = compare(
                [one for one, is_in in zip(rated, chosen, strict=True) if is_in],
                felt[np.array(chosen)],
            )
            print(
                f"  {what:32}{sum(chosen):5}   within-person r {part.within:.2f}, sign"
                f" {part.sign:.0%}"
            )
        spoke: dict[str, list[int]] = defaultdict(list)
        for at, one in enumerate(rated):
            spoke[one.supporter].append(at)
        means = {who: fmean(rated[at].mean("change") for at in rows) for who, rows in spoke.items()}
        for who in sorted(means, key=lambda who: -means[who]):
            print(
                f"  {who:24}{len(spoke[who]):5}   readers {means[who]:+5.1f}   embedded"
                f" {felt[spoke[who]].mean():+5.1f}"
            )
    return 0


def leave_out_patchwork(rated: Sequence[RatedReply]) -> list[RatedReply]:
    """The replies but those of machines of which at least half of the sentences are a role's."""
    spoken = {sentence for one in rated if one.kind == "role" for sentence in sentences(one.text)}

    def is_patched(one: RatedReply) -> bool:
        own = sentences(one.text)
        return (
            one.kind == "machine"
            and 2 * sum(sentence in spoken for sentence in own) >= len(own) > 0
        )

    return [one for one in rated if not is_patched(one)]


def report_left_out(folder: Path) -> int:
    """Print the agreement of fits that have not seen the supporter, for more and more supporters
    and replies.

    Attacks that are patched together from other supporters' sentences are set aside: they would
    tell a fit what the supporter says whom it must not have seen.
    """
    everything = Corpus(folder / "train").rated_replies()
    rated = leave_out_patchwork(everything)
    print(
        f"{len(everything) - len(rated)} replies set aside: made of other supporters' sentences",
        flush=True,
    )
    rows = describe_replies(rated)
    pairs = read_pairs(PAIRS)
    names = sorted({one.supporter for one in rated})
    chance = np.random.default_rng(0)
    chance.shuffle(names)

    def report(what: str, chosen: Sequence[int]) -> None:
        part = [rated[at] for at in chosen]
        found = compare(
            part,
            fit_ratings([rows[at] for at in chosen], [one.kind for one in part], pairs).worth_B,
        )
        print(
            f"{what}: within-person r {found.within:.2f}, sign {found.sign:.0%}, order of"
            f" supporters {found.order:.2f}",
            flush=True,
        )

    for count in (*(12 * 2**step for step in range(3)), len(names)):
        of = set(names[:count])
        report(f"{count} supporters", [at for at, one in enumerate(rated) if one.supporter in of])
    for share in (4, 2):
        report(
            f"all supporters, one reply in {share}",
            sorted(chance.permutation(len(rated))[: len(rated) // share].tolist()),
        )
    return 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    agreeing = commands.add_parser(
        "agree", help="how far the embedded user agrees with the readers"
    )
    agreeing.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    leaving = commands.add_parser(
        "left-out", help="the same for supporters that were not seen, and the learning curve"
    )
    leaving.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    given = parser.parse_args()
    return {"agree": report_agreement, "left-out": report_left_out}[given.command](given.folder)


if __name__ == "__main__":
    sys.exit(main())
