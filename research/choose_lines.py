"""Fit what speaks for a line as the answer to a question, and say how often the right one is chosen.

python research/choose_lines.py

Every way of asking of the cards of train people, compared with all other ways of all topics of the
card; the way itself is left out. Every third time the topic that it asks for is taken away, so that
nothing is right.
"""

import os
import random

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from rlver_gym.users.embedded.hearing.utterance_parser import FACTUAL, parse_utterance
from rlver_gym.users.embedded.speech.card import FEATURES, compile_card

from rlver_gym.core.library import library

MOST = 150
"""Questions of one card."""


def examples(rng):
    seen = set()
    for pairing in library().pairings:
        persona = library().get(pairing if isinstance(pairing, str) else pairing.id)
        if persona.split != "train" or persona.situation.id in seen:
            continue
        seen.add(persona.situation.id)
        card = compile_card(persona)
        ways = [(i, n) for i, n in enumerate(card.way_owner.tolist())]
        facts = [w for w in ways if card.topics[w[1]].kind == "fact"]
        flat = [way for topic in card.topics for way in topic.ways]
        for at, owner in rng.sample(facts, min(len(facts), MOST)):
            words = flat[at]
            s = parse_utterance(" ".join(words) + "?").sentences
            if not s or s[-1].ask is None or len(words) < 3:
                continue
            query = card.query(s[-1])
            features = card.features(query, leave_out=at)
            target = owner
            if rng.random() < 0.25:
                features[:, owner] = -99
                target = len(card.topics)
            yield (
                persona.situation.id,
                features,
                target,
                [1.0, float(query.ask in FACTUAL), float(np.log(max(1, len(query.tokens))))],
                card.topics[owner].kind,
            )


def main():
    rng = random.Random(5)
    data = list(examples(rng))
    ids = sorted({one[0] for one in data})
    held = set(ids[::4])
    width = max(one[1].shape[1] for one in data)
    F = len(FEATURES)
    X = np.full((len(data), width, F), 0, np.float32)
    M = np.zeros((len(data), width), bool)
    N = np.zeros((len(data), 3), np.float32)
    Y = np.zeros(len(data), np.int64)
    for i, (_, f, t, n, _) in enumerate(data):
        k = f.shape[1]
        X[i, :k] = f.T
        M[i, :k] = f[0] > -90
        X[i][~M[i]] = 0
        N[i] = n
        Y[i] = width if t == k else t
    test = np.array([one[0] in held for one in data])
    kinds = np.array([one[4] for one in data])
    X, M, N, Y = map(torch.tensor, (X, M, N, Y))
    tr, te = torch.tensor(~test), torch.tensor(test)
    import sys

    off = [FEATURES.index(name) for name in sys.argv[1:]]
    X[:, :, off] = 0
    w = torch.zeros(F, requires_grad=True)
    v = torch.zeros(3, requires_grad=True)
    opt = torch.optim.LBFGS([w, v], max_iter=150, line_search_fn="strong_wolfe")

    def logits(mask):
        s = (X[mask] @ w).masked_fill(~M[mask], -1e9)
        return torch.cat([s, (N[mask] @ v)[:, None]], 1)

    def step():
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(logits(tr), Y[tr]) + 2e-4 * (w**2).sum()
        loss.backward()
        return loss

    opt.step(step)
    for name, mask in (("fitted", tr), ("held out", te)):
        with torch.no_grad():
            p = logits(mask)
            top = p.argmax(1) == Y[mask]
            top3 = (p.topk(3, 1).indices == Y[mask][:, None]).any(1)
            k = kinds[mask.numpy()]
            some = (Y[mask] < X.shape[1]).numpy()
            print(
                name,
                len(top),
                f"loss {torch.nn.functional.cross_entropy(p, Y[mask]):.3f}",
                {
                    kind: f"{top.numpy()[(k == kind) & some].mean():.2f}/{top3.numpy()[(k == kind) & some].mean():.2f}"
                    for kind in set(k)
                },
                f"none {top.numpy()[~some].mean():.2f}",
            )
    print({name: round(float(value), 2) for name, value in zip(FEATURES, w, strict=False)})
    print([round(float(value), 2) for value in v])


if __name__ == "__main__":
    main()
