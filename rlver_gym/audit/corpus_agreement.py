"""How far a user agrees with the readers of a corpus of rated replies."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.audit.fidelity_checks import spearman, within
from rlver_gym.core.cards import env_card
from rlver_gym.core.library import library
from rlver_gym.core.user import Scene, SentientUser
from rlver_gym.data.corpus import Corpus, RatedReply
from rlver_gym.io.errors import RecordingError

MIN_REPLIES = 8
"""Of a supporter who counts in the order of supporters."""
DRAWS = 300


class Agreement(NamedTuple):
    """How far a user's changes agree with the readers'."""

    within: float
    """Correlation, each persona's mean taken out."""
    sign: float
    """Share of replies with the same sign, those left out that readers give 0; a felt 0 is no sign.
    """
    positive: float
    """What the same share would be for a user that is always pleased."""
    order: float
    """Spearman correlation of the supporters' means, of those with at least 8 replies."""


class CorpusAgreement(NamedTuple):
    """A user against a whole corpus."""

    replies: int
    supporters: int
    found: Agreement
    low: Agreement
    high: Agreement
    """95 % bootstrap bounds over supporters."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        names = {name: getattr(self, name)._asdict() for name in ("found", "low", "high")}
        return {"replies": self.replies, "supporters": self.supporters, **names}


def is_corpus(folder: Path) -> bool:
    """Whether the folder holds rated replies instead of recorded judgements."""
    return (folder / "ratings.jsonl").is_file() and (folder / "supporters.json").is_file()


def measure_corpus(
    user: SentientUser, folder: Path, start_progress: Callable[[str, int], Callable[[], None]]
) -> CorpusAgreement:
    """Have the user appraise every rated reply. RecordingError for a corpus without any."""
    rated = Corpus(folder).rated_replies()
    if not rated:
        raise RecordingError(f"{folder}: no reply of the corpus is rated.")
    on_reply = start_progress("appraising", len(rated))
    card, shelf, felt = env_card("SAGE-Sentient-v0"), library(), []
    for one in rated:
        scene = Scene(shelf.get(one.persona), card, 0)
        felt.append(user.appraise(scene, card.start, one.dialogue).change)
        on_reply()
    felt_R = np.array(felt)
    low, high = bootstrap_agreement(rated, felt_R)
    supporters = len({one.supporter for one in rated})
    return CorpusAgreement(len(rated), supporters, compare(rated, felt_R), low, high)


def compare(rated: Sequence[RatedReply], felt: np.ndarray) -> Agreement:
    """Of each reply what a user feels, against what the readers do; both in points."""
    changes = np.array([one.mean("change") for one in rated])
    has_sign = changes != 0
    spoke = Counter(one.supporter for one in rated)
    of = {
        name: [at for at, one in enumerate(rated) if one.supporter == name]
        for name in spoke
        if spoke[name] >= MIN_REPLIES
    }
    means = np.array(
        [(float(changes[rows].mean()), float(felt[rows].mean())) for rows in of.values()]
    ).reshape(-1, 2)
    return Agreement(
        within(changes, felt, np.array([one.persona for one in rated])),
        float((np.sign(felt[has_sign]) == np.sign(changes[has_sign])).mean()),
        float((changes[has_sign] > 0).mean()),
        spearman(means[:, 0], means[:, 1]),
    )


def bootstrap_agreement(
    rated: Sequence[RatedReply], felt: np.ndarray, draws: int = DRAWS
) -> tuple[Agreement, Agreement]:
    """95 % bootstrap bounds over supporters."""
    chance, names = np.random.default_rng(0), sorted({one.supporter for one in rated})
    rows = {name: [at for at, one in enumerate(rated) if one.supporter == name] for name in names}
    found = []
    for _ in range(draws):
        drawn = chance.choice(names, len(names))
        chosen = [at for name in drawn for at in rows[name]]
        copies = [
            replace(rated[at], supporter=f"{name}/{copy}")  # drawn twice is two
            for copy, name in enumerate(drawn)
            for at in rows[name]
        ]
        found.append(compare(copies, felt[chosen]))
    low, high = np.nanpercentile(found, (2.5, 97.5), axis=0)
    return Agreement(*map(float, low)), Agreement(*map(float, high))
