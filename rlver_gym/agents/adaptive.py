"""The adaptive agent: infers the hidden need from what the user says, and answers to that. No privileged information.

It learned what each need sounds like from the hints of the train personas; the people it is tested on are strangers to it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from rlver_gym.agents.base import turn_of, user_lines
from rlver_gym.agents.strategies import Strategy, said
from rlver_gym.dialogue import Message
from rlver_gym.library import library
from rlver_gym.persona import HiddenNeed
from rlver_gym.words import sentences, stems


class NeedReader:
    """A naive Bayes reader of hints: which need do these words speak for?"""

    def __init__(self, hints: dict[HiddenNeed, list[list[str]]], smoothing: float = 0.3) -> None:
        """`hints`: of each need, its lines by situation. Words of a single situation are about that story, and are left out."""
        stories = zip(*hints.values(), strict=True)
        spread = Counter(
            term for story in stories for term in {term for lines in story for line in lines for term in _terms(line)}
        )
        known = {term for term, count in spread.items() if count >= 2}
        counts = {
            need: Counter(term for lines in of_need for line in lines for term in _terms(line) if term in known)
            for need, of_need in hints.items()
        }
        self._evidence: dict[str, dict[HiddenNeed, float]] = {}
        for term in known:
            logs = {
                need: math.log((of_need[term] + smoothing) / (of_need.total() + smoothing * len(known)))
                for need, of_need in counts.items()
            }
            mean = sum(logs.values()) / len(logs)
            self._evidence[term] = {need: log - mean for need, log in logs.items()}
        self.evidence = lru_cache(maxsize=8_192)(self._weighed_words)

    def _weighed_words(self, sentence: str) -> dict[HiddenNeed, float]:
        """How much a sentence speaks for each need: log-likelihood against the mean of the needs, in nats; words it never met say nothing."""
        known = [self._evidence[term] for term in _terms(sentence) if term in self._evidence]
        return {need: sum(term[need] for term in known) for need in HiddenNeed}

    def need(self, lines: Sequence[str]) -> tuple[HiddenNeed, float]:
        """The need that the lines speak for most, and its lead over the next (0.0 when nothing was said)."""
        ranked = sorted(self.weighed(lines).items(), key=lambda pair: -pair[1])
        return ranked[0][0], ranked[0][1] - ranked[1][1]

    def weighed(self, lines: Sequence[str]) -> dict[HiddenNeed, float]:
        """How much the lines speak for each need, 0.0 for not at all: the sum over sentences of squared evidence, in nats squared.

        Most sentences tell the story and not the need, so what speaks against a need does not count, and clear words count by their square.
        """
        found = [self.evidence(sentence) for line in lines for sentence in sentences(line)]
        return {need: sum(max(0.0, one[need]) ** 2 for one in found) for need in HiddenNeed}


def _terms(text: str) -> list[str]:
    spoken = stems(text)
    return [*spoken, *map(" ".join, pairwise(spoken))]


@lru_cache(maxsize=1)
def reader() -> NeedReader:
    """The reader taught by the shipped train personas."""
    shelf = library()
    situations = {pairing.situation: pairing.id for pairing in shelf.pairings.values() if pairing.split == "train"}
    taught = [shelf.get(persona_id).situation for persona_id in situations.values()]
    return NeedReader({need: [list(situation.hints.of(need)) for situation in taught] for need in HiddenNeed})


_MEETS = {
    HiddenNeed.PRAISE: Strategy.PRAISE,
    HiddenNeed.NOT_AT_FAULT: Strategy.TAKE_SIDE,
    HiddenNeed.DEEP_EMPATHY: Strategy.REFLECT_FEELING,
    HiddenNeed.LISTENING: Strategy.LISTEN,
    HiddenNeed.MOTIVES: Strategy.MOTIVES,
    HiddenNeed.BALANCED_VIEW: Strategy.OTHER_SIDE,
    HiddenNeed.REFLECTION: Strategy.INVITE_REFLECTION,
    HiddenNeed.PRACTICAL_ADVICE: Strategy.SUGGEST,
}


class Adaptive:
    """Listens until a need shows, then takes up what this person said in the way that need asks for."""

    def __init__(self, seed: int = 0) -> None:
        """`seed` shifts the phrasing."""
        self.seed = seed

    def reply(self, messages: Sequence[Message]) -> str:
        """One utterance about what was said, in the manner of the inferred need."""
        turn = turn_of(messages)
        need, lead = reader().need(user_lines(messages))
        if not turn or lead < 1.0:
            need = HiddenNeed.LISTENING
        return said(_MEETS[need], messages, turn + self.seed)
