"""What is wrong with what a card answers, replies and takes up, beyond what its types can see."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from rlver_gym.core.inquiries import PERSONAL_INQUIRIES, Feeling, Inquiry, InquiryAboutOther
from rlver_gym.core.persona import Situation
from rlver_gym.core.words import sentences
from rlver_gym.people.naming import describe_spoken_need

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
