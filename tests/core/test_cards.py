"""Persona cards: the shipped ones, and what happens to bad ones."""

from collections import Counter
from itertools import combinations

import pytest
from hostile_cards import persona_folder
from paths import ROOT

from rlver_gym import EmpathySession, EnvCard, HiddenNeed, PersonaLibrary, env_card
from rlver_gym.core.cards import shipped_env_ids
from rlver_gym.core.persona import SPLITS, Disposition, Topic
from rlver_gym.library.personas import library, shipped_personas_folder
from rlver_gym.people.card_check import check_cards
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import CardError, UnknownName
from rlver_gym.util.field_errors import parse_card
from rlver_gym.util.yaml_file import parse_yaml

SITUATION_FILE = "situations/the-old-dog.yaml"
TITLE = "title: The last appointment"


@pytest.fixture
def folder(tmp_path):
    return persona_folder(tmp_path / "mine")


@pytest.mark.parametrize(
    ("file", "entry"),
    [("people/noor", "person 'noor'"), ("situations/the-old-dog", "situation 'the-old-dog'")],
)
def test_a_card_that_is_missing_is_named_with_the_entry_that_asks_for_it(folder, file, entry):
    path = folder / f"{file}.yaml"
    path.unlink()
    with pytest.raises(CardError) as error:
        PersonaLibrary(folder).get("mine")
    assert str(path) in str(error.value)
    assert f"{folder / 'index.yaml'} asks for it: {entry}." in str(error.value)
    assert "Write the card, or correct the index" in str(error.value)


def test_every_shipped_card_is_sound():
    assert check_cards(shipped_personas_folder()) == []


def test_the_splits_have_their_sizes_and_share_nobody():
    shelf = library()
    sizes = {"train": 64, "validation": 12, "test": 24, "demo": 8}
    assert {split: len(shelf.ids(split)) for split in SPLITS} == sizes
    for kind in ("person", "situation"):
        pairings = {split: [shelf.pairings[one] for one in shelf.ids(split)] for split in SPLITS}
        seen = {split: {getattr(one, kind) for one in pairings[split]} for split in SPLITS}
        for one, other in combinations(SPLITS, 2):
            assert not seen[one] & seen[other], (one, other)
        assert sum(map(len, seen.values())) >= 24


def test_needs_and_dispositions_are_balanced():
    people = {split: [*map(library().get, library().ids(split))] for split in SPLITS}
    for split, share in (("train", 8), ("test", 3), ("demo", 1)):
        assert set(Counter(one.need for one in people[split]).values()) == {share}
    assert {one.need for one in people["validation"]} == set(HiddenNeed)
    assert {one.person.disposition for one in people["validation"]} == set(Disposition)
    for split, low, high in (("train", 2, 3), ("test", 1, 1)):
        pairs = Counter((one.need, one.person.disposition) for one in people[split])
        assert len(pairs) == len(HiddenNeed) * len(Disposition)
        assert low <= min(pairs.values()) <= max(pairs.values()) <= high
    told = {topic for each in people.values() for one in each for topic in one.situation.topics}
    assert told == set(Topic)


def test_a_changed_word_changes_the_hash(persona):
    situation = persona.situation.model_copy(update={"title": persona.situation.title + "!"})
    assert persona.model_copy(update={"situation": situation}).hash != persona.hash


def test_a_folder_of_ones_own(folder):
    assert check_cards(folder) == []
    assert PersonaLibrary(folder).get("mine").need == HiddenNeed.PRAISE


def changed(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("title: The last appointment\n", "", "title: add this field"),
        ("title: The last", "titel: The last", "titel: remove this field"),
        ("topics: [health_ageing, siblings]", "topics: [health_ageing, dogs]", "topics.1"),
        ("topics: [health_ageing, siblings]", "topics: 7", "topics"),
        ("depth: 1", "depth: 9", "disclosures.0.depth"),
        ('praise:\n    - "Nob', 'praise:\n    - "I want some praise. Nob', "names the need"),
        ('words: ["slept|sleeping|lay beside"', 'words: ["Slept|sleeping"', "lower-case"),
        ('text: "You slept on the kitchen floor', 'text: "You rested', "does not hit its words"),
        ("id: the-old-dog", "id: another", "Make them equal"),
        ("id: the-stairs", "id: the-tumour", "stands twice"),
        ('high: "It began on the stairs.', 'high: "It be\\u202egan on the stairs.', "U+202E"),
        (TITLE, "title: &t The last appointment", "anchors and aliases"),
        (TITLE, f"{TITLE}\ntitle: Again", "stands here twice"),
        (TITLE, "title: [", "not valid YAML"),
    ],
)
def test_a_bad_situation_names_file_field_and_remedy(folder, old, new, says):
    path = folder / SITUATION_FILE
    changed(path, old, new)
    problems = check_cards(path)
    assert any(says in problem.problem for problem in problems), problems
    assert {problem.file for problem in problems} == {str(path)}
    assert check_cards(folder)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("person: noor", "person: ../../etc/passwd", "person"),
        ("person: noor", "person: nobody", "cannot be read"),
        ("need: praise", "need: money", "need"),
        ("split: demo", "split: later", "split"),
        ("language: en", "tongue: en", "tongue: remove this field"),
    ],
)
def test_a_bad_index_names_what_is_wrong(folder, old, new, says):
    changed(folder / "index.yaml", old, new)
    assert any(says in problem.problem for problem in check_cards(folder)), check_cards(folder)


TWO = "split: demo\n- {{id: two, person: noor, situation: the-old-dog, need: motives, split: {}}}"


def test_unfit_pairs_are_found(folder):
    fits = "fits: {ages: [20, 70], life: []}"
    changed(folder / SITUATION_FILE, fits, "fits: {ages: [40, 70], life: [pupil]}")
    text = " ".join(problem.problem for problem in check_cards(folder))
    assert "is 25, the situation is for 40 to 70" in text
    assert "the situation is for ['pupil']" in text


@pytest.mark.parametrize("other", [split for split in SPLITS if split != "demo"])
def test_a_person_or_a_situation_in_two_splits_is_found(folder, other):
    changed(folder / "index.yaml", "split: demo", TWO.format(other))
    assert [problem.problem for problem in check_cards(folder)] == [
        f"two: the {kind} is in demo and in {other}. A split must not know another's people."
        for kind in ("person 'noor'", "situation 'the-old-dog'")
    ]


def test_unknown_personas_get_near_matches():
    whole = library().ids("demo")[0]
    begin = whole.split("-")[0]
    for name in (whole[:-1], begin):
        with pytest.raises(UnknownName, match=f"Did you mean '{begin}-"):
            library().get(name)
    with pytest.raises(CardError, match="cannot be read"):
        PersonaLibrary("/nowhere")


def test_a_broken_card_is_reported_once_however_often_it_is_paired(folder):
    changed(folder / "index.yaml", "split: demo", TWO.format("demo"))
    person = folder / "people" / "noor.yaml"
    changed(person, "age:", "years:")
    # One field missing, one too many.
    assert sorted(problem.file for problem in check_cards(folder)) == [str(person)] * 2
    person.unlink()
    assert [problem.file for problem in check_cards(folder)] == [str(person)]


def test_a_language_without_a_user_is_refused_plainly(folder):
    changed(folder / "index.yaml", "language: en", "language: zh")
    (problem,) = check_cards(folder)
    assert "but cards are English" in problem.problem
    with pytest.raises(CardError, match="but cards are English"):
        library(str(folder))


@pytest.mark.parametrize("word", ["praised", "compliments", "empathy", "advice"])
def test_what_everybody_is_told_names_no_need(folder, word):
    path, begin = folder / SITUATION_FILE, 'high: "'
    changed(path, f"{begin}It began", f"{begin}There was {word} first. It began")
    assert [problem.problem for problem in check_cards(path)] == [
        f"disclosures.the-stairs: says {word!r}, which names a need. Tell it in other words."
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\na: 2", "Remove one of them"),
        ("!!python/object/apply:os.system ['true']", "tags .* are not allowed"),
        ("1: x", "in quotes"),
        ("a: [", "Quote texts that hold"),
        ("a: &b [x]", "^card.yaml: line 1: YAML anchors and aliases .* Write the value out.$"),
        ("[" * 30, "^card.yaml: line 1: nested deeper than 20 levels. [A-Za-z ]+.$"),
        ("[" * 5000, "^card.yaml: line 1: nested deeper than 20 levels. [A-Za-z ]+.$"),
        ("a: !!set {b}", "^card.yaml: line 1: YAML tags .* are not allowed: remove the tag"),
        ("a: !!binary aGk=", "^card.yaml: line 1: YAML tags"),
        ("a: " + "9" * 5000, "line 1: '9+.* is no number that can be used"),
        ("age: 067", "line 1: '067' is a number in base 8 here. Write 67, or quote it if it is te"),
        ("a: -0_17", "line 1: '-0_17' is a number in base 8 here. Write -17, or quote it"),
        ("start: 1:10", "line 1: '1:10' is a number in base 60 here. Quote it if it is text."),
        ("a: 1:10.5", "line 1: '1:10.5' is a number in base 60 here."),
        ("10:30: I rang.", "line 1: '10:30' is a number in base 60 here."),
        ("yes: I rang.", "line 1: the key 'yes' is not text. Put it in quotes."),
        ("[1]: I rang.", r"line 1: the key '\[1\]' is not text."),
        ("a: .inf", "line 1: '.inf' is no number that can be used"),
        ("a: 1\n---\nb: 2", "line 2: a second document begins here"),
        ("a: " + ":".join(["1"] * 90_000), "is no number that can be used"),
        ("[" + "1," * 100_000 + "]", "card.yaml: "),
        ("a: ! b", "card.yaml: line 1: YAML tags"),
        ('"\\e[31m": 1\n"\\e[31m": 2', "line 2: the key '�\\[31m' stands here twice"),
    ],
)
def test_each_mistake_in_yaml_has_its_own_remedy(text, says):
    with pytest.raises(CardError, match=says) as error:
        parse_yaml(text, "card.yaml")
    assert ("Quote texts that hold" in str(error.value)) == (text == "a: [")


def test_numbers_in_base_ten_are_as_they_are_written():
    assert parse_yaml("[0, -7, 0.5, 10, 1_000, 0x1F]", "card.yaml") == [0, -7, 0.5, 10, 1000, 31]
    assert parse_yaml("'10:30': '067'", "card.yaml") == {"10:30": "067"}


def test_a_date_in_a_card_is_a_text():
    assert parse_yaml("a: 2026-01-01", "card.yaml") == {"a": "2026-01-01"}


def test_what_an_error_quotes_of_a_card_is_cut():
    key = f"? {'k' * 50_000}\n"
    for text in (f"{key}: 1\n{key}: 2", f"a: {'1' * 50_000}.5", "[" + "x, " * 20_000 + "]: 1"):
        with pytest.raises(CardError) as error:
            parse_yaml(text, "card.yaml")
        assert len(str(error.value)) < 300
    fields = {f"field{number}": 1 for number in range(10_000)}
    with pytest.raises(CardError, match=r"more fields are wrong\. Mend these first") as error:
        parse_card(EnvCard, {"k" * 50_000: 1, "id": "x" * 50_000, **fields}, "card.yaml")
    assert len(str(error.value)) < 4000


def test_what_yaml_would_merge_is_an_unknown_field():
    assert parse_yaml("<<: {a: 1}\n=: 2", "card.yaml") == {"<<": {"a": 1}, "=": 2}


def test_an_env_card_in_a_language_that_would_change_nothing_is_refused(tmp_path):
    text = (ROOT / "envs" / "RLVER-Empathy-v0.yaml").read_text("utf-8")
    path = tmp_path / "card.yaml"
    path.write_text(f"{text}\nlanguage: en\n", "utf-8")
    assert env_card(path).hash == env_card("RLVER-Empathy-v0").hash
    path.write_text(f"{text}\nlanguage: zh\n", "utf-8")
    with pytest.raises(CardError, match="language: must be 'en'"):
        env_card(path)


def test_a_wrong_env_card_is_sent_to_the_right_help(tmp_path):
    (tmp_path / "card.yaml").write_text("[1]", encoding="utf-8")
    with pytest.raises(CardError, match="rlver-gym envs show"):
        env_card(tmp_path / "card.yaml")
    (tmp_path / "index.yaml").write_text("[1]", encoding="utf-8")
    with pytest.raises(CardError, match="personas schema index"):
        PersonaLibrary(tmp_path)


def test_shipped_environments_are_pinned_to_the_embedded_user_that_ships_with_them():
    pins = {env_card(name).embedded_user for name in shipped_env_ids()}
    assert pins == {EmbeddedUser().version}


def test_an_environment_refuses_another_version_of_the_embedded_user(persona):
    changed_user = EmbeddedUser()
    changed_user.version = "1000"
    card = env_card("RLVER-Empathy-v0")
    says = r"pinned to version \d+ .* version 1000.*embedded_user out"
    with pytest.raises(CardError, match=says):
        EmpathySession(changed_user, persona, card)
    EmpathySession(changed_user, persona, card.model_copy(update={"embedded_user": ""}))
