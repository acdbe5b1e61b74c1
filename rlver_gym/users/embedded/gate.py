"""The gate on word salad: how far words hang together. Fluent nonsense passes it."""

import re
from itertools import pairwise

from rlver_gym.users.embedded.english import load_tables
from rlver_gym.users.embedded.hear import Heard

PAIRS = 1 << 16  # cells of the table of pairs; two pairs may share one
_INNER_CAPITAL = re.compile(r"\b[a-z]+[A-Z]|\b[A-Z]{2,}[a-z]{2,}\b")
_MAY_BE_TORN = re.compile(r"[A-Z](?:(?<=[a-z].)|(?=[A-Z][a-z]))")  # stands in all of those; faster
_TWICE = frozenset("that had no very so really now there yes ha bye oh please long".split())
_LETTERS = frozenset("aiouxy0123456789")
_BROKEN = 3.0  # the evidence, in logits, from which a sentence is taken for broken
FEWEST, _LONG = 5, 8  # words from which on pairs say something; of a sentence weighed alone
# words without a mark between them, of which no honest reply has more than 31
_BREATH, _PAUSE = 40, re.compile(r"[^\w\s'’*]")
# the logits from which a sentence counts, a whole does, and its parts and the past are looked at
_SURE, _FREE, _SOUND = 3.25, 2.0, -3.0
# of a dialogue: the bounds of a logit, how many before are enough, and the mean from which all of
# it counts; that of honest supporters lies below -2
_LEAST, _MOST, _ENOUGH, _DRONES = -5.0, 4.0, 2, -1.6


def measure_salad(heard: Heard, story: frozenset[str], at: int, pairs: memoryview) -> list[float]:
    """Of a sentence or (-1) the whole: how familiar pairs are, and shares of what is broken."""
    sentences, sure, whole = heard.sentences, heard.evidence[:, -1].tolist(), heard
    if at >= 0:
        sentences, sure, whole = sentences[at : at + 1], sure[at : at + 1], sentences[at]
    words, text, size = whole.words, whole.text, max(8, len(whole.words))
    units = [unit for sentence in sentences for unit in sentence.neighbours]
    familiar, skipped = (
        [
            pairs[table + (first * 40_503 + second * 9_973) % PAIRS]
            for first, second in zip(units, units[apart:], strict=False)
        ]
        or [0]
        for apart, table in ((1, 0), (2, PAIRS))
    )
    strange = [word for part in sentences for word in part.strange if word not in story]
    names = sum([word in heard.names for word in strange])
    twice = sum([word == other and word not in _TWICE for word, other in pairwise(words)])
    lone = sum([len(word) == 1 and word not in _LETTERS for word in words])
    broken = [
        len(sentence.words)
        for sentence, logit in zip(sentences, sure, strict=False)
        if logit >= _BROKEN and len(sentence.words) >= FEWEST
    ]
    return [
        sum(familiar) / len(familiar) / 10,
        sum([value < -5 for value in familiar]) / len(familiar),
        sum(skipped) / len(skipped) / 10,
        sum([value < -5 for value in skipped]) / len(skipped),
        max(0, len(strange) - names + lone + twice - 1) / size,  # one may be rare, or a slip
        len(_INNER_CAPITAL.findall(text)) / size if _MAY_BE_TORN.search(text) else 0.0,
        twice / size,
        sum(broken) / size,
    ]


def weigh_salad(heard: Heard, story: frozenset[str], at: int = -1) -> float:
    """The logit of its being salad, of a sentence or (-1) the whole. `story`: the card's words."""
    tables = load_tables()
    *weights, constant = tables.gate
    measured = measure_salad(heard, story, at, tables.pairs)
    return sum([a * b for a, b in zip(weights, measured, strict=True)], constant)


def find_garble(heard: Heard, story: frozenset[str], logit: float, before: list[float]) -> float:
    """How much does not hang together: by the whole, by sentences, by what was said before."""
    count, shares = len(heard.words), [(logit - _FREE) / 3]
    if count > _BREATH:
        breath = max([len(part.split()) for part in _PAUSE.split(heard.text)])
        shares.append((breath - _BREATH) / 20)
    if logit >= _SOUND and len(before) >= _ENOUGH:
        logits = [min(_MOST, max(_LEAST, other)) for other in (logit, *before)]
        shares.append((sum(logits) / len(logits) - _DRONES) / 1.5)
    if logit >= _SOUND and len(heard.sentences) > 1:
        torn = [
            len(part.words)
            for at, part in enumerate(heard.sentences)
            if len(part.words) >= _LONG and weigh_salad(heard, story, at) >= _SURE
        ]
        shares.append(sum(torn) / count)
    return min(1.0, max(0.0, *shares))
