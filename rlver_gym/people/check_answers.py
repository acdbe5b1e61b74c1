"""What is wrong with what a card answers, replies, takes up and tells as facts, beyond what its
types can see.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from rlver_gym.core.inquiries import PERSONAL_INQUIRIES, Feeling, Inquiry, InquiryAboutOther
from rlver_gym.core.persona import Fact, Situation
from rlver_gym.core.words import sentences
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


_LONGEST = 35
_NEEDS_NO_LINES = (
    frozenset({Inquiry("hear_me"), Inquiry("more"), Inquiry("about_you")}) | PERSONAL_INQUIRIES
)
"""Answered with hints, with the next disclosure, with facts, and from the person's card."""


def find_answer_problems(situation: Situation) -> list[str]:
    """What to mend in a situation's answers; nothing for a card that has none."""
    if not situation.answers:
        return []
    return [*_find_missing_answers(situation), *_check_lines(_list_answer_lines(situation))]


def _find_missing_answers(situation: Situation) -> Iterator[str]:
    yield from _report_missing("answers", set(Inquiry) - _NEEDS_NO_LINES - set(situation.answers))
    yield from _report_missing("feelings", set(Feeling) - set(situation.feelings))
    for other in situation.people:
        told = situation.about_people.get(other.name, {})
        yield from _report_missing(f"about_people.{other.name}", set(InquiryAboutOther) - set(told))


def _report_missing(place: str, names: Collection[str]) -> Iterator[str]:
    if names:
        few = ", ".join(sorted(names)[:6])
        yield (
            f"{place}: nothing is said to {few}{' and more' if len(names) > 6 else ''}. Write a"
            " line for each."
        )


def _list_answer_lines(situation: Situation) -> Iterator[tuple[str, str]]:
    for inquiry, lines in situation.answers.items():
        yield from ((f"answers.{inquiry}", line) for line in lines)
    for name, told in situation.about_people.items():
        for about, lines in told.items():
            yield from ((f"about_people.{name}.{about}", line) for line in lines)
    for feeling, lines in situation.feelings.items():
        yield from ((f"feelings.{feeling}", line) for line in lines)
    for number, suggestion in enumerate(situation.suggestions):
        yield from ((f"suggestions.{number}", line) for line in suggestion.reply)
    for number, thread in enumerate(situation.threads):
        yield from ((f"threads.{number}", line) for line in thread.lines)


def _check_lines(lines: Iterable[tuple[str, str]]) -> Iterator[str]:
    said: Counter[str] = Counter()
    for place, line in lines:
        if problem := describe_spoken_need(line):
            yield f"{place}: {line!r} {problem}"
        if len(line.split()) > _LONGEST:
            yield f"{place}: {line!r} is longer than {_LONGEST} words. Say less."
        said.update(
            sentence.casefold() for sentence in set(sentences(line)) if len(sentence.split()) > 3
        )
    for sentence, count in said.items():
        if count > 1:
            yield (
                f"{sentence!r} is said in {count} lines. Each is said once in a dialogue: write"
                " another."
            )
