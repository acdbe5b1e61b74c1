"""From where a reason is told by its name: thresholds of inputs, printed for
rlver_gym/users/embedded/inputs.json.

python research/sure_reasons.py

Of replies to train people in which an input weighs half a point or more, a share has what the input
claims, by a factor that readers rated (research/rubric.md). The threshold is the smallest value from
which on that share is SHARE, over FEWEST replies at least; where there is none the reason is never
told by its name. What no factor asks (whether a feeling is named) and what is counted (questions,
lists, copies) has no threshold.
"""

from pathlib import Path

import numpy as np

from rlver_gym.corpora.corpus import Corpus
from rlver_gym.library.personas import library
from rlver_gym.users.embedded.appraise import compute_inputs
from rlver_gym.users.embedded.compile import compile_card
from rlver_gym.users.embedded.recall import recall
from rlver_gym.users.embedded.rules import find_void
from rlver_gym.util.files import load_json

TRAIN = Path(__file__).parents[1] / "recordings" / "en" / "train"
SHARE, FEWEST, LEAST = 0.75, 50, 0.5
CLAIMS = {
    "about": (2, ">=", "like_last like_told asks_fresh"),
    "about <": (2, "<", "alien strange"),
    "false": (0.5, ">=", "invented"),
    "understood": (2, ">=", "validates sides praises"),
    "gives": (2, ">=", "near touched anchored wanted wanted_fresh"),
    "gives <": (2, "<", "cliche"),
    "pressure": (1, ">=", "advises unwanted guesses blames"),
    "pressure, an insult": (2, ">=", "insults"),
    "pressure <": (2, "<", "accuses_nobody leaves_free"),
    "human": (3, ">=", "plain_words own_words"),
    "human <": (3, "<", "plain_words"),
}
"""By factor, the bound, and what claims that a reply is at or above it, or (<) below."""


def main() -> None:
    shelf, rows, rated = library(), [], []
    for reply in Corpus(TRAIN).rated_replies():
        persona = shelf.get(reply.persona)
        [moment] = recall([(compile_card(persona), reply.dialogue)])
        if find_void(moment) is None:
            rows.append(compute_inputs(moment, persona.need))
            rated.append(reply)
    weights = load_json("rlver_gym.users.embedded", "score.json")["weights"]
    for claim, (bound, way, names) in CLAIMS.items():
        factor = np.array([reply.mean(claim.split(" ")[0].rstrip(",")) for reply in rated])
        holds = factor >= bound if way == ">=" else factor < bound
        for name in names.split():
            value = np.array([row[name] for row in rows])
            value = -value if (claim, name) == ("human <", "plain_words") else value
            order = np.argsort(-value, kind="stable")
            order = order[value[order] * abs(weights[name]) >= LEAST]
            share = np.cumsum(holds[order]) / np.arange(1, len(order) + 1)
            enough = np.flatnonzero((share >= SHARE) & (np.arange(len(order)) >= FEWEST - 1))
            says = f"{value[order[enough[-1]]]:.2f}" if len(enough) else "never"
            whole = f"{share[-1]:.2f} of {len(order)}" if len(order) else "none"
            print(f"{claim:20s} {name:14s} told from {says:6s} ({whole} have it)")


if __name__ == "__main__":
    main()
