"""A library: people and stories in files of their own, paired with each other."""

import json
import shutil
from collections import Counter

import gymnasium as gym
import pytest
import yaml
from commands import invoke, invoke_well
from paths import ROOT

from rlver_gym import HiddenNeed, PersonaLibrary
from rlver_gym.people.card_check import check_cards
from rlver_gym.people.pairing import draw_panel
from rlver_gym.users.llm.profile import profile_line
from rlver_gym.users.llm.prompts import words
from rlver_gym.util.errors import CardError

RUTH = ROOT / "examples" / "people" / "ruth-and-the-choir.yaml"
DEV = ROOT / "examples" / "people" / "dev-and-the-van.yaml"
PERSON = "name age gender work disposition traits speaks".split()
STORY = "title timeline people tried now openings facts".split()


def card(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def write(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), encoding="utf-8")


def edit(path, change):
    value = card(path)
    change(value)
    write(path, value)


@pytest.fixture
def folder(tmp_path):
    """Two people and two stories in train, one of each in test."""
    for number, (source, split) in enumerate([(RUTH, "train"), (DEV, "test")]):
        lean = card(source)
        person = {name: lean[name] for name in PERSON} | {"split": split, "life": "employed"}
        write(tmp_path / "people" / f"{lean['name'].lower()}.yaml", person)
        story = {name: lean[name] for name in STORY} | {
            "split": split,
            "topics": ["leisure"],
            "ages": [20, 80],
            "life": ["any"],
            "needs": {lean["need"]: {"hints": lean["hints"], "meets": lean["meets"]}},
        }
        write(tmp_path / "stories" / f"story-{number}.yaml", story)
    quiet = person | {"name": "Ada", "work": "a nurse", "split": "train", "typing": "terse"}
    write(tmp_path / "people" / "ada.yaml", quiet)
    assert pair(tmp_path).exit_code == 0
    return tmp_path


def pair(folder, *arguments):
    return invoke("personas", "pair", folder, *arguments)


def test_a_library_is_paired_within_its_splits_and_plays(folder):
    assert check_cards(folder) == []
    shelf = PersonaLibrary(folder)
    assert shelf.ids("train") == ("ada-story-0", "ruth-story-0")
    assert shelf.ids("test") == ("dev-story-1",)
    env = gym.make("RLVER-Empathy-v0", personas=str(folder), info="privileged")
    _, info = env.reset(seed=0, options={"persona": "ruth-story-0"})
    assert (info["persona"], info["hidden_need"]) == ("ruth-story-0", "deep_empathy")
    assert "second row" in env.step("What do you sing?")[0]


@pytest.mark.slow
def test_the_shipped_library_is_sound_and_balanced():
    shelf = PersonaLibrary("library")
    assert check_cards(shelf.folder) == []
    needs = Counter(pairing.need for pairing in shelf.pairings.values())
    assert set(needs) == set(HiddenNeed)
    assert max(needs.values()) <= 1.2 * min(needs.values())
    people = {name: shelf.lean_person(name) for name in {p.person for p in shelf.pairings.values()}}
    for many in ("disposition", "typing", "gender", "life"):
        assert len({getattr(one, many) for one in people.values()}) > 2
    cards = {*shelf.folder.rglob("*.yaml")} - {shelf.folder / "index.yaml"}
    assert max(len(path.read_text("utf-8").splitlines()) for path in cards) <= 60


def test_the_library_is_asked_for_by_name_in_an_environment_and_a_run(tmp_path):
    env = gym.make("RLVER-Empathy-v0", personas="library", info="privileged")
    _, info = env.reset(seed=0)
    assert info["persona"] in PersonaLibrary("library").pairings
    asked = ["bench", "--personas", "library", "--panel", "2", "--split", "train", "--seeds", "1"]
    asked += ["--agent", "silent", "--out", str(tmp_path / "run")]
    invoke_well(*asked)
    assert "all as recorded" in invoke_well("verify", tmp_path / "run")


def test_people_and_stories_are_read_when_they_are_asked_for(folder):
    (folder / "stories" / "story-1.yaml").write_text("title: [", encoding="utf-8")
    shelf = PersonaLibrary(folder)
    ruth = shelf.get("ruth-story-0").person
    works = "I've a job to go to. I'd rather not talk shop."
    assert (ruth.name, ruth.work) == ("Ruth", works)
    with pytest.raises(CardError, match=r"story-1\.yaml"):
        shelf.get("dev-story-1")


ADA, STORY_0 = "people/ada.yaml", "stories/story-0.yaml"


def add(name, text):
    return lambda story: story["needs"]["deep_empathy"][name].append(text)


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        (ADA, lambda one: one.update(age="old"), "ada.yaml: age: must be a whole"),
        (ADA, lambda one: one.update(typing="fast"), "ada.yaml: typing: must be"),
        (ADA, lambda one: one.update(age=19), "index.yaml: ada-story-0: Ada is 19"),
        (ADA, lambda one: one.update(split="test"), "the person 'ada' is in test"),
        (ADA, lambda one: one.update(name="Dev", work=card(DEV)["work"]), "the same"),
        (STORY_0, lambda one: one.update(life=["student"]), "is for student"),
        (STORY_0, lambda one: one.update(gender="male"), "is for male"),
        (ADA, lambda one: one.update(name="Edda"), "in the story is called Edda"),
        (STORY_0, lambda one: one.update(work=["pilot|nurses"]), "of Ada is 'a nurse', the story"),
        (STORY_0, lambda one: one.update(home=["UK"]), "the home of Ada is ''"),
        (STORY_0, lambda one: one.update(ages=[70, 30]), "ages: [70, 30] must rise"),
        (STORY_0, lambda one: one["facts"].pop() and one.pop("now"), "now: add"),
        (
            STORY_0,
            lambda one: one["facts"].append(card(DEV)["facts"][0]),
            "stands in stories/story-0.yaml too, which is in the split train",
        ),
        (STORY_0, add("hints", "I want some empathy."), "deep_empathy.hints.3: names the need"),
        (STORY_0, add("meets", "It will be all right soon."), "meets.5: says nothing of this"),
    ],
)
def test_what_is_wrong_with_a_library_is_said_with_its_file_and_field(folder, file, change, said):
    edit(folder / file, change)
    assert any(said in str(problem) for problem in check_cards(folder)), check_cards(folder)


def test_a_story_is_lived_by_whose_work_and_home_it_fits(folder):
    edit(folder / "stories" / "story-0.yaml", lambda one: one.update(work=["Nurse|pilot"]))
    edit(folder / "people" / "ada.yaml", lambda one: one.update(home="a flat in Leeds, UK"))
    pair(folder)
    assert PersonaLibrary(folder).ids("train") == ("ada-story-0",)
    edit(folder / "stories" / "story-0.yaml", lambda one: one.update(home=["not farm|flat"]))
    pair(folder)
    assert PersonaLibrary(folder).ids("train") == ()


def test_a_story_told_twice_is_found_within_a_split_too(folder):
    shutil.copy(folder / "stories" / "story-0.yaml", folder / "stories" / "again.yaml")
    edit(folder / "stories" / "again.yaml", lambda one: one.update(title="Another"))
    assert ["tells stories/again.yaml again" in str(one) for one in check_cards(folder)] == [True]


def test_an_index_that_asks_for_what_is_not_there_says_so(folder):
    (folder / "people" / "ada.yaml").unlink()
    (problem,) = check_cards(folder)
    assert "ada-story-0: person: people/ada.yaml is not there" in str(problem)


@pytest.mark.parametrize("part", ["people", "stories"])
def test_a_card_whose_name_ends_in_yml_is_refused_by_name(folder, part):
    (folder / part / "more.yml").write_text("", encoding="utf-8")
    assert f"{folder / part}: cards in a folder end in .yaml. Rename more.yml." in str(
        check_cards(folder)[0]
    )
    assert "Rename more.yml." in str(pair(folder).exception)


def test_one_file_of_a_library_is_checked_as_what_it_is(folder):
    assert check_cards(folder / "people" / "ada.yaml") == []
    assert check_cards(folder / "stories" / "story-0.yaml") == []
    edit(folder / "stories" / "story-0.yaml", lambda one: one.pop("facts"))
    assert "facts: add this field" in str(check_cards(folder / "stories" / "story-0.yaml")[0])


def test_pairing_needs_people_and_stories_and_says_so(tmp_path):
    done = pair(tmp_path)
    assert done.exit_code == 2 or done.exception is not None
    assert "needs people/*.yaml and stories/*.yaml" in str(done.exception)


@pytest.mark.parametrize(
    ("person", "story"),
    [("ada", "1989"), ("1", "yes"), ("a" * 30, "b" * 30), ("a" * 51, "b"), ("a" * 60, "b" * 60)],
)
def test_every_name_that_can_be_an_id_can_be_paired(folder, person, story):
    (folder / "people" / "ada.yaml").rename(folder / "people" / f"{person}.yaml")
    (folder / "stories" / "story-0.yaml").rename(folder / "stories" / f"{story}.yaml")
    assert pair(folder).exit_code == 0
    assert check_cards(folder) == []
    shelf = PersonaLibrary(folder)
    assert (person, story) in {(one.person, one.situation) for one in shelf.pairings.values()}
    assert len({shelf.get(one).person.name for one in shelf.ids("train")}) == 2


def test_pairs_whose_names_run_together_alike_have_ids_of_their_own(folder):
    shutil.copy(folder / "people" / "ada.yaml", folder / "people" / "ruth-story.yaml")
    edit(folder / "people" / "ruth-story.yaml", lambda one: one.update(name="Bo", work="a cook"))
    shutil.copy(folder / "stories" / "story-0.yaml", folder / "stories" / "0.yaml")
    assert pair(folder).exit_code == 0
    assert len(PersonaLibrary(folder).ids("train")) == 6


NOBODY = "nobody may have lived any of its stories"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda at: (at / "people/ada.yaml").rename(at / "people/Ada.yaml"), "lower-case letters"),
        (lambda at: edit(at / STORY_0, lambda one: one.update(ages=[90, 99])), NOBODY),
        (lambda at: shutil.copy(at / STORY_0, at / f"stories/{'b' * 61}.yaml"), "lower-case"),
    ],
)
def test_what_cannot_be_paired_leaves_the_index_as_it_was(folder, change, says):
    (folder / "people" / "dev.yaml").unlink()
    before = (folder / "index.yaml").read_text(encoding="utf-8")
    change(folder)
    done = pair(folder)
    assert isinstance(done.exception, CardError)
    assert says in str(done.exception)
    assert (folder / "index.yaml").read_text(encoding="utf-8") == before


def test_a_need_that_the_story_has_nothing_for_is_an_error_in_words(folder):
    index = folder / "index.yaml"
    text = index.read_text(encoding="utf-8").replace("need: deep_empathy", "need: praise")
    index.write_text(text, encoding="utf-8")
    with pytest.raises(CardError, match=r"has nothing for the need 'praise'\. It has deep_empathy"):
        PersonaLibrary(folder).get("ada-story-0")
    assert "has nothing for 'praise'" in str(check_cards(folder)[0])


def test_a_panel_is_balanced_and_always_the_same():
    shelf = PersonaLibrary()
    panel = draw_panel(shelf, "train", 16)
    assert draw_panel(PersonaLibrary(), "train", 16) == panel
    needs = Counter(shelf.pairings[one].need for one in panel)
    assert set(needs) == set(HiddenNeed)
    assert max(needs.values()) <= 3
    assert max(Counter(shelf.pairings[one].person for one in panel).values()) <= 2
    with pytest.raises(CardError, match="Ask for fewer"):
        draw_panel(shelf, "test", 25)
    listed = invoke_well("personas", "list", "--panel", 2, "--need", "praise", "--json")
    assert [one["need"] for one in json.loads(listed)] == ["praise"] * 2


@pytest.mark.parametrize(
    ("typing", "said"),
    [
        ("plain", "I sing alto, second row, third from the left. Julian is"),
        ("quick", "i sing alto, second row, third from the left\nJulian is"),
    ],
)
def test_people_type_as_their_card_says(folder, typing, said):
    edit(folder / "people" / "ruth.yaml", lambda one: one.update(typing=typing))
    env = gym.make("RLVER-Empathy-v0", personas=str(folder), persona="ruth-story-0")
    env.reset(seed=0)
    assert env.step("What do you sing? How old is Julian?")[0].startswith(said)


def test_who_types_tersely_says_little_and_nothing_twice(folder):
    env = gym.make("RLVER-Empathy-v0", personas=str(folder), persona="ada-story-0")
    lines = [env.reset(seed=3)[0]]
    for asked in ("What happened?", "And then?", "Go on.", "Tell me more.", "How is Edda?"):
        lines.append(env.step(asked)[0])
    assert len(set(lines)) == len(lines)
    assert not any(line.endswith(".") for line in lines)
    assert sum(len(line.split()) for line in lines) / len(lines) < 12


def test_a_language_model_is_told_how_somebody_types(folder):
    ada = profile_line(PersonaLibrary(folder).get("ada-story-0"), words("en"))
    ruth = profile_line(PersonaLibrary(folder).get("ruth-story-0"), words("en"))
    assert "a few words at a time" in ada
    assert "a few words at a time" not in ruth
