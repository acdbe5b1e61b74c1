"""Lean cards: a person and a situation in one short file."""

import random
import re

import gymnasium as gym
import pytest
import yaml
from paths import ROOT

from rlver_gym import Dialogue, HiddenNeed, PersonaLibrary
from rlver_gym.core.persona import Manner
from rlver_gym.library.lean import TEMPLATE
from rlver_gym.library.personas import shipped_personas_folder
from rlver_gym.library.sentences import make_anchor_word_groups
from rlver_gym.people.card_check import check_cards
from rlver_gym.users.embedded.compile import compile_card
from rlver_gym.users.llm.material import select_material
from rlver_gym.users.llm.profile import profile_line
from rlver_gym.users.llm.prompts import words
from rlver_gym.util.errors import CardError

EXAMPLES = ROOT / "examples" / "people"
RUTH = EXAMPLES / "ruth-and-the-choir.yaml"


def talk(persona, *utterances, personas=EXAMPLES, **options):
    """What the person says, the opening first."""
    env = gym.make("RLVER-Empathy-v0", persona=persona, personas=str(personas), **options)
    lines = [env.reset(seed=1)[0]]
    for one in utterances:
        observation, _, terminated, _, _ = env.step(one)
        lines.append(observation)
        if terminated:
            break
    return lines


@pytest.fixture
def card():
    return yaml.safe_load(RUTH.read_text(encoding="utf-8"))


def write(path, card):
    path.write_text(yaml.safe_dump(card, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def test_the_examples_are_sound_and_have_at_most_sixty_lines():
    assert check_cards(EXAMPLES) == []
    for path in (*EXAMPLES.glob("*.yaml"), TEMPLATE):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.parametrize(
    ("persona", "question", "says"),
    [
        ("ruth-and-the-choir", "Who is Edda?", "my best friend"),
        ("ruth-and-the-choir", "Where do you rehearse?", "in the church hall"),
        ("ruth-and-the-choir", "When did Arthur die?", "six years ago"),
        ("ruth-and-the-choir", "How old is Julian?", "thirty-four"),
        ("ruth-and-the-choir", "Why haven't you told your daughter?", "she would ring Julian"),
        ("ruth-and-the-choir", "What do you sing?", "alto"),
        ("ruth-and-the-choir", "How old are you?", "67"),
        ("ruth-and-the-choir", "What have you tried?", "polite card"),
        ("dev-and-the-van", "How many bookings do you have?", "nine bookings"),
        ("dev-and-the-van", "What did Callum say?", "no choice"),
        ("dev-and-the-van", "How did it start?", "bought a van together"),
    ],
)
def test_a_question_is_answered_with_the_fact_that_it_asks_for(persona, question, says):
    assert says in talk(persona, question)[1]


@pytest.fixture
def ed(card):
    """A card with a name that begins another and stands in a word of its sentences."""
    card["people"]["Ed"] = "my brother, who came with Edda once (he)"
    card["facts"].append("Ed said that I should let it go.")
    card["facts"].append("Editors are not what a choir needs.")
    return card


def test_a_name_is_not_found_inside_another_word(ed, tmp_path):
    path = write(tmp_path / "ruth.yaml", ed)
    situation = PersonaLibrary(path).get("ruth").situation
    (other,) = (one for one in situation.people if one.name == "Ed")
    assert other.introduction == "my brother Ed"
    assert situation.about_people["Ed"]["like"] == ("Ed said that I should let it go.",)
    about = {fact.answers[0]: fact.about for fact in situation.facts}
    assert "Ed" in about["Ed said that I should let it go."]
    assert not any("Ed" in told for line, told in about.items() if "Ed " not in line)
    (editors,) = (fact for fact in situation.facts if "Editors" in fact.answers[0])
    assert not any(asked.startswith("Who") for asked in editors.asked)
    topics = compile_card(PersonaLibrary(path).get("ruth")).topics
    assert any("Edda" in topic.lines[0] and topic.whom == "Edda" for topic in topics)
    assert "let it go" in talk("ruth", "What did Ed say?", personas=path)[1]


@pytest.mark.parametrize(
    ("mark", "pronoun"),
    [
        ("(she/her)", "she"),
        ("(He/Him)", "he"),
        ("(they/them)", "they"),
        ("(her)", "she"),
        ("(him)", "he"),
        ("(them/they)", "they"),
    ],
)
def test_pronouns_are_known_however_they_are_marked_and_never_said(card, tmp_path, mark, pronoun):
    card["people"]["Kit"] = f"my friend from school {mark}"
    situation = PersonaLibrary(write(tmp_path / "ruth.yaml", card)).get("ruth").situation
    assert {one.name: one.pronoun for one in situation.people}["Kit"] == pronoun
    assert "(" not in str([other.who for other in situation.people])
    assert mark not in situation.model_dump_json()


def test_asked_for_nothing_they_tell_their_story_in_its_order(card):
    said = " ".join(talk("ruth-and-the-choir", *["Go on."] * 6, "Go on, please.", "I'm here."))
    places = [said.find(line.split(",")[0]) for line in card["timeline"].values()]
    told = [place for place in places if place >= 0]
    assert len(told) >= 3
    assert told == sorted(told)
    assert places[: len(told)] == told


def test_what_meets_the_need_lifts_them_and_commonplaces_do_not(card):
    def final(*utterances):
        options = {"persona": RUTH.stem, "personas": str(RUTH), "info": "privileged"}
        env = gym.make("RLVER-Empathy-v0", **options)
        env.reset(seed=1)
        return [env.step(one)[4]["emotion"] for one in utterances][-1]

    commonplaces = ["Stay positive.", "Time heals all wounds.", "You should keep busy."]
    assert final(*card["meets"][:3]) >= final(*commonplaces) + 15


def test_an_anchor_needs_a_word_of_the_story_and_one_of_the_thought():
    told, names = {"choir", "list", "typed"}, {"edda"}
    groups = make_anchor_word_groups("Edda's list must feel humiliating.", told, names)
    assert groups == ("list", "humiliating")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"age": "young"}, "line 2: age: must be a whole number (found 'young')"),
        ({"tittle": "x"}, "remove this field, or correct its name. Did you mean 'title'?"),
        ({"need": "empathy"}, "need: must be 'not_at_fault'"),
        ({"facts": ["One."]}, "facts: has too few entries (at least 5)"),
        ({"hints": ["I want empathy."]}, "hints.0: names the need ('empathy')"),
        ({"now": "I wait for <what>."}, "now: holds the template's <…>"),
        ({"traits": ["calm", "<another>"]}, "traits.1: holds the template's <…>"),
        ({"speaks": "<how they talk or type>"}, "speaks: holds the template's <…>"),
        ({"tried": ["She did not answer."]}, "tried.0: begins with 'She'"),
        ({"meets": ["It will pass.", "Cheer up.", "All is well."]}, "it would suit anyone"),
        ({"title": "a\u202eb"}, "the character U+202E is not allowed"),
    ],
)
def test_each_fault_is_named_with_its_field_and_remedy(card, tmp_path, change, says):
    path = write(tmp_path / "mine.yaml", card | change)
    problems = "\n".join(map(str, check_cards(path)))
    assert str(path) in problems
    assert says in problems


def test_a_name_that_can_be_no_id_is_refused(card, tmp_path):
    with pytest.raises(CardError, match="lower-case letters"):
        PersonaLibrary(write(tmp_path / "My Card.yaml", card))


def test_a_card_whose_name_ends_in_yml_is_refused_by_name_in_a_folder(card, tmp_path):
    path = write(tmp_path / "mine.yml", card)
    assert PersonaLibrary(path).ids() == ("mine",)
    write(tmp_path / "other.yaml", card)
    says = f"{tmp_path}: cards in a folder end in .yaml. Rename mine.yml."
    assert list(map(str, check_cards(tmp_path))) == [says]
    with pytest.raises(CardError, match=r"Rename mine\.yml"):
        PersonaLibrary(tmp_path)


def test_without_a_split_they_are_in_each_and_with_one_in_that(card, tmp_path):
    write(tmp_path / "anywhere.yaml", card)
    assert PersonaLibrary(tmp_path).ids("test") == PersonaLibrary(tmp_path).ids("train")
    write(tmp_path / "trained.yaml", card | {"split": "train"})
    assert PersonaLibrary(tmp_path).ids("test") == ("anywhere",)
    write(tmp_path / "tested.yaml", card | {"split": "test"})
    problems = "\n".join(map(str, check_cards(tmp_path)))
    assert "anywhere.yaml: split: others here name one" in problems
    assert "A split must not know another's people" in problems


def test_a_split_that_nobody_is_in_is_answered_with_the_file_and_the_split_to_take(card, tmp_path):
    path = write(tmp_path / "ruth.yaml", card | {"split": "demo"})
    for place in (path, tmp_path):
        says = f"{place}: has no persona of split 'train'. Choose split=\"demo\"."
        with pytest.raises(CardError, match=f"^{re.escape(says)}$"):
            gym.make("RLVER-Empathy-v0", personas=str(place))
        gym.make("RLVER-Empathy-v0", personas=str(place), split="demo")


def test_a_lean_card_grows_by_what_rich_cards_have(card, tmp_path):
    more = {
        "answers": {"sleep": ["Four hours, with the radio on."]},
        "manner": {"goodbye_content": ["God bless, and thank you. Goodbye."]},
    }
    path = write(tmp_path / "ruth.yaml", card | {"more": more})
    assert "radio" in talk("ruth", "How are you sleeping?", personas=path)[1]
    assert check_cards(path) == []
    path = write(path, card | {"more": {"manner": {"helo": ["Hi."]}}})
    assert "'helo'" in str(check_cards(path)[0])


def fact(**changes):
    asked = ["Where is it?", "What place is it?", "Which hall is it?"]
    said = ["In the hall.", "It is in the church hall."]
    return {"id": "place", "about": ["hall"], "asked": asked, "answers": said, **changes}


def anchor(name, text="Edda typed the seating list herself."):
    return {"id": name, "text": text, "words": ["edda|seating", "typed|list"]}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"answers": {"sleep": ["I want advice."]}}, "more.answers.sleep.0: says 'advice', which"),
        ({"manner": {"greets": ["Give me praise."]}}, "more.manner.greets.0: says 'praise', which"),
        ({"threads": [{"about": ["hall"], "lines": ["Some empathy."]}]}, "threads.0.lines.0: says"),
        ({"answers": {"sleep": ["<how they sleep>"]}}, "more.answers.sleep.0: holds the template"),
        ({"suggestions": [{"to": ["<what>"], "reply": ["No."]}]}, "more.suggestions.0.to.0: holds"),
        ({"facts": [fact(after=["nothing"])]}, "more.facts: place.after: there is no other fact"),
        ({"facts": [fact(key=["kitchen"])]}, "more.facts: place.key: no answer holds any of"),
        ({"facts": [fact(), fact()]}, "more.facts: the id 'place' stands 2 times"),
        *(
            ({"facts": [fact(id=name)]}, f"more.facts.0.id: {name!r} is the id of another")
            for name in ("fact-1", "who-1", "my-work", "story-1")
        ),
        (
            {"anchors": {"unspoken": [anchor("meets-0")]}},
            "more.anchors.unspoken.0.id: 'meets",
        ),
        ({"anchors": {"deeds": [anchor("tried-0")]}}, "more.anchors.deeds.0.id: 'tried-0' is"),
        ({"anchors": {"motives": [anchor("a"), anchor("a")]}}, "motives.0.id: 'a' is"),
        ({"anchors": {"motives": [anchor("a", "She was fair.")]}}, "more.anchors.motives: a: its"),
    ],
)
def test_what_a_lean_card_says_beside_is_checked_too(card, tmp_path, more, says):
    (problem, *_) = problems = check_cards(write(tmp_path / "ruth.yaml", card | {"more": more}))
    assert says in str(problem), problems
    assert all(": more." in str(one) for one in problems), problems


def test_what_a_lean_card_says_beside_may_build_on_its_own_sentences(card, tmp_path):
    more = {
        "facts": [fact(after=["story-1", "fact-1", "my-work"])],
        "anchors": {"motives": [anchor("a"), anchor("meets-0", "Julian wants a quiet life.")]},
        "manner": {"goodbye_content": ["That is high praise. Goodbye."]},
    }
    more["anchors"]["motives"][1]["words"] = ["julian", "quiet|life"]
    assert check_cards(write(tmp_path / "ruth.yaml", card | {"more": more})) == []


def test_lines_of_marks_and_names_of_other_letters_can_be_played(card, tmp_path):
    card["timeline"]["then"] = card["tried"][0] = card["now"] = "..."
    card["people"]["Олег"] = "my brother, who is older"
    card["openings"] = {"normal": "...", "low": "Олег came by.", "high": "Hello."}
    path = write(tmp_path / "ruth.yaml", card)
    for seed in range(4):
        env = gym.make("RLVER-Empathy-v0", persona="ruth", personas=str(path))
        env.reset(seed=seed)
        for said in ("What do you mean?", "Who is Олег?", "And then?", "What happens now?"):
            assert env.step(said)[0]


def test_an_expanded_card_has_all_that_a_talk_needs():
    persona = PersonaLibrary(RUTH).get(RUTH.stem)
    manner = Manner.model_fields.keys() - {"openers", "tags"}
    assert all(getattr(persona.person.manner, name) for name in manner)
    assert all(persona.situation.hints.of(need) for need in HiddenNeed)
    assert persona.hash == PersonaLibrary(EXAMPLES).get(RUTH.stem).hash
    assert PersonaLibrary(RUTH).get(f"{RUTH.stem}/praise").need is HiddenNeed.PRAISE


@pytest.mark.parametrize("seed", range(8))
def test_whatever_a_card_says_can_be_played_or_is_refused(card, tmp_path, seed):
    """Texts without words, in other scripts, of one character, very long, like markup."""
    rng = random.Random(seed)
    odd = ["…", "??", "你好吗", "a", "I.", "[x](y) {0} %s", "w" * 600, "<b>", "you you you", "I we"]
    for field in ("facts", "tried", "meets", "hints"):
        card[field] = [rng.choice(odd) for _ in card[field]]
    card["timeline"] = {f"{at} {rng.choice(odd)}": rng.choice(odd) for at in range(4)}
    card["people"] = {rng.choice(odd): rng.choice(odd), "Al": "my"}
    path = write(tmp_path / "odd.yaml", card)
    check_cards(path)
    try:
        talk("odd", "What happened?", "Who is Al?", "Go on.", "", personas=path)
    except CardError:
        return


def test_no_shared_line_stands_twice():
    """In one person: whatever their disposition."""
    path = shipped_personas_folder().parent / "lean" / "lines.yaml"
    shared = yaml.safe_load(path.read_text(encoding="utf-8"))
    common = shared.pop("common")
    for own in shared.values():
        parts = [of[part] for part in ("manner", "answers") for of in (common, own) if part in of]
        lines = [line for part in parts for each in part.values() for line in each]
        long = [line for line in lines if line.count(" ") > 2]
        assert sorted(long) == sorted(set(long))


def test_a_language_model_is_told_the_story_and_the_facts_that_were_asked_for():
    persona = PersonaLibrary(RUTH).get(RUTH.stem)
    profile = profile_line(persona, words("en"))
    assert "The Christmas concert" in profile
    assert "my best friend" in profile
    dialogue = Dialogue(persona.situation.openings.normal, (), "When did Arthur die?")
    assert "six years ago" in str(select_material(persona, dialogue, 2).facts)
