"""Which hidden need do somebody's words hint at? A naive Bayes reader, taught with the hints of the
train personas, and the adaptive agent, which answers to what it reads. No privileged information:
the people it is tested on are strangers to it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from rlver_gym.agents.strategies import PHRASES, Strategy, compose_utterance
from rlver_gym.core.agent import NonBlocking, turn_of, user_lines
from rlver_gym.core.dialogue import Message
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.core.words import sentences, stems
from rlver_gym.library.personas import library

_SMOOTHING = 0.3


class NeedReader:
    """A naive Bayes reader of hints: which need do these words speak for?"""

    def __init__(self, hints: dict[HiddenNeed, list[list[str]]]) -> None:
        """`hints`: of each need, its lines by situation; words of one alone are left out."""
        stories = zip(*hints.values(), strict=True)
        spread = Counter(
            term
            for story in stories
            for term in {term for lines in story for line in lines for term in _terms(line)}
        )
        known = {term for term, count in spread.items() if count >= 2}
        counts = {
            need: Counter(
                term
                for lines in of_need
                for line in lines
                for term in _terms(line)
                if term in known
            )
            for need, of_need in hints.items()
        }
        self._evidence: dict[str, dict[HiddenNeed, float]] = {}
        for term in known:
            logs = {
                need: math.log(
                    (of_need[term] + _SMOOTHING) / (of_need.total() + _SMOOTHING * len(known))
                )
                for need, of_need in counts.items()
            }
            mean = sum(logs.values()) / len(logs)
            self._evidence[term] = {need: log - mean for need, log in logs.items()}

    def evidence(self, sentence: str) -> dict[HiddenNeed, float]:
        """A sentence's log-likelihood for each need against their mean, in nats; 0 if unknown."""
        known = [self._evidence[term] for term in _terms(sentence) if term in self._evidence]
        return {need: sum(term[need] for term in known) for need in HiddenNeed}

    def need(self, lines: Sequence[str]) -> tuple[HiddenNeed, float]:
        """The need that the lines speak for most, and its lead over the next."""
        ranked = sorted(self.weigh_evidence(lines).items(), key=lambda pair: -pair[1])
        return ranked[0][0], ranked[0][1] - ranked[1][1]

    def weigh_evidence(self, lines: Sequence[str]) -> dict[HiddenNeed, float]:
        """How much the lines speak for each need, 0.0 for not at all: the sum over sentences of
        squared evidence, in nats squared.

        Most sentences tell the story and not the need, so what speaks against a need does not
        count, and clear words count by their square.
        """
        by_sentence = [self.evidence(sentence) for line in lines for sentence in sentences(line)]
        return {
            need: sum(max(0.0, weights[need]) ** 2 for weights in by_sentence)
            for need in HiddenNeed
        }


def _terms(text: str) -> list[str]:
    spoken = stems(text)
    return [*spoken, *map(" ".join, pairwise(spoken))]


class _LeaveOneOutReader(NeedReader):
    """Leave-one-out: a sentence of a training situation is read by a reader trained without that
    situation.

    A reader knows its own examples too well (0.41 of their turns read right, 0.29 of strangers'),
    and who learns with such hints trusts them too much.
    """

    def __init__(self, hints: dict[HiddenNeed, list[list[str]]]) -> None:
        super().__init__(hints)
        self._without: dict[str, NeedReader] = {}
        for number in range(len(next(iter(hints.values())))):
            others = NeedReader(
                {need: lines[:number] + lines[number + 1 :] for need, lines in hints.items()}
            )
            of_story = (
                sentence
                for lines in hints.values()
                for line in lines[number]
                for sentence in sentences(line)
            )
            self._without |= dict.fromkeys(of_story, others)

    def evidence(self, sentence: str) -> dict[HiddenNeed, float]:
        return (
            self._without[sentence].evidence(sentence)
            if sentence in self._without
            else super().evidence(sentence)
        )


def _load_training_hints() -> dict[HiddenNeed, list[list[str]]]:
    shelf = library()
    situations = {
        pairing.situation: pairing.id
        for pairing in shelf.pairings.values()
        if pairing.split == "train"
    }
    taught = [shelf.get(persona_id).situation for persona_id in situations.values()]
    return {need: [list(situation.hints.of(need)) for situation in taught] for need in HiddenNeed}


@lru_cache(maxsize=1)
def get_need_reader() -> NeedReader:
    return NeedReader(_load_training_hints())


@lru_cache(maxsize=1)
def get_leave_one_out_reader() -> NeedReader:
    """The same for training with those personas: their sentences are read without their hints."""
    return _LeaveOneOutReader(_load_training_hints())


class Adaptive(NonBlocking):
    """Listens until a need shows, then takes up what was said as that need asks for."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def reply(self, messages: Sequence[Message]) -> str:
        """One utterance about what was said, in the manner of the inferred need."""
        turn = turn_of(messages)
        need, lead = get_need_reader().need(user_lines(messages))
        if not turn or lead < 1.0:
            need = HiddenNeed.LISTENING
        strategy = Strategy[PHRASES["meets"][need].upper()]
        return compose_utterance(strategy, messages, turn + self.seed)
