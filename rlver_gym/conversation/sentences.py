"""An utterance sentence by sentence, with what each asks or does and which feelings it names.

Pure; knows no card.
"""

from collections.abc import Collection
from typing import NamedTuple

from rlver_gym.conversation.parse import ParsedUtterance, Question, sentences_of
from rlver_gym.conversation.recognise import Classification, SentenceInput, classify
from rlver_gym.core.inquiries import Feeling, Remark
from rlver_gym.core.words import split_words
from rlver_gym.text.feelings import feelings_in

_MAX_SENTENCES = 12
"""The last ones of a longer utterance: what stands last is answered."""

_REMARKS = frozenset(map(str, Remark))
_ELLIPTIC = 4
"""Words of a question that may lean on the sentence before it."""


class Sentence(NamedTuple):
    """One sentence of an utterance."""

    text: str
    words: tuple[str, ...]
    classification: Classification
    feelings: tuple[Feeling, ...]
    question: Question | None
    """What it asks, when it has the form of a question."""
    suggests: bool
    """Whether it is a question that suggests something to do: "Could you write to her?"."""

    @property
    def remark(self) -> tuple[Remark, float] | None:
        """What it does most probably, besides asking."""
        for label, probability in self.classification.ranked:
            if label in _REMARKS:
                return Remark(label), probability
        return None


def classify_sentences(
    utterance: str, parsed: ParsedUtterance, names: Collection[str]
) -> list[Sentence]:
    """The sentences of an utterance, each with its classification.

    `names`: lower-case words that are names of people.
    """
    questions = {question.text: question for question in parsed.questions}
    suggestions = {question.text for question in parsed.suggestions}
    strangers = {name for claim in parsed.claims for name in claim.names}
    each = [
        (text, words)
        for text in sentences_of(utterance)[-_MAX_SENTENCES:]
        if (words := split_words(text))
    ]
    if not each:
        return []
    inputs = [SentenceInput(words, text.endswith("?")) for text, words in each]
    clauses = [
        SentenceInput(question.words, whole.asks)
        if (question := questions.get(text)) is not None and len(question.words) + 2 < len(words)
        else None
        for (text, words), whole in zip(each, inputs, strict=True)
    ]
    classifications = classify(
        [*inputs, *filter(None, clauses)], strangers.union(names) if strangers else names
    )
    of_clauses = iter(classifications[len(each) :])
    found: list[Sentence] = []
    for (text, words), whole, clause in zip(each, classifications, clauses, strict=False):
        best = (
            whole
            if clause is None
            else max(whole, next(of_clauses), key=lambda one: one.probability)
        )
        question, feelings = questions.get(text), feelings_in(words)
        if question is not None and not feelings and found and len(words) <= _ELLIPTIC:
            feelings = found[-1].feelings  # "I'd be furious. Are you?"
        found.append(Sentence(text, words, best, feelings, question, text in suggestions))
    return found
