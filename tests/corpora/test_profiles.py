"""SAGE's and RLVER's own profiles: as they are for LLM users, as lean cards for all."""

import json
from pathlib import Path

import pytest
from commands import invoke
from json_files import read_lines, write_lines
from paths import DATA

from rlver_gym import EmpathySession, HiddenNeed, PersonaLibrary, env_card, make_user
from rlver_gym.people.lean_profiles import convert_profile_to_lean_card
from rlver_gym.testing import ChatServer
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import CardError

SHARED = Path(__file__).parents[3] / "shared" / "data"
CARD = env_card("SAGE-Sentient-v0")
ANSWER = {
    "meant_for": "person", "reading": "…", "fit": "…", "thought": "嗯", "feeling": "calm",
    "change": 2, "reply": "嗯。",
}  # fmt: skip
ENGLISH, CHINESE = read_lines(DATA / "profiles.jsonl")


def write(path, *profiles):
    write_lines(path, profiles)
    return path


@pytest.fixture
def profiles(tmp_path):
    return write(tmp_path / "profiles.jsonl", ENGLISH, CHINESE)


@pytest.fixture
def cards(tmp_path):
    source, folder = write(tmp_path / "english.jsonl", ENGLISH), tmp_path / "cards"
    assert invoke("personas", "import", source, folder).output.endswith("cards: 1 lean card\n")
    return folder


def test_a_lean_card_of_a_profile_tells_its_story_itself(cards):
    persona = PersonaLibrary(cards).get("profile-en-1")
    situation = persona.situation
    assert persona.need is HiddenNeed.PRACTICAL_ADVICE
    told = {one.what for one in situation.timeline} | {fact.answers[0] for fact in situation.facts}
    assert told >= {
        "I lost my oven in May.",
        "My brother Jun laughed about it.",
        "I often bake bread.",
        "Jun made me feel small.",
        "He is away.",
    }
    assert situation.tried == ("I have written to Jun.",)
    assert situation.now == "I bake at night in a borrowed kitchen."
    assert "Jun thinks that you are careless." in str(situation.anchors)
    assert "laugh." not in persona.model_dump_json()


def test_the_embedded_user_plays_the_lean_card(cards):
    session = EmpathySession(EmbeddedUser(), PersonaLibrary(cards).get("profile-en-1"), CARD)
    assert session.start() == "My oven is gone."
    assert session.reply("When did you lose your oven?").reply.startswith("I lost my oven in May")


@pytest.mark.parametrize(
    ("name", "remedy"), [("en-1", "personas import"), ("zh-1", "for LLM users and replay")]
)
def test_the_embedded_user_says_who_plays_a_profile_as_it_is(profiles, name, remedy):
    session = EmpathySession(EmbeddedUser(), PersonaLibrary(profiles).get(name), CARD)
    session.start()
    turn = session.reply("How was that for you?")
    assert remedy in turn.appraisal.reasons[0].note


@pytest.mark.parametrize("name", ["en-1", "zh-1", "zh-1/praise"])
def test_a_language_model_plays_profiles_as_they_are(profiles, name):
    persona = PersonaLibrary(profiles).get(name)
    with ChatServer(lambda body: json.dumps(ANSWER)) as server:
        session = EmpathySession(make_user("openai:m", base_url=server.base_url), persona, CARD)
        session.start()
        assert session.reply("?").reply == "嗯。"
        prompts = [request["messages"][0]["content"] for request in server.requests]
    story = json.dumps(persona.situation.cause, ensure_ascii=False)
    assert persona.language == name[:2]
    assert all(story in prompt for prompt in prompts)
    assert all(("心" in prompt.split(story)[0]) == (persona.language == "zh") for prompt in prompts)


def test_a_score_says_which_profiles_it_is_of(cards, tmp_path):
    out = tmp_path / "run"
    asked = f"bench --agent silent --seeds 1 --personas {cards} --out {out}".split()
    assert "1 persona of cards x 1 seed" in invoke(*asked).output
    assert json.loads((out / "manifest.json").read_text("utf-8"))["persona_folder"] == str(cards)


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        (ENGLISH | {"task": "You want cake"}, "line 1: the hidden need 'You want cake' is none"),
        (ENGLISH | {"id": "Ren/1"}, "id: "),
        (ENGLISH | {"language": "xx"}, "language: "),
    ],
)
def test_what_is_no_profile_is_named(tmp_path, profile, problem):
    with pytest.raises(CardError, match=problem):
        PersonaLibrary(write(tmp_path / "p.jsonl", profile))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{0}\n{0}\n", "line 2: the id 'en-1' stands twice. Remove one of the lines."),
        ("", "holds no profiles."),
        ("\n \n", "holds no profiles."),
    ],
)
def test_a_file_that_would_lose_people_or_has_none_is_refused(tmp_path, text, problem):
    path = tmp_path / "p.jsonl"
    path.write_text(text.format(json.dumps(ENGLISH)), encoding="utf-8")
    with pytest.raises(CardError, match=problem):
        PersonaLibrary(path)


def test_blank_lines_of_a_file_of_profiles_are_passed_over(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(f"\n{json.dumps(ENGLISH)}\n\n{json.dumps(CHINESE)}\n \n", encoding="utf-8")
    assert len(PersonaLibrary(path).ids()) == 2


@pytest.mark.parametrize("profile", [CHINESE, ENGLISH | {"language": "zh"}])
def test_a_profile_in_another_language_makes_no_lean_card(profile):
    with pytest.raises(CardError, match="'zh', which is for LLM users and replay alone"):
        convert_profile_to_lean_card(profile)


@pytest.mark.parametrize("name", ["sage/profiles_test", "sage/profiles_train"])
def test_the_published_profiles_can_be_read(name):
    if not (path := SHARED / f"{name}.jsonl").is_file():
        pytest.skip("SAGE's profiles are not here")
    people = PersonaLibrary(path)
    assert {people.get(one).language for one in people.ids()} == {"zh"}


def test_the_published_english_profiles_become_cards():
    path = SHARED / "sage-english" / "simulator_profile_withfirsttalk.en.jsonl"
    if not path.is_file():
        pytest.skip("SAGE's profiles are not here")
    lines = path.read_text(encoding="utf-8").splitlines()
    texts = [convert_profile_to_lean_card(json.loads(line)).model_dump_json() for line in lines]
    assert not any("NPC" in text or "hidden theme" in text.lower() for text in texts)


def _import(folder, *profiles):
    source = write(folder / "profiles.jsonl", *profiles)
    done = invoke("personas", "import", source, folder / "a" / "cards")
    there = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.yaml"))
    return done.exit_code, f"{done.output}{done.exception}", there


@pytest.mark.parametrize(
    "ids",
    [
        ["/../../x"],
        ["../x", "..", ".", "/", "\\..\\x"],
        ["same-begin-1", "same-begin-2", "same-begin-3"],
        ["ABC", "abc", "a b c", "a-b-c"],
        ["张三", "李四", "x" * 199, "x" * 200],
        ["a\x00b", "a\nb", "~root", "$HOME", "a\ufeff"],
    ],
)
def test_every_profile_becomes_a_card_of_its_own_inside_the_folder(tmp_path, ids):
    code, said, there = _import(tmp_path, *({**ENGLISH, "id": one} for one in ids))
    assert code == 0, said
    assert len(there) == len({name.casefold() for name in there}) == len(ids)
    assert all(name.startswith("a/cards/profile-") for name in there)
    assert len(PersonaLibrary(tmp_path / "a" / "cards").ids()) == len(ids)


def test_an_import_overwrites_no_card_and_writes_all_or_none(tmp_path):
    other = {**ENGLISH, "id": "en-2"}
    assert _import(tmp_path, other)[0] == _import(tmp_path, other)[0] == 0
    card = tmp_path / "a" / "cards" / "profile-en-2.yaml"
    card.write_text(mine := f"# mine\n{card.read_text(encoding='utf-8')}", encoding="utf-8")
    code, said, there = _import(tmp_path, ENGLISH, other)
    assert code != 0
    assert "another card is there" in said
    assert there == ["a/cards/profile-en-2.yaml"]
    assert card.read_text(encoding="utf-8") == mine
    code, said, _ = _import(tmp_path, ENGLISH, ENGLISH)
    assert "line 2: the id 'en-1' stands twice" in said
