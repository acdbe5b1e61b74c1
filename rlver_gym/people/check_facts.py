"""What is wrong with the facts of a card, beyond what their types can see."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from rlver_gym.core.persona import Fact
from rlver_gym.people.naming import describe_spoken_need

_LONGEST_ANSWER = 30


def find_fact_problems(facts: Sequence[Fact], disclosures: Collection[str] = ()) -> list[str]:
    """What to mend in the facts; `disclosures`: other ids that a fact may presuppose."""
    ids = Counter(fact.id for fact in facts)
    questions = Counter(_normalise(question) for fact in facts for question in fact.asked)
    twice = [(name, f"stands {count} times. Rename.") for name, count in ids.items() if count > 1]
    problems = [f"facts: the id {name!r} {told}" for name, told in twice]
    problems += [
        f"facts: {text!r} is asked of {count} facts. Ask each otherwise."
        for text, count in questions.items()
        if count > 1
    ]
    known = {*ids, *disclosures}
    for fact in facts:
        problems += [f"facts.{fact.id}.{problem}" for problem in _find_fact_problems(fact, known)]
    return problems


def _find_fact_problems(fact: Fact, known: Collection[str]) -> Iterator[str]:
    for answer in filter(None, (*fact.answers, fact.high, fact.low, fact.correction)):
        if problem := describe_spoken_need(answer):
            yield f"answers: {answer!r} {problem}"
        if len(answer.split()) > _LONGEST_ANSWER:
            yield (
                f"answers: {answer!r} is longer than {_LONGEST_ANSWER} words. Leave a part for"
                " another fact."
            )
    for name in fact.after:
        if name not in known or name == fact.id:
            yield f"after: there is no other fact or disclosure {name!r} in this card."
    keys = [_normalise(key) for key in fact.key]
    if keys and not any(_contains_words(answer, key) for answer in fact.answers for key in keys):
        yield f"key: no answer holds any of {list(fact.key)}. Write it as it is spoken."
    for statement in fact.wrong:
        if statement.endswith("?"):
            yield f"wrong: {statement!r} is a question. Say it as a statement."
        if clash := [key for key in keys if _contains_words(statement, key)]:
            yield f"wrong: {statement!r} holds the right words {clash}. Say something false."
    for statement in fact.right:
        if statement.endswith("?"):
            yield f"right: {statement!r} is a question. Say it as a statement."
    if fact.key and (len(fact.wrong) < 2 or not fact.right):
        yield "wrong: a fact with a key needs two false statements and a true one."


def _normalise(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s']", " ", text.casefold()).split())


def _contains_words(text: str, key: str) -> bool:
    return f" {key} " in f" {_normalise(text)} "
