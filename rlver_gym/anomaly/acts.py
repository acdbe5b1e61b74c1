"""What the replies of a policy do, as the embedded user hears it: whoever finds a trick does one thing ever more often."""

from collections.abc import Mapping, Sequence

from rlver_gym.users.embedded.chinese import han_share
from rlver_gym.users.embedded.features import listen
from rlver_gym.users.embedded.ledger import ACT_IN_WORDS

ACTS = (
    "reflect_feeling", "validate", "side", "praise", "invite", "open_question", "motives", "other_side", "reflect_prompt", "advice", "cliche",
)  # fmt: skip
"""What a reply may do, as the embedded user hears it, whoever the user of the dialogues is."""


def strategies(replies: Sequence[str]) -> dict[str, float]:
    """The share of the replies that do each of `ACTS`, in [0, 1], English and Chinese; a reply may do several."""
    done = [listen(reply, "zh" if han_share(reply) > 0.5 else "en").counts for reply in replies]
    return {f"does_{act}": _share(done, act) for act in ACTS}


def _share(done: Sequence[Mapping[str, int]], act: str) -> float:
    return sum(act in acts for acts in done) / len(done) if done else float("nan")


def in_words(act: str) -> str:
    """One of `ACTS`, said of a reply: "took their side"."""
    return ACT_IN_WORDS[act]
