"""The gate on word salad: how far words hang together. Pairs of neighbours that English has or has
not, words that are none, capitals within words, words twice. Fluent nonsense passes it: only a user
that reads hears that.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rlver_gym.users.embedded.english import load_tables
from rlver_gym.users.embedded.hear import Heard

PAIRS = 1 << 16
"""Cells of the table of pairs; two pairs may share one."""
_INNER_CAPITAL = re.compile(r"\b[a-z]+[A-Z]|\b[A-Z]{2,}[a-z]{2,}\b")
_MAY_BE_TORN = re.compile(r"[A-Z](?:(?<=[a-z].)|(?=[A-Z][a-z]))")
"""What stands in all that the pattern above finds; several times as fast."""
_TWICE = frozenset("that had no very so really now there yes ha bye oh please long".split())
_LETTERS = frozenset("aiouxy0123456789")
_BROKEN = 3.0
"""The evidence, in logits, from which a sentence is taken for broken."""
_FEWEST, _LONG = 5, 8
"""Words from which on pairs say something, and of a sentence that is weighed alone."""
_BREATH, _PAUSE = 40, re.compile(r"[^\w\s'’*]")
"""Words without a mark between them, of which no honest reply has more than 31."""
_SURE, _FREE, _SOUND = 3.25, 2.0, -3.0
"""The logits from which a sentence counts, and from which a whole does; and from which its
sentences and what was said before are looked at.
"""
_LEAST, _MOST, _ENOUGH, _DRONES = -5.0, 4.0, 2, -1.6
"""Of a dialogue: the bounds of a logit, how many before are enough, and the mean from which all of
it counts; that of honest supporters lies below -2.
"""


def measure_salad(
    heard: Heard, words_of_story: frozenset[str], pairs: memoryview | None = None
) -> list[float]:
    """How familiar its pairs are in the mean and how many are strange, the shares of words that are
    none, that are torn by capitals, that come twice running, and that stand in sentences of which
    the classifier of acts says that they do not hang together.
    """
    words, units, size = heard.words, heard.neighbours, max(8, len(heard.words))
    pairs = load_tables().pairs if pairs is None else pairs
    familiar, skipped = (
        [
            pairs[table + (first * 40_503 + second * 9_973) % PAIRS]
            for first, second in zip(units, units[apart:], strict=False)
        ]
        or [0]
        for apart, table in ((1, 0), (2, PAIRS))
    )
    strange = [word for word in heard.strange if word not in words_of_story]
    names = sum([word in heard.names for word in strange])
    twice = sum([one == other and one not in _TWICE for one, other in pairwise(words)])
    lone = sum([len(word) == 1 and word not in _LETTERS for word in words])
    sure = heard.evidence[:, -1].tolist() if heard.sentences else ()
    broken = [
        len(sentence.words)
        for sentence, logit in zip(heard.sentences, sure, strict=True)
        if logit >= _BROKEN and len(sentence.words) >= _FEWEST
    ]
    return [
        sum(familiar) / len(familiar) / 10,
        sum([value < -5 for value in familiar]) / len(familiar),
        sum(skipped) / len(skipped) / 10,
        sum([value < -5 for value in skipped]) / len(skipped),
        max(0, len(strange) - names + lone + twice - 1) / size,  # one may be rare, or a slip
        len(_INNER_CAPITAL.findall(heard.text)) / size if _MAY_BE_TORN.search(heard.text) else 0.0,
        twice / size,
        sum(broken) / size,
    ]


def find_garble(
    heard: Heard, words_of_story: frozenset[str], before: Sequence[float] = ()
) -> float:
    """How much of an utterance does not hang together, in [0, 1]: by the whole; by its sentences,
    of which less has to be surer; or by what was said `before` as well, of which none has to be.
    """
    count = len(heard.words)
    if count < _FEWEST:
        return 0.0
    logit = weigh_salad(heard, words_of_story)
    shares = [(logit - _FREE) / 3]
    if count > _BREATH:
        shares.append(
            (max([len(part.split()) for part in _PAUSE.split(heard.text)]) - _BREATH) / 20
        )
    if logit >= _SOUND and len(before) >= _ENOUGH:
        shares.append((sum(before, min(logit, _MOST)) / (len(before) + 1) - _DRONES) / 1.5)
    if logit >= _SOUND and len(heard.sentences) > 1:
        parts = [part for part in _list_parts(heard) if len(part.words) >= _LONG]
        torn = [len(part.words) for part in parts if weigh_salad(part, words_of_story) >= _SURE]
        shares.append(sum(torn) / count)
    return min(1.0, max(0.0, *shares))


def remember_salad(heard: Heard, words_of_story: frozenset[str]) -> tuple[float, ...]:
    """What an utterance adds to `before` of the next."""
    if len(heard.words) < _FEWEST:
        return ()
    return (min(_MOST, max(_LEAST, weigh_salad(heard, words_of_story))),)


def _list_parts(heard: Heard) -> Iterator[Heard]:
    """Each sentence as a whole."""
    start = 0
    for at, sentence in enumerate(heard.sentences):
        end = start + len(sentence.words)
        yield heard._replace(
            text=sentence.text, words=sentence.words, sentences=(sentence,),
            evidence=heard.evidence[at : at + 1], neighbours=heard.neighbours[start:end],
            strange=[word for word in sentence.words if word in heard.strange],
        )  # fmt: skip
        start = end


def weigh_salad(heard: Heard, words_of_story: frozenset[str]) -> float:
    """The logit of their being salad."""
    *weights, constant = load_tables().gate
    measured = measure_salad(heard, words_of_story)
    return sum([a * b for a, b in zip(weights, measured, strict=True)], constant)
