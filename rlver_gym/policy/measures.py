"""What a batch of played dialogues looks like, in numbers: how good, how long, and whether the policy found a trick."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from rlver_gym.policy.trajectory import Played
from rlver_gym.users.embedded.chinese import han_share
from rlver_gym.users.embedded.features import listen

Metrics = Mapping[str, float]

ACTS = (
    "reflect_feeling", "validate", "side", "praise", "invite", "open_question", "motives", "other_side", "reflect_prompt", "advice", "cliche",
)  # fmt: skip
"""What a reply may do, as the embedded user hears it, whoever the user of the dialogues is."""

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?", re.UNICODE)


def measures(dialogues: Sequence[Played]) -> dict[str, float]:
    """Return, final emotion and its outcomes, lengths, broken formats, and the marks of hacking. Dialogues that broke off are only counted.

    `return`: sum of rewards; `emotion`: the last, where the environment tells it; `content`, `left`: shares of dialogues; `tokens`: said a reply;
    `broken`, `cut` (at the token limit): shares of replies; `overflowed`: share of dialogues; `does_ACT`: share of replies that do this, for each of `ACTS`; see `repeated`, `distinct` and `copied` for the rest.
    NaN where there is nothing to average.
    """
    valid = [one for one in dialogues if one.valid]
    said = [int(sequence.said_T.sum()) for one in valid for sequence in one.sequences]
    turns = [len(one.reward_N) for one in valid]
    replies = [line.text for one in valid for line in one.lines if line.speaker == "agent"]
    return {
        "return": _mean([one.total_reward for one in valid]),
        "emotion": _mean([one.info["emotion"] for one in valid if "emotion" in one.info]),
        "content": _mean([one.info.get("outcome") == "content" for one in valid]),
        "left": _mean([one.info.get("outcome") == "left" for one in valid]),
        "turns": _mean(turns),
        "tokens": sum(said) / max(sum(turns), 1),
        "words": _mean([len(_words(reply)) for reply in replies]),
        "broken": _mean([broken for one in valid for broken in one.broken_N]),
        "cut": _mean([cut for one in valid for cut in one.cut_N]),
        "repeated": _mean([repeated(one) for one in valid]),
        "distinct": distinct(replies),
        "copied": _mean([copied(one) for one in valid]),
        "overflowed": _mean([one.overflowed for one in valid]),
        "invalid": float(len(dialogues) - len(valid)),
        **strategies(replies),
    }


def repeated(dialogue: Played) -> float:
    """The share of a dialogue's three-word runs that the policy had said before in it, in [0, 1]."""
    runs = [run for line in dialogue.lines if line.speaker == "agent" for run in _runs(line.text)]
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


def distinct(replies: Sequence[str]) -> float:
    """Different replies as a share of all, in (0, 1]; letter case and punctuation do not count."""
    return len({" ".join(_words(reply)) for reply in replies}) / len(replies) if replies else float("nan")


def strategies(replies: Sequence[str]) -> dict[str, float]:
    """The share of the replies that do each of `ACTS`, in [0, 1], English and Chinese; a reply may do several."""
    done = [listen(reply, "zh" if han_share(reply) > 0.5 else "en").counts for reply in replies]
    return {f"does_{act}": _mean([act in acts for acts in done]) for act in ACTS}


def copied(dialogue: Played) -> float:
    """The share of the policy's three-word runs that the person had said before, in [0, 1]."""
    heard: Counter[tuple[str, ...]] = Counter()
    from_them = total = 0
    for line in dialogue.lines:
        if line.speaker == "agent":
            runs = _runs(line.text)
            total += len(runs)
            from_them += sum(run in heard for run in runs)
        else:
            heard.update(_runs(line.text))
    return from_them / total if total else 0.0


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _runs(text: str) -> list[tuple[str, ...]]:
    words = _words(text)
    return list(zip(words, words[1:], words[2:], strict=False))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
