"""Tables, lists and dialogues are those of the run, and another reply is what a session gives."""

import json

import pytest
from pages import read_page

from rlver_gym import Dialogue, EmpathySession, env_card, make_user
from rlver_gym.bench.opinions import describe_limit
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import read_episodes
from rlver_gym.bench.run import run as hold
from rlver_gym.bench.score import score_agents
from rlver_gym.environment.snapshot import Snapshot
from rlver_gym.library.personas import library
from rlver_gym.studio.branches import Branches
from rlver_gym.studio.page import write_page
from rlver_gym.studio.runs import Runs
from rlver_gym.studio.speakers import Speakers
from rlver_gym.util.errors import DialogueError

AGENTS_OF_OTHERS = ["human", "openai:gpt", "hf:/tmp/model", "os:system", "strategy:none", "x"]


def episode_of(studio, key):
    return {"/".join(map(str, one.key)): one for one in read_episodes(studio.folder)}[key]


def test_competitors_are_ranked_among_themselves_and_the_oracle_is_apart(shared):
    (table,) = shared.get("overview")["tables"]
    apart = {one["agent"]: one["privileged"] for one in table["scores"]}
    assert [*apart.items()] == [("listener", False), ("echo", False), ("oracle", True)]
    own = [one for one in read_episodes(shared.folder) if one.agent != "oracle"]
    for found, right in zip(table["scores"], score_agents(own), strict=False):
        assert found["final"] == list(right.final)
        assert found["to_best"] == (right.to_best and list(right.to_best))


def test_a_table_says_what_its_user_cannot_tell_in_the_words_of_the_terminal(shared):
    (table,) = shared.get("overview")["tables"]
    assert table["limit"] == describe_limit("embedded")
    assert "cannot tell fluent replies from fitting ones" in table["limit"]
    assert [describe_limit(user) for user in ("openai:gpt", "mine:User")] == ["", ""]


def test_tables_that_are_not_to_be_ranked_together_say_what_differs(held, tmp_path):
    others = tmp_path / "others"
    list(hold(BenchPlan(agents=("echo",), seeds=1, split="validation"), others))
    overview = Runs([held, others]).overview
    assert (len(overview["tables"]), overview["differs"]) == (2, "the people")


def test_every_dialogue_has_a_row_and_every_row_opens(shared):
    rows = shared.get("overview")["dialogues"]
    assert {row["id"] for row in rows} == {
        "/".join(map(str, one.key)) for one in read_episodes(shared.folder)
    }
    for row in rows[:4]:
        dialogue = shared.get("dialogue", run=row["run"], dialogue=row["id"])
        episode = episode_of(shared, row["id"])
        assert [turn["utterance"] for turn in dialogue["turns"]] == [
            turn.utterance for turn in episode.turns
        ]
        assert dialogue["line"][1:] == [turn.emotion for turn in episode.turns]
        assert dialogue["person"]["need"] == episode.need
        for turn in dialogue["turns"]:
            assert sum(points for _, points, _ in turn["reasons"]) == turn["change"]


def test_search_finds_every_word_that_was_said_and_every_reason(shared):
    ids = [row["id"] for row in shared.get("overview")["dialogues"]]
    turns = {
        (number, at): turn
        for number, key in enumerate(ids)
        for at, turn in enumerate(episode_of(shared, key).turns, 1)
    }
    said = {at for at, one in turns.items() if "sounds" in f"{one.utterance} {one.reply}".lower()}
    found = {number for number, _ in shared.get("search", q="SOUNDS")}
    assert {number for number, _ in said} <= found
    assert shared.get("search", q="zyzzyva") == []
    copying = shared.get("search", q="reason:copies")
    is_copied = [at for at, one in turns.items() if "copies" in str(one.appraisal.reasons)]
    assert {number for number, _ in copying} == {number for number, _ in is_copied} != set()
    assert set(map(tuple, copying)) <= set(is_copied)
    sentence = "gave their own words back"
    assert shared.get("search", q="", reason=sentence) == copying
    assert sentence in shared.get("overview")["reasons"]


def test_a_branch_that_says_the_same_again_is_the_record(studio):
    row = studio.get("overview")["dialogues"][8]
    episode = episode_of(studio, row["id"])
    for turn in (1, 3):
        words = episode.turns[turn - 1].utterance
        branch = studio.post("branch", run=studio.run, dialogue=row["id"], turn=turn, words=words)
        recorded = studio.get("dialogue", run=studio.run, dialogue=row["id"])["turns"][turn - 1]
        assert branch["turns"] == [recorded]


def test_a_branch_is_what_a_session_restored_there_gives_and_is_kept(studio):
    key = "listener/gus-the-flatmate/0"
    said = ("What hurt you most about it?", "You did not deserve that.")
    episode = episode_of(studio, key)
    persona, card = library().get(episode.persona), env_card("SAGE-Sentient-v0")
    session = EmpathySession(make_user("embedded"), persona, card, episode.seed)
    before = episode.turns[:2]
    session.restore(Snapshot(before[-1].emotion, Dialogue(episode.opening, before), None))
    branch = studio.post("branch", run=studio.run, dialogue=key, turn=3, words=said[0])
    branch = studio.post("branch-on", run=studio.run, branch=branch["id"], words=said[1])
    for words in said:
        session.reply(words)
    assert [(turn["emotion"], turn["reply"]) for turn in branch["turns"]] == [
        (turn.emotion, turn.reply) for turn in session.dialogue.turns[2:]
    ]
    assert studio.get("branches", run=studio.run, dialogue=key) == [branch]
    assert (studio.folder / "studio" / "branches.jsonl").read_text().count("\n") == 2


def test_an_agent_speaks_in_a_branch_to_the_end(studio):
    key = "echo/gus-the-flatmate/0"
    branch = studio.post(
        "branch", run=studio.run, dialogue=key, turn=2, agent="listener", to_the_end=True
    )
    assert branch["turns"][-1]["outcome"]
    assert branch["by"] == ["listener"] * len(branch["turns"])
    assert "over" in studio.refusal("branch-on", run=studio.run, branch=branch["id"], words="x")


def test_a_turn_that_another_request_has_taken_is_refused_and_nothing_is_lost(studio):
    class Overtaken(Speakers):
        def make_agent(self, name, scene):
            return self

        def reply(self, messages):
            branches.go_on(studio.run, begun["id"], words="I was first.")
            return "I came second."

    branches = Branches(Runs([studio.folder]), Overtaken())
    key = "echo/gus-the-flatmate/0"
    begun = branches.begin(studio.run, key, 1, words="What happened?")
    with pytest.raises(DialogueError, match="meanwhile"):
        branches.go_on(studio.run, begun["id"], agent="listener")
    (kept,) = branches.of(studio.run, key)
    assert [turn["utterance"] for turn in kept["turns"]] == ["What happened?", "I was first."]


@pytest.mark.parametrize("agent", AGENTS_OF_OTHERS)
def test_no_agent_speaks_that_would_run_code_or_ask_a_server(shared, agent):
    key = "echo/gus-the-flatmate/0"
    problem = shared.refusal("branch", run=shared.run, dialogue=key, turn=1, agent=agent)
    assert "listener" in problem
    assert shared.get("branches", run=shared.run, dialogue=key) == []


@pytest.mark.parametrize(
    "fields", [{"turn": 0}, {"turn": 99}, {"dialogue": "nobody/at/0"}, {"run": "../first"}]
)
def test_a_branch_begins_at_a_turn_that_is_there(shared, fields):
    whole = {"run": shared.run, "dialogue": "echo/gus-the-flatmate/0", "turn": 1, "words": "Hi."}
    assert shared.refusal("branch", **{**whole, **fields})


def test_a_file_of_branches_that_is_damaged_or_leads_elsewhere_is_refused(studio, tmp_path):
    key, beside = "echo/gus-the-flatmate/0", studio.folder / "studio"
    whole = {"run": studio.run, "dialogue": key, "turn": 1, "words": "Hello."}
    beside.mkdir()
    (beside / "branches.jsonl").write_text(json.dumps({"id": "x"}) + "\n")
    path = f"/api/branches?run={studio.run}&dialogue={key}"
    answer = studio.ask("GET", path, headers={"cookie": studio.cookie})
    assert "line 1" in answer.body["problem"]
    (beside / "branches.jsonl").unlink()
    (tmp_path / "precious").write_text("")
    (beside / "branches.jsonl").symlink_to(tmp_path / "precious")
    assert "leads out" in studio.refusal("branch", **whole)
    assert (tmp_path / "precious").read_text() == ""


def test_notes_are_kept_beside_the_run_one_for_each_turn(studio):
    key = "echo/gus-the-flatmate/0"
    for turn, text in ((0, "Odd."), (2, "It copies."), (2, "It only copies."), (0, " ")):
        kept = studio.post("note", run=studio.run, dialogue=key, turn=turn, text=text)
    assert kept == [{"dialogue": key, "turn": 2, "text": "It only copies."}]
    assert kept == studio.get("notes", run=studio.run)
    assert read_page(write_page([studio.folder]))["notes"] == {studio.run: kept}
    for wrong in ({"turn": 40}, {"turn": -1}, {"dialogue": "nobody/at/0"}):
        assert studio.refusal(
            "note", **{"run": studio.run, "dialogue": key, "turn": 1, "text": "x"} | wrong
        )
    (studio.folder / "notes.jsonl").write_text('{"dialogue": "x", "turn": "1", "text": "y"}\n')
    answer = studio.ask("GET", f"/api/notes?run={studio.run}", headers={"cookie": studio.cookie})
    assert "line 1" in answer.body["problem"]


def test_a_judged_dialogue_has_its_capabilities_and_strategies(studio):
    key = "listener/gus-the-flatmate/0"
    assert "capabilities" not in studio.get("dialogue", run=studio.run, dialogue=key)
    lines = [
        {"dialogue": key, "scores": {"empathic_depth": mark}, "sample": mark} for mark in (2, 3)
    ]
    (studio.folder / "judgements.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    found = Runs([studio.folder]).dialogue(studio.run, key)
    assert found["capabilities"] == {"empathic_depth": 2.5}
    episode = episode_of(studio, key)
    asks = ["question" in one for one in found["strategies"]]
    assert asks == ["?" in turn.utterance for turn in episode.turns]


def test_the_verdict_of_a_run_is_given_under_its_name(shared):
    (verdict,) = shared.get("overview")["verdicts"]
    assert (verdict["run"], verdict["is_alarm"]) == (shared.run, False)
    assert verdict["text"].endswith("24 episodes recomputed, all as recorded")
