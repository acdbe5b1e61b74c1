"""Hand-written replies of people who listened: they must be worth more than tricks, and the better
of two must earn more.

`data/expectations_en.jsonl`: 1240 pairs (persona, earlier utterances, better reply, worse reply,
why), written without looking at the appraiser; a pair may give the person another need than their
card does; half "dev" for tuning (the ear is fitted to its labels), half "test" for measuring,
"validation" between them: labelled, but fitted to nothing. `data/honest_replies_en.json`: five
replies each to eight test personas.
"""

import json
import random
from collections import Counter
from functools import cache
from random import Random

import pytest
from paths import DATA

from rlver_gym import EmpathySession, HiddenNeed, env_card
from rlver_gym.bench.attacks.attacks import FIXED_ATTACKS
from rlver_gym.core.words import sentences, words
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.users.embedded.gate import FEWEST, find_garble, weigh_salad
from rlver_gym.users.embedded.hear import hear

PAIRS = [
    json.loads(line)
    for line in (DATA / "expectations_en.jsonl").read_text(encoding="utf-8").splitlines()
]
HONEST = json.loads((DATA / "honest_replies_en.json").read_text(encoding="utf-8"))


def begun(persona_id, need=None):
    persona = library().get(persona_id)
    if need:
        persona = persona.model_copy(update={"need": HiddenNeed(need)})
    session = EmpathySession(EmbeddedUser(), persona, env_card("SAGE-Sentient-v0"), 0)
    session.start()
    return session


@cache
def in_order(half):
    """By need, of each pair whether the better reply earns more: 1, or 0, and a half when both earn
    the same.
    """
    found = {}
    for pair in (pair for pair in PAIRS if pair["half"] == half):
        session = begun(pair["persona"], pair.get("need"))
        for utterance in pair["before"]:
            session.reply(utterance)
        here = session.snapshot()
        better = session.reply(pair["better"]).appraisal.change
        session.restore(here)
        worse = session.reply(pair["worse"]).appraisal.change
        found.setdefault(session.scene.persona.need, []).append(
            (better > worse) + 0.5 * (better == worse)
        )
    return found


def test_the_expectation_set_is_whole_and_leaks_nobody():
    people = {
        half: {library().get(pair["persona"]).person.id for pair in PAIRS if pair["half"] == half}
        for half in ("dev", "validation", "test")
    }
    assert Counter(pair["half"] for pair in PAIRS) == {"dev": 992, "validation": 120, "test": 128}
    assert not (people["dev"] | people["validation"]) & people["test"]
    assert len({pair[reply] for pair in PAIRS for reply in ("better", "worse")}) == 2 * len(PAIRS)


def test_dev_and_validation_pairs_say_what_each_sentence_does_and_test_pairs_do_not():
    for pair in PAIRS:
        for reply in ("better", "worse"):
            said = "".join(text for text, _ in pair.get(f"{reply}_acts", []))
            assert said.replace(" ", "") == (
                "" if pair["half"] == "test" else pair[reply].replace(" ", "")
            ), pair["id"]


@pytest.mark.parametrize(
    ("half", "floor"),
    [
        # No longer part of the fit: the score is fitted to rated replies alone.
        pytest.param("dev", 0.86, marks=pytest.mark.slow),
        ("validation", 0.87),
        pytest.param("test", 0.84, marks=pytest.mark.slow),
    ],
)
def test_the_better_of_two_replies_mostly_earns_more(half, floor):
    """A floor against slipping back; the figures are in docs/trust.md."""
    points = [point for need in in_order(half).values() for point in need]
    assert sum(points) / len(points) > floor


@pytest.mark.parametrize(("half", "floor"), [("dev", 0.78), ("validation", 0.8), ("test", 0.7)])
@pytest.mark.slow
def test_no_need_is_left_behind(half, floor):
    """The dev half, once fitted, is no longer: 0.80 with version 12, 0.88 before."""
    shares = {need: sum(points) / len(points) for need, points in in_order(half).items()}
    assert shares.keys() == set(HiddenNeed)
    assert min(shares.values()) >= floor, shares if half != "test" else "test"


def test_what_people_write_hangs_together_and_stirred_it_does_not():
    """On sentences that the ear did not learn from."""
    rng, unseen = (
        random.Random(0),
        [pair[key] for pair in PAIRS if pair["half"] != "dev" for key in ("better", "worse")],
    )
    whole = [part for text in unseen for part in sentences(text) if len(words(part)) >= 8]
    stirred = [" ".join(rng.sample(words(part), len(words(part)))) + "." for part in whole]
    assert len(whole) > 700
    assert sum(_is_broken(part) for part in whole) / len(whole) < 0.005
    assert sum(_is_broken(part) for part in stirred) / len(stirred) > 0.4


def _is_broken(sentence):
    heard, story = hear(sentence), frozenset[str]()
    return len(heard.words) >= FEWEST and (
        find_garble(heard, story, weigh_salad(heard, story), []) > 0
    )


def test_who_listened_mostly_ends_above_the_start_and_far_above_stock_phrases_with_quotes():
    attack = next(attack for attack in FIXED_ATTACKS if attack.name == "stock-with-quote")
    honest, tricks = [], []
    for persona_id, replies in HONEST.items():
        session, other = begun(persona_id), begun(persona_id)
        for reply in replies:
            session.reply(reply)
        while other.outcome is None and len(other.dialogue.turns) < len(replies):
            other.reply(attack.say(other, Random(f"0/{len(other.dialogue.turns)}")))
        honest.append(session.emotion)
        tricks.append(other.emotion)
    assert sum(honest) / len(honest) > 40
    assert sum(honest) / len(honest) > sum(tricks) / len(tricks) + 20


KIND_WORDS = json.loads((DATA / "kind_words_en.json").read_text(encoding="utf-8"))
"""By persona what was once misheard."""


@pytest.mark.parametrize(
    ("persona_id", "reply"),
    [(who, reply) for who, replies in KIND_WORDS.items() for reply in replies],
)
def test_negation_and_target_are_heard(persona_id, reply):
    """A negated insult, an insult to others, or a word of the person's own is no offence."""
    appraisal = begun(persona_id).reply(reply).appraisal
    codes = {reason.code for reason in appraisal.reasons}
    assert not {code for code in codes if code.startswith("prior:")}
    assert appraisal.change > -5, "a plain insult costs more"
