"""Recorded dialogues by another user's score."""

import json
import shutil

import pytest
from commands import run_command

from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.library.personas import library
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers

OTHERS = """
from rlver_gym.util.errors import UserFailed
from rlver_gym.users import EmbeddedUser

class Stern(EmbeddedUser):
    def appraise(self, scene, emotion, dialogue):
        found = super().appraise(scene, emotion, dialogue)
        return found._replace(change=max(-10, found.change - 6 * bool(dialogue.utterance)))

class Tired(EmbeddedUser):
    def __init__(self, everyone=False):
        super().__init__()
        self.everyone = everyone
    def appraise(self, scene, emotion, dialogue):
        if self.everyone or scene.persona.id == FIRST:
            raise UserFailed("too tired to listen")
        return super().appraise(scene, emotion, dialogue)

class Broken(EmbeddedUser):
    def appraise(self, scene, emotion, dialogue):
        raise KeyError("no such feeling")
"""
PEOPLE = library().ids("demo")[:3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of three agents, and modules of other users beside it."""
    place = tmp_path_factory.mktemp("rescore")
    agents = ("oracle", "listener", "silent")
    list(run(BenchPlan(agents=agents, persona_ids=PEOPLE, seeds=1), place / "run"))
    text = f"FIRST = {PEOPLE[0]!r}\n{OTHERS}"
    (place / "rescore_others.py").write_text(text, encoding="utf-8")
    return place


def rescore(folder, user, *words):
    return run_command("rescore", "run", "--user", user, *words, cwd=folder)


def test_the_user_of_the_run_gives_the_recorded_score(folder):
    found = json.loads(rescore(folder, "embedded", "--json").stdout)
    (plain,) = found["users"]
    assert (plain["level"], plain["overpaid"], plain["overpaid_by"]) == (0, 0, None)
    taus = found["opinions"]["taus"]
    assert (plain["within_dialogue_r"], taus["embedded"]) == pytest.approx((1, 1))
    assert [one["dialogues"] for one in plain["agents"]] == [3, 3, 3]
    assert all(one["recorded"] == one["other"] for one in plain["agents"])


def test_a_sterner_user_shows_what_the_record_overpays(folder):
    found = json.loads(rescore(folder, "rescore_others:Stern", "--json").stdout)
    (plain,) = found["users"]
    oracle, *_, silent = plain["agents"]
    assert (oracle["agent"], silent["agent"]) == ("oracle", "silent")
    assert oracle["level"] > 10
    assert oracle["overpaid"] > 10
    assert 1 <= oracle["overpaid_by"] <= 6
    assert silent["level"] == 0
    assert found["opinions"]["only_score"] == ["oracle", "listener"]
    table = rescore(folder, "rescore_others:Stern").stdout
    assert "liked by the score only" in " ".join(table.split())
    assert "tau with the score" in " ".join(table.split())


def test_several_users_stand_in_one_table_and_each_failure_names_its_user(folder):
    users = ("rescore_others:Stern", "rescore_others:Tired")
    done = rescore(folder, users[0], "--user", users[1], "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 4
    assert f"left out: oracle/{PEOPLE[0]}/0 by {users[1]}: too tired to listen" in done.stderr
    failures = {one["user"]: len(one["failures"]) for one in found["users"]}
    assert failures == {users[0]: 0, users[1]: 3}
    finals = {
        one["user"]: {of["agent"]: of["other"] for of in one["agents"]} for one in found["users"]
    }
    emotions = found["opinions"]["emotions"]
    assert {name: emotions[name] for name in users} == finals
    assert list(emotions) == ["score", *users]
    assert "tau with the score" in rescore(folder, "embedded", "--user", users[0]).stdout


def test_dialogues_at_which_the_user_fails_are_left_out_and_named(folder):
    done = rescore(folder, "rescore_others:Tired", "--json")
    (plain,) = json.loads(done.stdout)["users"]
    assert done.returncode == 4
    assert [one["dialogues"] for one in plain["agents"]] == [2, 2, 2]
    assert {"dialogue": f"oracle/{PEOPLE[0]}/0", "why": "too tired to listen"} in plain["failures"]
    assert f"left out: oracle/{PEOPLE[0]}/0: too tired to listen" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rescore_others:Broken",), f"user 'rescore_others:Broken' with {PEOPLE[0]}"),
        (("rescore_others:Tired", "--user-option", "everyone=true"), "failed at every dialogue"),
        (("embedded", "--user", "reader", "--user-option", "everyone=true"), "behind a server"),
        (("embedded", "--env", "RLVER-Challenging-v0"), "was held with another env card"),
    ],
)
def test_what_cannot_be_compared_is_named(folder, words, message):
    done = rescore(folder, *words)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def ask_server(server, folder, *words):
    address = f"base_url={server.base_url}"
    return rescore(folder, "openai:any", "--user-option", address, *words)


@pytest.fixture
def own_folder(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_model_reads_each_dialogue_in_one_request_and_is_paid_once(own_folder):
    with ChatServer(EmbeddedAnswers(), latency_s=0.3) as server:
        first = json.loads(ask_server(server, own_folder, "--json").stdout)
        assert len(server.requests) == 9
        assert server.max_concurrent_calls >= 8
        again = json.loads(ask_server(server, own_folder, "--json").stdout)
        assert len(server.requests) == 9
        assert again == first


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_asked(folder):
    done = rescore(folder, "openai:any", "--out", "/proc/nowhere")
    assert done.returncode == 2
    assert "/proc/nowhere: cannot be written" in " ".join(done.stderr.split())
