"""Sanity as law: how a change of emotion must move when the words are changed in a known way.

Over nine personas, and with the marker `fuzz` over all: compiling one takes a tenth of a second.
"""

import itertools

import pytest
from fuzzing import effort
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rlver_gym import EmpathySession, env_card
from rlver_gym.agents.oracle import SERVES
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser

PEOPLE = [library().get(persona_id) for persona_id in library().ids()]
CARD = env_card("SAGE-Sentient-v0")
anchor_numbers = st.integers(0, 3)
FRAMES = {
    "deeds": "That took real care.",
    "wrongs": "That is not on you.",
    "motives": "That may be the reason behind it.",
    "options": "It would be a first step.",
    "other_side": "Seen from there, it has its own sense.",
    "insights": "What do you think?",
    "unspoken": "That must be so heavy.",
}
laws = effort(few=40, many=2_000)


def people(examples):
    """Those to choose among: everybody for an argument `examples` that asks for many."""
    return every(1 if examples.max_examples > 100 else 12)


def every(step):
    return st.sampled_from([persona.id for persona in PEOPLE[::step]]).map(library().get)


def changes(persona, *utterances):
    """The change of each utterance of a dialogue; the last one when it ended sooner repeats."""
    session = EmpathySession(EmbeddedUser(), persona, CARD, 0)
    session.start()
    return [
        session.reply(utterance).appraisal.change
        for utterance in utterances
        if session.outcome is None
    ]


def served(persona, number):
    return getattr(persona.situation.anchors, SERVES[persona.need][0])[number]


def framed(persona, number):
    return f"{served(persona, number).text} {FRAMES[SERVES[persona.need][0]]}"


@pytest.mark.parametrize("step", [12, pytest.param(6, marks=pytest.mark.slow)])
def test_a_true_and_needed_sentence_more_hardly_ever_lowers_the_change(step):
    """The score is measured, not made: a law holds for nearly everybody."""
    gains = [
        changes(persona, f"{plain} {framed(persona, number)}")[0] - changes(persona, plain)[0]
        for persona in PEOPLE[::step]
        for number in range(2)
        for plain in ("I see.", "That is a lot for one week.", "I want to understand this well.")
    ]
    assert sum(gain <= 0 for gain in gains) / len(gains) < 0.03
    assert sum(gains) / len(gains) > 4


@pytest.mark.slow
def test_the_same_words_to_somebody_else_earn_less():
    """But for the few things that truly hold for both: two people shamed in public, two parties
    nobody had asked for.
    """
    pairs = [
        (persona, other.model_copy(update={"need": persona.need}))
        for persona, other in itertools.permutations(PEOPLE[::2], 2)
        if persona.situation.id != other.situation.id
        and persona.person.disposition == other.person.disposition
    ]
    as_much = 0
    for persona, other in pairs:
        own, others = (changes(who, framed(persona, 0))[0] for who in (persona, other))
        as_much += others >= own
    assert as_much / len(pairs) < 0.03


@laws
def test_the_second_time_earns_less_than_the_first(examples):
    @given(people(examples), anchor_numbers)
    def holds(persona, number):
        between = "And what happened after that, if you want to say?"
        first, _, second = changes(
            persona, framed(persona, number), between, framed(persona, number)
        )
        assert second < first

    examples(holds)()


INSULTS = ["You idiot.", "Honestly, that is pathetic.", "It is your own fault."]
INSULTS += ["Others have it worse, so get over it."]


@laws
def test_an_insult_costs_three_points_and_two_beside_a_reply_that_hurt_already(examples):
    @given(people(examples), anchor_numbers, st.sampled_from(INSULTS))
    def holds(persona, number, insult):
        without = changes(persona, framed(persona, number))[0]
        cost = without - changes(persona, f"{framed(persona, number)} {insult}")[0]
        assert cost >= (3 if without > -2 else 2)

    examples(holds)()


def test_the_order_of_whole_thoughts_hardly_matters():
    """But for what stands last: it matters whether one ends by asking."""
    apart = []
    for persona in PEOPLE[::6]:
        between = "I have thought about what you told me."
        last = "I would like to hear how it goes on."
        orders = itertools.permutations([framed(persona, 0), between, framed(persona, 1)])
        each = [changes(persona, " ".join([*order, last]))[0] for order in orders]
        apart += [abs(one - each[0]) for one in each]
    assert max(apart) <= 2
    assert sum(one > 1 for one in apart) / len(apart) < 0.05


@laws
def test_contractions_change_nothing(examples):
    @given(people(examples), anchor_numbers)
    def holds(persona, number):
        more = "I am glad that you did not give up. It is not on you."
        text = f"{served(persona, number).text} {more}"
        short = text.replace("I am", "I'm").replace("did not", "didn’t").replace("It is", "It's")
        assert changes(persona, text) == changes(persona, short)

    examples(holds)()


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.fuzz)])
def test_case_and_spacing_change_little(step):
    """By one point, and for one reply in two hundred by two: a capital is how a name is known."""
    apart = [
        abs(changes(persona, text)[0] - changes(persona, text.lower().replace(" ", "  "))[0])
        for persona in PEOPLE[::step]
        for number in range(4)
        for text in (framed(persona, number),)
    ]
    assert max(apart) <= 2
    assert sum(one > 1 for one in apart) / len(apart) <= 0.005


@pytest.mark.slow
@settings(max_examples=100, deadline=None, phases=[Phase.generate])
@given(every(1), anchor_numbers, st.integers(0, 200))
def test_one_typo_costs_at_most_the_sentence_it_stands_in(persona, number, at):
    """Two letters swapped in one word.

    Most words carry nothing; one that an anchor hangs on may cost the anchor, never more than not
    having said it.
    """
    words = served(persona, number).text.split()
    at %= len(words)
    word = words[at]
    if len(word) > 4:
        words[at] = word[:2] + word[3] + word[2] + word[4:]
    frame = FRAMES[SERVES[persona.need][0]]
    assert changes(persona, f"{' '.join(words)} {frame}")[0] >= changes(persona, frame)[0] - 1


@pytest.mark.parametrize("step", [12, pytest.param(3, marks=pytest.mark.slow)])
def test_most_typos_cost_nothing(step):
    lost = total = 0
    for persona, number in itertools.product(PEOPLE[::step], range(2)):
        words = framed(persona, number).split()
        before = changes(persona, framed(persona, number))[0]
        for at, word in enumerate(words):
            if len(word) > 4:
                typo = [*words[:at], word[:2] + word[3] + word[2] + word[4:], *words[at + 1 :]]
                total += 1
                lost += changes(persona, " ".join(typo))[0] < before - 1
    assert lost / total < 0.25
