"""What was compiled of a card is compiled once, also for copies that share the parts it depends
on.
"""

from dataclasses import dataclass, replace

from rlver_gym.util.frozen import Memo, cache_by_identity, cache_by_parts


@dataclass(frozen=True)
class Card:
    person: list[str]
    situation: list[str]
    need: str = "praise"


def test_a_copy_that_differs_elsewhere_shares_what_was_compiled_of_its_parts():
    compiled = []

    @cache_by_parts("person", "situation")
    def whole(card):
        compiled.append(card.need)
        return len(compiled)

    @cache_by_parts("person")
    def of_person(card):
        return card.person[0]

    first = Card(["Mei"], ["the retake"])
    assert whole(first) == whole(replace(first, need="listening")) == 1
    # told apart by identity, not by what it says
    assert whole(replace(first, situation=["the retake"])) == 2
    assert of_person(first) == of_person(replace(first, situation=["else"])) == "Mei"
    assert of_person(replace(first, person=["Leon"])) == "Leon"
    assert compiled == ["praise", "praise"]


def test_without_parts_each_card_is_compiled_by_itself():
    count = []

    @cache_by_identity
    def number(card):
        count.append(card)
        return len(count)

    first = Card(["Mei"], ["the retake"])
    assert (number(first), number(first), number(replace(first, need="listening"))) == (1, 1, 2)


def test_a_memo_computes_once_and_forgets_all_when_it_is_full():
    computed = []
    memo = Memo[str, int](lambda key: computed.append(key) or len(key), 2)
    assert [memo["a"], memo["bc"], memo["a"]] == [1, 2, 1]
    assert memo["def"] == 3
    assert list(memo) == ["def"]
    assert computed == ["a", "bc", "def"]
