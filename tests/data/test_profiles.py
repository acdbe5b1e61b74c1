"""SAGE's and RLVER's own profiles as lean cards, played by both users."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlver_gym.cli import app
from rlver_gym.core.cards import env_card
from rlver_gym.core.library import PersonaLibrary
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.data.profiles import profile_card
from rlver_gym.environment.session import EmpathySession
from rlver_gym.io.errors import CardError, UserFailed
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.users import EmbeddedUser, make_user

SAGE = Path(__file__).parents[3] / "shared" / "data"
SHARED = ("sage/profiles_test.jsonl", "sage-english/simulator_profile_withfirsttalk.en.jsonl")
ENGLISH = {
    "id": "EN_1",
    "player": "* Name: Ren Ito\n* Age: 31\n* Gender: Female\n* Occupation: Baker\n\n* Speaking style:\nShe is brief.",
    "scene": "### Story\n**Cause of the event:**\nRen lost her oven in May. Her brother Jun laughed about it.\n"
    "**Course of events:**\n- **Week 1:** She rang the landlord twice.\n"
    "**Conflict:** Jun thinks that she is careless.\n**Tried solutions:** She has written to Jun.\n"
    "**Current status:** Ren bakes at night in a borrowed kitchen.\n"
    "### Possible reactions in different states\n- **High emotion:** Ren may laugh.\n"
    "#### Hidden theme:\n***You want advice",
    "main_cha": "Passive type",
    "cha_group": ["Calm"],
    "task": "You want advice that can genuinely help you",
    "first_talk": "My oven is gone.",
}
CHINESE = {
    "id": "zh-1",
    "player": "* 姓名：林小雨\n* 年龄：22岁\n* 性别：女性\n* 职业：插画师\n\n* 说话风格：\n轻声细语。",
    "scene": "**事件的起因：**\n她的画被同事拿走了。同事说是自己画的。\n**事件的经过：**\n* 经理表扬了同事。\n"
    "**尝试过的办法：**\n她写了一封邮件。\n**事件的当前状态：**\n她还没有得到答复。\n"
    "**玩家不同状态下可能的反应：**\n* 她会哭。\n####隐藏主题:\n***你希望对方用心倾听你的情绪宣泄",
    "main_cha": "回避型",
    "cha_group": ["内向"],
    "task": "你希望对方用心倾听你的情绪宣泄",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "profiles.jsonl"
    path.write_text("\n".join(map(json.dumps, (ENGLISH, CHINESE))), encoding="utf-8")
    done = CliRunner().invoke(app, ["personas", "import", str(path), str(tmp_path / "cards")])
    assert "2 lean cards" in done.output
    return tmp_path / "cards"


def test_a_profile_tells_its_story_itself(folder: Path) -> None:
    persona = PersonaLibrary(folder).get("profile-en-1")
    situation = persona.situation
    assert persona.need is HiddenNeed.PRACTICAL_ADVICE
    assert [one.what for one in situation.timeline][:3] == [
        "I lost my oven in May.",
        "My brother Jun laughed about it.",
        "I rang the landlord twice.",
    ]
    assert situation.tried == ("I have written to Jun.",)
    assert situation.now == "I bake at night in a borrowed kitchen."
    assert "laugh." not in persona.model_dump_json()


def test_the_embedded_user_plays_english_profiles_and_refuses_chinese_ones(folder: Path) -> None:
    shelf, card = PersonaLibrary(folder), env_card("SAGE-Sentient-v0")
    session = EmpathySession(EmbeddedUser(), shelf.get("profile-en-1"), card)
    assert session.start() == "My oven is gone."
    assert session.reply("When did you lose your oven?").reply.startswith("I lost my oven in May")
    with pytest.raises(UserFailed, match="without lines in English"):
        user, persona = EmbeddedUser(), shelf.get("profile-zh-1")
        chinese = EmpathySession(user, persona, card)
        chinese.start()
        user.speak(chinese.scene, 40, chinese.dialogue.with_utterance("你好"), None)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", ["profile-en-1", "profile-zh-1"])
def test_a_language_model_plays_them_in_their_language(folder: Path, name: str) -> None:
    persona = PersonaLibrary(folder).get(name)
    with ChatServer(EmbeddedAnswers([persona])) as server:
        user = make_user("openai:m", base_url=server.base_url)
        session = EmpathySession(user, persona, env_card("SAGE-Sentient-v0"))
        session.start()
        assert session.reply("真的吗？" if persona.language == "zh" else "Really?").reply
        prompts = [request["messages"][0]["content"] for request in server.requests]
    assert all(persona.situation.cause in prompt for prompt in prompts)
    is_english = ["You are the inner life" in prompt for prompt in prompts]
    assert all(is_english) if persona.language == "en" else not any(is_english)


def test_a_score_says_which_profiles_it_is_of(folder: Path, tmp_path: Path) -> None:
    asked = ["bench", "--agent", "silent", "--seeds", "1", "--personas", str(folder)]
    asked += ["--persona", "profile-en-1", "--out", str(tmp_path / "run")]
    assert f"of {folder}" in CliRunner().invoke(app, asked).output.replace("\n", "")


def test_what_is_no_profile_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(ENGLISH | {"task": "You want cake"}), encoding="utf-8")
    done = CliRunner().invoke(app, ["personas", "import", str(path), str(tmp_path / "out")])
    assert isinstance(done.exception, CardError)
    assert "line 1: the hidden need 'You want cake' is none" in str(done.exception)


@pytest.mark.parametrize("name", SHARED)
def test_the_published_profiles_become_cards(name: str) -> None:
    if not (SAGE / name).is_file():
        pytest.skip("SAGE's profiles are not here")
    lines = (SAGE / name).read_text(encoding="utf-8").splitlines()
    cards = [profile_card(json.loads(line)) for line in lines]
    assert {card.need for card in cards} <= set(HiddenNeed)
    assert not any("emotion" in card.model_dump_json(exclude={"meets"}) for card in cards)
