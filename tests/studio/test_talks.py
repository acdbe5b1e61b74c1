"""Talks are sessions, and what somebody in need says and feels is kept."""

import importlib
import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from paths import ROOT
from studios import KIND, Client, start_studio

from rlver_gym import EmpathySession, Message, RlverError, env_card, make_user
from rlver_gym.environment.episode import Episode
from rlver_gym.library.personas import library
from rlver_gym.llm_client.settings import Budget, ChatSettings
from rlver_gym.testing import ChatServer

ENV, WHO = "RLVER-Empathy-v0", "gus-the-flatmate"
CARD = "examples/people/ruth-and-the-choir.yaml"
WORDS = ("That sounds lonely.", "What happened then?", "You carried that well.")


def test_a_talk_is_a_session_and_its_file_a_record_of_it(shared):
    session = EmpathySession(make_user("embedded"), library().get(WHO), env_card(ENV), 3)
    talk = shared.post("talk", env=ENV, persona=WHO, seed=3)
    assert talk["opening"] == session.start()
    for words in WORDS:
        session.reply(words)
        talk = shared.post("say", talk=talk["id"], words=words)
    assert [turn["emotion"] for turn in talk["turns"]] == [
        turn.emotion for turn in session.dialogue.turns
    ]
    line = shared.get("record", talk=talk["id"])["line"]
    assert line == Episode.of(session, "human").to_json()


def test_what_was_undone_was_never_said(shared):
    talk = shared.post("talk", env=ENV, persona=WHO)
    first = shared.post("say", talk=talk["id"], words=WORDS[0])
    shared.post("say", talk=talk["id"], words="Stop whining.")
    assert shared.post("undo", talk=talk["id"]) == first
    again = shared.post("say", talk=talk["id"], words=WORDS[1])
    plain = shared.post("talk", env=ENV, persona=WHO)
    for words in WORDS[:2]:
        plain = shared.post("say", talk=plain["id"], words=words)
    assert {**again, "id": ""} == {**plain, "id": ""}


def test_a_hint_says_nothing(shared):
    talk = shared.post("talk", env=ENV, persona=WHO)
    assert shared.post("hint", talk=talk["id"], agent="adaptive")["words"]
    assert shared.post("undo", talk=talk["id"]) == talk


def test_a_talk_needs_somebody_who_is_here(shared):
    whole = {"env": ENV, "persona": WHO}
    wrong = {"env": ["/etc/passwd.yaml", "RLVER-Strategy-v0"], "persona": ["nobody", "../index"]}
    for name, values in (wrong | {"seed": [-1], "card": ["name: [\n"]}).items():
        assert all(shared.refusal("talk", **whole | {name: value}) for value in values)


def test_a_card_is_checked_line_by_line_and_can_be_talked_to(shared):
    card = shared.get("template")["card"]
    problems = shared.post("check", card=card)
    assert {one["line"] for one in problems} > {14, 15}
    assert all(one["remedy"] and "/" not in one["field"] for one in problems)
    (broken,) = shared.post("check", card="name: [\n")
    assert broken["line"] == 2
    named = [one for one in shared.post("check", card="nane: Ruth\n") if one["field"] == "nane"]
    assert [(one["line"], "name" in one["remedy"]) for one in named] == [(1, True)]
    whole = (ROOT / CARD).read_text(encoding="utf-8")
    assert shared.post("check", card=whole) == []
    assert shared.post("talk", env=ENV, card=whole)["opening"] in whole


def test_who_is_in_need_rates_each_reply_and_it_is_kept(studio):
    talk = studio.post("confide", rater="Ann", agent=KIND, words="My dog died.")
    assert "rate" in studio.refusal("confide-say", talk=talk["id"], words="He was old.")
    studio.post("confide-rate", talk=talk["id"], change=-3)
    studio.post("confide-rate", talk=talk["id"], change=4)
    studio.post("confide-say", talk=talk["id"], words="He was old.")
    *_, unrated = (studio.out / "dialogues.jsonl").read_text().splitlines()
    assert json.loads(unrated)["said"] == ["My dog died.", "He was old."]
    talk = studio.post("confide-rate", talk=talk["id"], change=-10)
    assert talk["line"] == [40, 44, 34]
    lines = [json.loads(one) for one in (studio.out / "ratings.jsonl").read_text().splitlines()]
    assert [(one["turn"], one["change"]) for one in lines] == [(1, -3), (1, 4), (2, -10)]
    assert {one["kind"] for one in lines} == {"first_person"}
    assert {(one["dialogue"], one["rater"]) for one in lines} == {(talk["key"], "Ann")}
    *_, last = (studio.out / "dialogues.jsonl").read_text().splitlines()
    assert json.loads(last)["said"] == ["My dog died.", "He was old."]
    assert len(json.loads(last)["replies"]) == 2


def test_nobody_supports_without_words_a_name_and_an_honest_agent(shared):
    whole = {"rater": "Ann", "agent": KIND, "words": "My dog died."}
    wrong = {"agent": ["oracle", "listener", "openai:gpt"], "words": ["  \n"]}
    for name, values in (wrong | {"rater": ["", "a/b", "a\u202eb", "x" * 61]}).items():
        assert all(shared.refusal("confide", **whole | {name: value}) for value in values)
    assert not shared.out.exists()


@pytest.mark.parametrize("name", ["nobody", "human", "openai:", "no.such.module:Agent"])
def test_an_agent_that_cannot_reply_is_refused_when_the_studio_is_started(tmp_path, name):
    with pytest.raises(RlverError):
        start_studio([], tmp_path, agents=(name,))


def test_an_agent_that_the_studio_was_started_with_reads_and_no_page_names_another(
    tmp_path, monkeypatch
):
    with ChatServer("I hear you.") as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        with start_studio([], tmp_path, agents=("openai:m",)) as server:
            studio = Client(server, tmp_path, tmp_path)
            assert studio.get("overview")["named"] == ["openai:m"]
            whole = {"rater": "Ann", "words": "My dog died."}
            assert studio.post("confide", agent="openai:m", **whole)["replies"] == ["I hear you."]
            assert "openai:m" in studio.refusal("confide", agent="openai:other", **whole)
            talk = studio.post("talk", env=ENV, persona=WHO)["id"]
            assert studio.post("hint", talk=talk, agent="openai:m")["words"] == "I hear you."


FAULTS = """
import time

class Broken:
    def reply(self, messages):
        raise KeyError("nothing")

class Slow:
    def reply(self, messages):
        time.sleep(60)

class Silent:
    def reply(self, messages):
        return None
"""


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Broken", "agent faulty_agents:Broken: KeyError: 'nothing'"),
        ("Slow", "agent faulty_agents:Slow: no answer within 0.2 s"),
        ("Silent", "its reply must give text, not None"),
    ],
)
def test_a_fault_of_somebody_s_own_agent_is_told_on_the_page(tmp_path, monkeypatch, name, problem):
    speakers = pytest.importorskip("rlver_gym.studio.speakers")
    (tmp_path / "faulty_agents.py").write_text(FAULTS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    made = speakers.Speakers([f"faulty_agents:{name}"], timeout_s=0.2)
    agent = made.make_agent(f"faulty_agents:{name}", None)
    with pytest.raises(RlverError, match=re.escape(problem)):
        agent.reply(())


def test_a_model_of_the_studio_is_bound_by_a_budget_as_in_a_benchmark():
    speakers = pytest.importorskip("rlver_gym.studio.speakers")
    with ChatServer("I hear you.") as model:
        chat = ChatSettings(base_url=model.base_url, budget=Budget(calls=1))
        made = speakers.Speakers(["openai:m"], chat, {"temperature": 0})
        agent, said = made.make_agent("openai:m", None), (Message("user", "My dog died."),)
        assert agent.reply(said) == "I hear you."
        with pytest.raises(RlverError, match="budget"):
            agent.reply(said)
        (asked,) = model.requests
    assert asked["temperature"] == 0


WAITING = """
import threading
asked, go_on = threading.Event(), threading.Event()
class Waiting:
    def __init__(self):
        self.count = 0
    def reply(self, messages):
        if "slowly" in messages[-1].text:
            asked.set()
            assert go_on.wait(30)
        self.count += 1
        return f"This is my reply number {self.count}."
"""


def test_an_agent_keeps_its_state_for_a_dialogue_and_others_do_not_wait_for_it(
    tmp_path, monkeypatch
):
    (tmp_path / "waiting_agent.py").write_text(WAITING, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    name = "waiting_agent:Waiting"
    with start_studio([], tmp_path, agents=(name,)) as server, ThreadPoolExecutor() as pool:
        studio = Client(server, tmp_path, tmp_path)
        talks = [
            studio.post("confide", rater=rater, agent=name, words="My dog died.")["id"]
            for rater in ("Ann", "Bob")
        ]
        studio.post("confide-rate", talk=talks[0], change=1)
        waiting = importlib.import_module("waiting_agent")
        slow = pool.submit(studio.post, "confide-say", talk=talks[0], words="Answer slowly.")
        assert waiting.asked.wait(30)
        rated = pool.submit(studio.post, "confide-rate", talk=talks[1], change=2)
        try:
            assert rated.result(timeout=20)["changes"] == [2]
            assert not slow.done()
        finally:
            waiting.go_on.set()
        assert slow.result()["replies"][1] == "This is my reply number 2."


def test_a_talk_that_is_gone_is_said_to_be(shared):
    for name, fields in (("say", {"words": "x"}), ("undo", {}), ("confide-rate", {"change": 1})):
        assert "Begin a new one" in shared.refusal(name, talk="gone", **fields)


def test_the_studio_opens_without_a_run(open_studio):
    studio = open_studio(None)
    assert studio.get("overview")["tables"] == []
    assert studio.post("talk", env=ENV, persona=WHO)["opening"]
