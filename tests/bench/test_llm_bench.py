"""Benchmarks with chat models: recorded, replayed, stopped, resumed, verified without a server."""

import json
import re
import sqlite3
import zlib
from contextlib import closing
from itertools import count
from statistics import fmean

import pytest
from asking import answering
from commands import invoke, invoke_well
from pages import read_page

from rlver_gym.bench.costs import estimate_requests_and_tokens
from rlver_gym.bench.folder import EPISODES, RESPONSE_CACHE_FILE, read_episodes
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.bench.score import count_failures, score_agents, score_to_json
from rlver_gym.bench.verify import verify
from rlver_gym.cli.servers import has_prices, parse_user_options
from rlver_gym.core.emotion import Outcome
from rlver_gym.library.personas import library
from rlver_gym.llm_client.response_cache import ResponseCache, _checksum
from rlver_gym.llm_client.settings import Budget, ChatSettings, Prices
from rlver_gym.studio.page import write_page
from rlver_gym.testing import ChatServer, Refused
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.util.errors import BudgetSpent, CacheError, RunError

PEOPLE = library().ids("demo")[:3]
AGENTS = ("listener", "openai:agent")
ANSWERS = EmbeddedAnswers(card="SAGE-Sentient-v0")


@pytest.fixture(scope="module")
def server():
    with ChatServer(ANSWERS, latency_s=0.02) as server:
        yield server


def plan(server, **changed):
    url = server.base_url if server else "http://127.0.0.1:9/v1"
    chat = ChatSettings.model_validate({"base_url": url, "attempts": 1, **changed.pop("chat", {})})
    usual = {"agents": AGENTS, "user": "openai:user", "persona_ids": PEOPLE, "seeds": 1}
    return BenchPlan.model_validate({**usual, "chat": chat, **changed})


@pytest.fixture(scope="module")
def recorded(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    assert len(list(run(plan(server), folder))) == len(AGENTS) * len(PEOPLE)
    return folder


@pytest.fixture
def copied(recorded, tmp_path):
    for name in (EPISODES, "manifest.json"):
        (tmp_path / name).write_bytes((recorded / name).read_bytes())
    caches = (sqlite3.connect(folder / RESPONSE_CACHE_FILE) for folder in (recorded, tmp_path))
    with closing(next(caches)) as source, closing(next(caches)) as target:
        source.backup(target)
    return tmp_path


def replaying(response_cache):
    return {"response_cache": response_cache, "cache_mode": "replay"}


def test_a_recorded_benchmark_runs_again_byte_for_byte_without_its_server(recorded, tmp_path):
    list(run(plan(None, chat=replaying(recorded / RESPONSE_CACHE_FILE)), tmp_path))
    assert (tmp_path / EPISODES).read_bytes() == (recorded / EPISODES).read_bytes()
    assert not (tmp_path / RESPONSE_CACHE_FILE).exists()


def cut_some(request, ended):
    """One in 24 of the user's answers is cut, however often it is asked for: a whole object, a
    change that nobody gave.
    """
    asked, text = json.loads(request.body), '{"change": 97, "reply": "I told him"}'
    draw = zlib.crc32(json.dumps(asked["messages"][:2]).encode())
    if asked["model"] != "user" or draw % 24:
        text, ended = ANSWERS(asked), "stop"
    return 200, {"choices": [{"message": {"content": text}, "finish_reason": ended}], "usage": None}


@pytest.mark.parametrize("ended", ["length", "error"])
def test_answers_that_were_cut_are_no_reward_and_the_run_verifies_from_what_was_recorded(
    ended, tmp_path
):
    with answering(lambda request: cut_some(request, ended)) as url:
        chat = {"base_url": url, "attempts": 1}
        episodes = list(run(plan(None, chat=chat, agents=("listener",), seeds=2), tmp_path))
    turns = [turn for episode in episodes for turn in episode.turns]
    assert len(turns) > 20
    assert "I told him" not in {turn.reply for turn in turns}
    assert not [one for turn in turns for one in turn.appraisal.reasons if one.points == 97]
    failed = [one for one in episodes if one.outcome is Outcome.FAILED]
    assert failed
    assert len(failed) < len(episodes)
    named = "unfinished" if ended == "length" else "broke off"
    assert all(named in one.turns[-1].appraisal.reasons[0].note for one in failed if one.turns)
    assert list(verify(tmp_path)) == [None] * len(episodes)


def test_dialogues_go_on_at_once_come_in_the_order_of_the_plan_and_verify_without_a_server(
    recorded, server, monkeypatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    one = plan(None)
    assert [episode.key for episode in read_episodes(recorded)] == one.cases()
    assert server.max_concurrent_calls > 1
    assert list(verify(recorded)) == [None] * len(one.cases())
    asked = sum(1 for _ in ResponseCache(recorded / RESPONSE_CACHE_FILE).rows())
    assert asked <= estimate_requests_and_tokens(one, one.cases()).calls


@pytest.mark.parametrize("step", ["open", "appraise"])
def test_what_two_agents_share_stays_theirs_when_failed_dialogues_are_held_again(step, tmp_path):
    broken, number = True, count()

    def answer(asked):
        told = "".join(one["content"] for one in asked["messages"])
        is_comfort = '"partner", "text": ""' not in told
        if broken and f'"step": "{step}"' in told and (step == "open" or is_comfort):
            raise Refused(400, "flagged by the content filter")
        if '"step": "open"' in told:
            return json.dumps({"reply": f"My day was number {next(number)}."})
        return ANSWERS(asked)

    with ChatServer(answer) as server:
        one = plan(server, agents=("silent", "comfort"), chat={"concurrency": 1})
        failed = [episode.failed_by for episode in run(one, tmp_path)]
        broken = False
        list(run(one, tmp_path))
    assert failed == (["user"] * 6 if step == "open" else [None] * 3 + ["user"] * 3)
    assert next(number) == len(PEOPLE), "first words were asked for twice"
    assert list(verify(tmp_path)) == [None] * 6


def edit_an_appraisal(folder, *, forged):
    """Raise the change in an answer of the cache; forged: with the checksum of a new recording."""
    path = folder / RESPONSE_CACHE_FILE
    cache = ResponseCache(path)
    row = next(row for row in cache.rows() if row.answer and '"change"' in row.answer)
    cache.close()
    answer = json.loads(row.answer or "")
    answer["change"] = 9 if answer["change"] != 9 else 8
    changed = row._replace(answer=json.dumps(answer))
    values = (changed.answer, _checksum(changed) if forged else row.checksum, row.key)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE answers SET answer = ?, checksum = ? WHERE key = ?", values)
    db.close()


EDITED = {False: "was changed after it was recorded", True: "change is recorded as|holds no answer"}


@pytest.mark.parametrize("forged", EDITED)
def test_an_answer_edited_on_the_cache_is_found_forged_or_not(copied, forged):
    edit_an_appraisal(copied, forged=forged)
    found = next(result for result in verify(copied) if result)
    assert found.turn >= 1
    assert re.search(EDITED[forged], found.what)


def test_a_missing_cache_is_named(copied, recorded):
    (copied / RESPONSE_CACHE_FILE).unlink()
    says = r"response_cache\.sqlite: there is no response cache.*--response-cache"
    with pytest.raises(RunError, match=says):
        list(verify(copied))
    assert set(verify(copied, recorded / RESPONSE_CACHE_FILE)) == {None}
    with pytest.raises(CacheError, match="there is no response cache"):
        list(run(plan(None, chat={"cache_mode": "replay"}), copied / "other"))


def test_a_spent_budget_stops_the_run_and_the_same_command_goes_on(recorded, server, tmp_path):
    before = len(server.requests)
    for _ in range(2):
        with pytest.raises(BudgetSpent, match="budget of 30 calls"):
            list(run(plan(server, chat={"budget": Budget(calls=30)}), tmp_path))
    assert len(server.requests) == before + 60
    list(run(plan(server), tmp_path))
    assert (tmp_path / EPISODES).read_bytes() == (recorded / EPISODES).read_bytes()
    rows = ResponseCache(recorded / RESPONSE_CACHE_FILE).rows()
    assert len(server.requests) - before == sum(1 for _ in rows)


def test_a_fingerprint_holds_what_changes_answers_and_not_how_they_are_fetched(server):
    usual, fetched = plan(server), {"timeout_s": 3.0, "concurrency": 2, "response_cache": "x"}
    assert plan(server, chat=fetched).fingerprint == usual.fingerprint
    assert plan(server, user_options={"timeout_s": 3.0}).fingerprint == usual.fingerprint
    sampled = plan(server, user_options={"samples": 3})
    assert len({one.fingerprint for one in (usual, sampled, plan(None))}) == 3
    assert sampled.pins["plan"]["user_options"] == {"samples": 3}
    assert usual.pins["plan"]["user_options"] == {}


def test_failed_dialogues_count_apart_with_their_reasons(tmp_path):
    name = library().get(PEOPLE[1]).person.name
    with ChatServer(
        lambda body: "?" if name in body["messages"][0]["content"] else ANSWERS(body)
    ) as half_mute:
        episodes = list(run(plan(half_mute, agents=("listener",)), tmp_path))
    failed = [episode for episode in episodes if episode.outcome is Outcome.FAILED]
    assert 0 < len(failed) < len(episodes)
    (score,) = score_agents(episodes)
    assert (score.failed, score.episodes) == (len(failed), len(episodes))
    assert score.final.mean == fmean(one.final for one in episodes if one not in failed)
    reasons = count_failures(episodes)
    assert sum(reasons.values()) == len(failed)
    assert all("no usable answer" in why for why in reasons)
    assert set(verify(tmp_path)) == {None}
    replay = replaying(tmp_path / RESPONSE_CACHE_FILE)
    list(run(plan(None, agents=("listener",), chat=replay), tmp_path / "again"))
    assert (tmp_path / "again" / EPISODES).read_bytes() == (tmp_path / EPISODES).read_bytes()


def test_an_agent_whose_dialogues_all_failed_before_a_word_has_no_score_and_breaks_no_report(
    tmp_path,
):
    options = {"language": "zh"}  # for which the cards have no first words, so the server is asked
    with ChatServer("?") as mute:
        episodes = list(run(plan(mute, agents=("listener",), user_options=options), tmp_path))
    failed = ("", 1, Outcome.FAILED)
    assert [(one.opening, len(one.turns), one.outcome) for one in episodes] == [failed] * 3
    assert len(count_failures(episodes)) == 1
    (score,) = score_agents(episodes)
    assert score.failed == len(episodes)
    assert json.loads(json.dumps(score_to_json(score), allow_nan=False))["final"] == [None] * 3
    assert read_episodes(tmp_path) == episodes
    assert set(verify(tmp_path)) == {None}
    (table,) = read_page(write_page([tmp_path]))["overview"]["tables"]
    assert [score["failed"] for score in table["scores"]] == [len(episodes)]
    shown = invoke_well("report", tmp_path)
    (row,) = [line.split() for line in shown.splitlines() if line.startswith("listener")]
    assert row == ["listener", "–", "–", "–", "–", "–", "0.0", "3"]


@pytest.mark.parametrize(
    ("options", "opening", "by_turn"),
    [({}, 1, 2), ({"samples": 3}, 1, 4), ({"calls": 1}, 1, 1), ({"opening": "card"}, 0, 2)],
)
def test_the_estimate_counts_every_call(options, opening, by_turn):
    prices = Prices(prompt=1.0, completion=2.0)
    one = plan(None, chat={"prices": prices}, user_options=options)
    told, turns = estimate_requests_and_tokens(one, one.cases()), one.card.turns
    assert told.calls == len(one.cases()) * (opening + turns * by_turn) + len(PEOPLE) * turns
    assert told.money == pytest.approx((told.prompt_tokens + 2 * told.completion_tokens) / 1e6)
    assert estimate_requests_and_tokens(one, []).calls == 0


@pytest.mark.parametrize(
    ("url", "prices", "asks"),
    [
        ("https://api.example.com/v1", "1,2", True),
        ("https://api.example.com/v1", None, False),
        ("http://192.168.1.5/v1", "1,2", False),
        ("http://gpu/v1", "1,2", False),
        ("http://8.8.8.8/v1", "1,2", True),
    ],
)
def test_only_a_public_server_with_prices_costs_money(url, prices, asks):
    settings = ChatSettings.model_validate({"base_url": url, "prices": prices})
    assert has_prices(settings) is asks


def test_a_run_that_costs_money_needs_a_yes_where_nobody_can_be_asked(tmp_path):
    words = f"bench --user openai:m --agent listener --persona {PEOPLE[0]} --prices 1,2".split()
    words += ["--base-url", "https://api.example.com/v1", "--out", str(tmp_path)]
    told = invoke(*words)
    assert isinstance(told.exception, RunError)
    assert "--yes" in str(told.exception)
    assert "(your currency)" in told.output
    assert read_episodes(tmp_path) == []


def test_options_of_the_user_are_read_by_their_type():
    words = ["samples=3", "temperature=0.5", "structured=false", "model=a=b", "language=null"]
    found = {"samples": 3, "temperature": 0.5, "structured": False, "model": "a=b"}
    assert parse_user_options(words) == found | {"language": None}


def test_talk_speaks_with_an_llm_user(server):
    words = ("talk", "--user", "openai:m", "--base-url", server.base_url, "--persona", PEOPLE[0])
    assert "You leave." in invoke_well(*words, input="What happened then?\n")
