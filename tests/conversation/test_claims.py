"""What was said about the story is checked against what was told and against the card."""

import pytest

from rlver_gym.core.dialogue import Appraisal, Dialogue, Turn
from rlver_gym.core.library import library
from rlver_gym.users.embedded.speech.claims import Claim, check_claims

NOOR = library().get("noor-the-flatmate")
TOLD = (
    "My flatmate Marnie hasn't paid her half for three months.",
    "Since the spring there's been nothing from her. She owes me fourteen hundred and forty.",
    "Kit came on a Friday with two suitcases. That was seven weeks ago.",
)


def claims(words: str, told: tuple[str, ...] = TOLD, persona_id: str = NOOR.id) -> list[Claim]:
    turns = tuple(Turn("Hm.", Appraisal(0, "", ()), 40, 0.0, None, line) for line in told[1:])
    return list(check_claims(library().get(persona_id), Dialogue(told[0], turns, words)))


def false(words: str, told: tuple[str, ...] = TOLD) -> list[Claim]:
    return [one for one in claims(words, told) if one.verdict == "false"]


@pytest.mark.parametrize(
    ("words", "kind", "right"),
    [
        ("So she hasn't paid for six months.", "number", "three months"),
        ("How has it been since she stopped paying six months ago?", "number", "three months"),
        ("You carry this alone, and Kit has been there for nine weeks.", "number", "seven weeks"),
        ("And Marcie, does she say anything?", "name", "Marnie"),
        ("It must be hard that your sister Marnie writes you notes.", "relation", "my flatmate"),
        ("Marnie is your sister, so you can't just leave.", "relation", "my flatmate"),
        ("So Kit came on a Tuesday with his suitcases.", "date", "Friday"),
        ("You said you're a teacher.", "work", NOOR.person.work),
        ("You work as a plumber, right?", "work", NOOR.person.work),
    ],
)  # fmt: skip
def test_what_contradicts_what_was_told_is_false_and_what_is_right_is_known(
    words: str, kind: str, right: str
) -> None:
    (found,) = false(words)
    assert (found.kind, found.right) == (kind, right)


@pytest.mark.parametrize(
    "words",
    [
        "So she hasn't paid for three months, and she owes you fourteen hundred and forty.",
        "Kit has been there for seven weeks now, nearly two months.",
        "Your flatmate Marnie writes notes instead of talking.",
        "He came on a Friday with two suitcases and stayed.",
        "You could write to her, three sentences, by Monday.",
        "Try it for ten minutes a day.",
        "My sister did the same to me for six years.",
        "I had a friend called Diane who was just like that.",
        "Does your mum know about it?",
        "You sell tickets, and then you come home to that.",
        "What would help you tonight?",
    ],
)
def test_what_was_told_what_is_proposed_and_what_is_the_supporters_own_is_let_be(
    words: str,
) -> None:
    assert not false(words)


def test_what_was_told_counts_as_told_and_what_only_the_card_says_as_true() -> None:
    (told,) = [
        one for one in claims("She owes you fourteen hundred and forty.") if one.kind == "number"
    ]
    assert told.verdict == "told"
    (untold,) = [
        one for one in claims("You share a flat for four years.", TOLD[:1]) if one.kind == "number"
    ]
    assert untold.verdict in ("true", "false")


def test_a_strange_name_is_noticed_but_a_book_title_is_not() -> None:
    assert [one.kind for one in false("What did Diane say to you then?")] == ["name"]
    assert not false("There's an exercise called the Calm Conversation, you could try that.")


def test_nothing_is_claimed_by_silence_and_in_another_language() -> None:
    assert claims("...") == []
    assert claims("我很难过") == []
