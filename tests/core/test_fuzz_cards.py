"""Shipped cards, damaged in any way: one bounded, printable error, or a card that can be played."""

import json
from functools import lru_cache

import yaml
from fuzzing import assert_clear, damaged_bytes, damaged_json, effort
from hypothesis import given
from hypothesis import strategies as st

from rlver_gym import EmpathySession, EnvCard, Persona, env_card
from rlver_gym.core.persona import Person, Situation
from rlver_gym.library.personas import Index, library, shipped_personas_folder
from rlver_gym.people.card_check import find_person_problems, find_situation_problems
from rlver_gym.people.naming import find_unmatched_anchors
from rlver_gym.users import EmbeddedUser
from rlver_gym.util import shipped_cards
from rlver_gym.util.errors import CardError
from rlver_gym.util.field_errors import parse_card
from rlver_gym.util.yaml_file import parse_yaml

KINDS = {
    Person: shipped_personas_folder() / "people" / "noor.yaml",
    Situation: shipped_personas_folder() / "situations" / "the-old-dog.yaml",
    Index: shipped_personas_folder() / "index.yaml",
    EnvCard: shipped_cards("envs") / "RLVER-Empathy-v0.yaml",
}
REPLIES = ("You slept on the kitchen floor beside him, nine nights.", "What happened then?", "")


@lru_cache
def plain(kind):
    return yaml.safe_load(KINDS[kind].read_text(encoding="utf-8"))


def talk_to(card):
    """What a valid card is good for, whatever it says."""
    base = library().get("noor-missed-evening")
    env = card if isinstance(card, EnvCard) else env_card("RLVER-Empathy-v0")
    env = env.model_copy(update={"embedded_user": ""})  # a pin to another version refuses this one
    persona = Persona.model_validate(
        {
            **{name: getattr(base, name) for name in Persona.model_fields},
            "person": card if isinstance(card, Person) else base.person,
            "situation": card if isinstance(card, Situation) else base.situation,
        }
    )
    assert len(persona.hash) == len(env.hash) == 16
    session = EmpathySession(EmbeddedUser(), persona, env)
    assert session.start()
    for reply in REPLIES:
        if session.outcome is None:
            turn = session.reply(reply)
            assert turn.reply
            assert 0 <= turn.emotion <= 100


def check_value(kind, value):
    try:
        card = parse_card(kind, value, "card.yaml")
    except CardError as error:
        assert_clear(error, "card.yaml: ", 20_000)
        return
    if isinstance(card, Person):
        find_person_problems(card)
    if isinstance(card, Situation):
        find_situation_problems(card)
        find_unmatched_anchors(card)
    if not isinstance(card, Index):
        talk_to(card)


def check_bytes(kind, data):
    try:
        value = parse_yaml(data.decode("utf-8", errors="replace"), "card.yaml")
    except CardError as error:
        assert_clear(error, "card.yaml:", 500)
        return
    json.dumps(value, allow_nan=False)  # texts, numbers, lists and mappings alone
    check_value(kind, value)


kinds = st.sampled_from(list(KINDS))


@effort(few=40, many=3000)
def test_cards_with_damaged_bytes(examples):
    @given(
        kinds.flatmap(lambda one: st.tuples(st.just(one), damaged_bytes(KINDS[one].read_bytes())))
    )
    def holds(damaged):
        check_bytes(*damaged)

    examples(holds)()


@effort(few=40, many=3000)
def test_cards_with_damaged_values(examples):
    @given(kinds.flatmap(lambda one: st.tuples(st.just(one), damaged_json(plain(one)))))
    def holds(damaged):
        check_value(*damaged)

    examples(holds)()
