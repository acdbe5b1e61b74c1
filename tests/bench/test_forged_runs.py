"""Runs that somebody bent: with the embedded user and with an LLM user, checksums computed anew.
Each is refused or named wherever a run is shown: on the terminal, on the page, in Markdown, in JSON
and in the studio.
"""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from functools import cache, reduce
from operator import getitem
from pathlib import Path

import pytest
from commands import invoke
from pages import alarms, list_sentences, read_page

from rlver_gym import Appraisal, EmpathySession, EnvCard, Reason, RlverError, Turn, env_card
from rlver_gym.bench.export.export import export
from rlver_gym.bench.folder import EPISODES, MANIFEST, RESPONSE_CACHE_FILE, read_episodes
from rlver_gym.bench.opinions import OPINIONS
from rlver_gym.bench.plan import BenchPlan, compute_manifest_checksum
from rlver_gym.bench.raters import RATINGS
from rlver_gym.bench.run import open_run, run
from rlver_gym.bench.side_files import BRANCHES, NOTES, PREFERENCES
from rlver_gym.bench.verify import replay_episode
from rlver_gym.core.capabilities import JUDGEMENTS
from rlver_gym.core.dialogue import ReasonCode
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.episode import turn_to_dict
from rlver_gym.library.personas import library
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.studio.runs import Runs
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import RunError

PEOPLE = ("noor-missed-evening", "elias-unfinished-thesis")
AGENTS = ("listener", "comfort")
USERS = ("embedded", "openai:user")
OTHER = dict(zip(AGENTS, reversed(AGENTS), strict=True))


class Bent:
    """The files of a run, to be bent and written with everything that can be computed anew."""

    def __init__(self, folder):
        self.folder = folder
        self.episodes = read_episodes(folder)
        self.manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        self.has_new_checksum = True
        self.end = ""

    def write(self):
        lines = "".join(f"{episode.to_json()}\n" for episode in self.episodes)
        (self.folder / EPISODES).write_text(lines + self.end, encoding="utf-8")
        there = self.manifest
        if self.has_new_checksum:
            there["check"] = compute_manifest_checksum(there)
        if (self.folder / MANIFEST).exists():
            (self.folder / MANIFEST).write_text(json.dumps(there), encoding="utf-8")

    def longest(self):
        return max(range(len(self.episodes)), key=lambda number: len(self.episodes[number].turns))

    def replace(self, at, **fields):
        self.episodes[at] = self.episodes[at]._replace(**fields)

    def replace_turn(self, at, number, **fields):
        turns = list(self.episodes[at].turns)
        turns[number] = turns[number]._replace(**fields)
        self.replace(at, turns=tuple(turns))


def cut_at_the_best_moment(outcome=None):
    def cut(run):
        for at, episode in enumerate(run.episodes):
            emotions = [turn.emotion for turn in episode.turns[:-1]]
            best = emotions.index(max(emotions))
            run.replace(at, turns=episode.turns[: best + 1])
            run.replace_turn(at, best, outcome=outcome)

    return cut


def worst(run):
    return min(range(len(run.episodes)), key=lambda number: run.episodes[number].final)


def change_each(field, find):
    """A field of every dialogue, found from the dialogue."""
    return lambda run: [
        run.replace(at, **{field: find(one)}) for at, one in enumerate(run.episodes)
    ]


def fail(code, note, utterance=None):
    """The worst dialogue, as if it had failed in its second turn."""

    def change(run):
        at = worst(run)
        first, second, *_ = run.episodes[at].turns
        words = second.utterance if utterance is None else utterance
        felt = Appraisal(0, "", (Reason(code, 0.0, note),))
        run.replace(at, turns=(first, Turn(words, felt, first.emotion, 0.0, Outcome.FAILED, "")))

    return change


FAIL_BY_THE_AGENT = fail(ReasonCode.AGENT_FAILED, "the agent failed: its time was up", "")
FAIL_BY_THE_USER = fail(ReasonCode.FAILED, "the user failed: no usable answer")


def feel_better(run):
    """Two points more in the first turn, and so in all that follow: sums and ends fit."""
    at = run.longest()
    for number, turn in enumerate(run.episodes[at].turns):
        felt = turn.appraisal
        more = felt._replace(change=felt.change + 2) if number == 0 else felt
        reward = turn.reward + 2.0 if number == 0 else turn.reward
        run.replace_turn(at, number, appraisal=more, emotion=turn.emotion + 2, reward=reward)


def go_on_after_the_end(run):
    at = next(number for number, one in enumerate(run.episodes) if len(one.turns) < 10)
    run.replace(at, turns=(*run.episodes[at].turns, run.episodes[at].turns[-1]))


def change_first(**fields):
    return lambda run: run.replace(0, **fields)


def change_turn(**fields):
    return lambda run: run.replace_turn(run.longest(), 1, **fields)


def edit_thought(run):
    felt = run.episodes[0].turns[1].appraisal
    run.replace_turn(0, 1, appraisal=felt._replace(thought="Kind."))


def other_user_version(run):
    run.manifest["user"]["version"] = "99"
    run.episodes = [one._replace(user_version="99") for one in run.episodes]


def other_persona(run):
    run.manifest["personas"][PEOPLE[0]] = "0" * 16
    for at, one in enumerate(run.episodes):
        if one.persona == PEOPLE[0]:
            run.replace(at, persona_hash="0" * 16)


def without_a_person(run):
    del run.manifest["personas"][PEOPLE[1]]
    run.episodes = [one for one in run.episodes if one.persona == PEOPLE[0]]


def plan_fewer_agents(run):
    run.manifest["plan"]["agents"] = [AGENTS[0]]
    run.manifest["agents"] = {AGENTS[0]: {}}


def edit_only(**fields):
    """The manifest's fields, with the checksums of before."""

    def change(run):
        run.manifest.update(fields)
        run.has_new_checksum = False

    return change


def edit(*where, **fields):
    """Fields of the manifest, or of what lies deeper in it."""
    return lambda run: reduce(getitem, where, run.manifest).update(fields)


def add(**fields):
    return lambda run: run.episodes.append(run.episodes[0]._replace(**fields))


def rename(name):
    """Words of `listener` under another name, the better half of the run invented."""

    def change(run):
        agents = run.manifest["agents"]
        agents[name] = {"base_url": "http://x", "prompt": "x"} if ":" in name else {}
        del agents["listener"]
        run.manifest["plan"]["agents"] = [name, "comfort"]
        for at, episode in enumerate(run.episodes):
            run.replace(at, agent=name if episode.agent == "listener" else episode.agent)

    return change


def start_at(emotion, name="SAGE-Sentient-v0"):
    """The same dialogues under a card of one's own, which begins higher."""

    def change(run):
        card = run.manifest["env_card"] | {"start": emotion, "id": name}
        run.manifest["plan"]["env"] = "/somewhere/card.yaml"
        run.manifest["env_card"] = card
        run.manifest["env_hash"] = EnvCard.model_validate(card).hash
        fields = {"start": emotion, "env": name, "env_hash": run.manifest["env_hash"]}
        run.episodes = [one._replace(**fields, turns=one.turns[:0]) for one in run.episodes]

    return change


def delete(name):
    return lambda run: (run.folder / name).unlink()


def cut_last_line(run):
    run.end = run.episodes.pop().to_json()[:-40]


def beside(name, line):
    def write(run):
        (run.folder / name).parent.mkdir(exist_ok=True)
        (run.folder / name).write_text(json.dumps(line) + "\n", encoding="utf-8")

    return write


KEY = f"listener/{PEOPLE[0]}/0"
TURN = Turn("Hello.", Appraisal(1, "", ()), 41, 1.0, None, "Hi.")
BRANCH = {"id": "1", "turn": 1, "by": ["you"], "turns": [turn_to_dict(TURN)]}


def judge(**scores):
    return beside(JUDGEMENTS, {"dialogue": KEY, "scores": scores})


def opine(score):
    emotions = {"score": {"listener": score}}
    none = {"capabilities": {}, "taus": {}, "only_score": []}
    return beside(OPINIONS, {**none, "emotions": emotions})


def rate(turn, change):
    return beside(RATINGS, {"dialogue": KEY, "rater": "Ada", "turn": turn, "change": change})


OF_ANOTHER_RUN = {
    JUDGEMENTS: {"dialogue": "a/b/0", "scores": {"creativity": 5}},
    RATINGS: {"dialogue": KEY, "rater": "Ada", "turn": 20, "change": 1},
    NOTES: {"dialogue": "a/b/0", "turn": 0, "text": "Kind."},
    BRANCHES: {**BRANCH, "dialogue": "a/b/0"},
    PREFERENCES: {"left": KEY, "right": "a/b/0", "rater": "Ada", "preferred": "left"},
}
NOT_PLANNED = "the plan has no such episode"
MISSING = "1 episode of the plan is missing.*the same bench command goes on"
CHANGED = "it was changed after it was written"
FORGED = {
    "cut at the best moment": (cut_at_the_best_moment(), "it is cut off after"),
    "cut, and called content": (
        cut_at_the_best_moment(Outcome.CONTENT),
        "outcome is recorded as 'content'",
    ),
    "no turns at all": (change_first(turns=()), "0 turns"),
    "a turn after the end": (go_on_after_the_end, "it ends after"),
    "doubled": (add(), "it stands twice"),
    "the worst deleted": (lambda run: run.episodes.pop(worst(run)), MISSING),
    "a person deleted from the manifest too": (without_a_person, "edited manifest: personas is"),
    "agents swapped": (change_each("agent", lambda one: OTHER[one.agent]), "asked again it says"),
    "seeds swapped": (change_each("seed", lambda one: 1 - one.seed), "recorded"),
    "another seed": (add(seed=7), NOT_PLANNED),
    "another agent": (add(agent="best"), NOT_PLANNED),
    "failed on purpose by the agent": (FAIL_BY_THE_AGENT, "fail, asked again it says"),
    "failed on purpose by the user": (FAIL_BY_THE_USER, "turn 2: "),
    "felt better": (feel_better, "turn 1: "),
    "reward edited": (change_turn(reward=9.0), "reward is recorded as 9.0"),
    "utterance edited": (change_turn(utterance="You did nothing wrong."), "turn 2: "),
    "disclosures edited": (change_turn(disclosures=("the-dog",)), "turn 2: .*disclosures"),
    "thought edited": (edit_thought, "thought is recorded"),
    "opening edited": (change_first(opening="Hello!"), "opening is recorded"),
    "need edited": (change_first(need="praise"), "need is recorded as"),
    "user version edited": (change_first(user_version="99"), "user_version is recorded as"),
    "user version edited in the manifest too": (other_user_version, "user is"),
    "persona hash edited in the manifest too": (other_persona, "personas is"),
    "the card edited": (edit("env_card", content_at=41), "env_hash is not that of its env card"),
    "how it was made": (edit_only(command=["rlver-gym", "bench", "--agent", "honest"]), CHANGED),
    "without its checksum": (edit_only(check=""), CHANGED),
    "by which package": (edit_only(package="9.9.9"), CHANGED),
    "plan of fewer seeds": (edit("plan", seeds=1), NOT_PLANNED),
    "plan of fewer agents": (plan_fewer_agents, NOT_PLANNED),
    "plan of another split": (edit("plan", persona_ids=[], split="demo"), "personas is"),
    "a pin of a shipped agent": (
        edit("agents", comfort={"source": "mine"}),
        "the agents that it pins",
    ),
    "named with a space at its end": (rename("listener "), "signs in its name that nobody sees"),
    "named with a sign of no width": (rename("listen\u200ber"), "that nobody sees"),
    "named in capitals": (rename("Listener"), "there is no agent 'Listener'"),
    "named with a letter of another script": (rename("l\u0456stener"), "there is no agent"),
    "named as nobody is": (rename("gpt-5"), "there is no agent 'gpt-5'"),
    "a strategy that is none": (rename("strategy:care"), "no strategy 'care'"),
    "a module that looks like a server": (rename("\u043epenai:gpt"), "can be taken for openai"),
    "a module in capitals": (rename("Human:Agent"), "can be taken for human"),
    "a user with a sign of no width": (edit("plan", user="embedded\u200b"), "that nobody sees"),
    "a user that looks like a server": (edit("plan", user="\u043epenai:gpt"), "taken for openai"),
    "a person's words": (rename("human"), "what human said stands as it is recorded"),
    "words of code that is not there": (rename("mine:Agent"), "what mine:Agent said stands as"),
    "words of a model on a disk": (rename("hf:best/model"), "what hf:best/model said stands as"),
    "words of a chat model without a cache": (
        rename("openai:gpt-5"),
        "what openai:gpt-5 said .*(its response cache is missing|is not what this version asks)",
    ),
    "a user of somebody's own": (edit("plan", user="mine:User"), "mine:User"),
    "people of somebody's own": (edit(persona_folder="/x"), "not recomputed.*--personas DIR"),
    "an environment that is none": (edit("plan", env="mine:Env"), "--env CARD.yaml"),
    "a card under a shipped name": (start_at(90), "it calls itself SAGE-Sentient-v0"),
    "a card under nearly a shipped name": (
        start_at(90, "Sage-sentient-v0"),
        "it calls itself Sage-sentient-v0",
    ),
    "the last line cut": (cut_last_line, "the last line is cut off.* bench command goes on"),
    "no manifest": (delete(MANIFEST), "manifest.json.* cannot be (read|opened)"),
    "a judge's mark that is a column": (judge(final=5), "nobody is asked for 'final'"),
    "a judge's mark beyond its scale": (judge(creativity=99), "99 must be a number from 1 to 5"),
    "opinions of another run": (
        opine(99),
        "opinions.json is not of this run: it has a score of 99.0 for listener",
    ),
    "opinions beyond the scale": (opine(1e308), "holds no opinions"),
    **{
        f"a rating of {change}": (rate(1, change), "must be a number|is no JSON")
        for change in (1e308, float("nan"), 10.5)
    },
    **{
        f"{name} of another run": (beside(name, line), f"{name} is not of this run: 1 of 1 line")
        for name, line in OF_ANOTHER_RUN.items()
    },
}
"""How a run is bent, and what is said of it wherever the run is shown."""


@pytest.fixture(scope="module")
def server():
    with ChatServer(EmbeddedAnswers(card="SAGE-Sentient-v0")) as server:
        yield server


def make_plan(user, server, **changed):
    chat = ChatSettings.model_validate({"base_url": server.base_url, "attempts": 1})
    plain = {"agents": AGENTS, "seeds": 2, "persona_ids": PEOPLE, "user": user, "chat": chat}
    return BenchPlan.model_validate(plain | changed)


@pytest.fixture(scope="module")
def honest_runs(server, tmp_path_factory):
    """The honest run with a user, made once, and not for every case that parametrizes it."""

    @cache
    def make(user):
        folder = tmp_path_factory.mktemp("honest") / "run"
        list(run(make_plan(user, server), folder))
        response_cache = folder / RESPONSE_CACHE_FILE
        if response_cache.exists():  # what is still in its log goes into the one file
            with closing(sqlite3.connect(response_cache)) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return folder

    return make


@pytest.fixture(params=USERS)
def honest(request, honest_runs):
    return honest_runs(request.param)


@pytest.fixture
def bent(honest, tmp_path):
    return Bent(Path(shutil.copytree(honest, tmp_path / "run")))


def test_what_is_not_bent_is_sound_and_nothing_is_said_of_it(bent):
    bent.write()
    told = json.loads(invoke("verify", bent.folder, "--json").stdout)
    assert told == {
        "run": str(bent.folder),
        "sound": True,
        "checked": 8,
        "divergent": 0,
        "divergence": None,
        "problems": {},
        "not_asked_again": {},
        "servers": [],
        "side_files": {},
        "says": [f"{bent.folder}: 8 episodes recomputed, all as recorded"],
        "failed": {"total": 0, "agent": 0, "user": 0, "agents": {}},
        "asked_again": list(AGENTS),
    }
    found = json.loads(invoke("report", bent.folder, "--json").stdout)
    assert found["verified"] == {str(bent.folder): told}
    assert alarms(bent.folder / "report.html") == []


def tell_everywhere(folder):
    """What is said of a run in each of the places that show one."""
    told = {name: invoke("report", folder, f"--{name}") for name in ("json", "markdown")}
    told["terminal"] = invoke("verify", folder)
    texts = {place: f"{result.output}{result.exception}" for place, result in told.items()}
    page, shown = folder / "report.html", {}
    if page.exists():
        shown["page"] = read_page(page)["overview"]
    try:
        shown["studio"] = Runs([folder]).overview
    except RlverError as error:
        texts["studio"] = str(error)
    texts.setdefault("page", texts["json"])
    for place, overview in shown.items():
        texts[place] = " ".join(list_sentences(overview, alarms_only=False))
    return {place: plain(text) for place, text in texts.items()}


def plain(text):
    return " ".join(re.sub(r"\\\\?(?=[^A-Za-z0-9\s])", "", text).split())


WITH_THE_LLM_SLOWLY = ["embedded", pytest.param("openai:user", marks=pytest.mark.slow)]


@pytest.mark.parametrize("kind", FORGED)
@pytest.mark.parametrize("honest", WITH_THE_LLM_SLOWLY, indirect=True)
def test_a_forged_run_is_named_wherever_it_is_shown(kind, bent):
    bend, says = FORGED[kind]
    bend(bent)
    bent.write()
    for place, text in tell_everywhere(bent.folder).items():
        assert re.search(says, text), (place, text)
    verdict = json.loads(invoke("verify", bent.folder, "--json").stdout)
    assert verdict["sound"] is not True or verdict["side_files"] or "said stands" in says


def test_lines_in_another_order_are_said_and_change_nothing(bent):
    scores = json.loads(invoke("report", bent.folder, "--no-recompute", "--json").stdout)["scores"]
    bent.episodes.reverse()
    bent.write()
    assert invoke("verify", bent.folder).exit_code == 0
    found = json.loads(invoke("report", bent.folder, "--json").stdout)
    assert found["verified"][str(bent.folder)]["problems"] == {
        "reordered": {"count": 7, "lines": list(range(2, 9))}
    }
    assert found["scores"] == scores


def test_dialogues_of_another_run_among_those_of_this_are_named(bent, server, tmp_path):
    user = bent.manifest["plan"]["user"]
    other = tmp_path / "other"
    list(run(make_plan(user, server, env="RLVER-Challenging-v0", agents=AGENTS[:1]), other))
    better = {one.key: one for one in read_episodes(other)}
    bent.episodes = [better.get(one.key, one) for one in bent.episodes]
    bent.write()
    found = json.loads(invoke("report", bent.folder, "--json").stdout)
    told = found["verified"][str(bent.folder)]
    assert told["problems"]["foreign"]["lines"] == [1, 2, 3, 4]
    assert told["problems"]["missing"]["count"] == 4
    assert told["divergent"] == 4
    scores = {one["agent"]: one for one in found["scores"]}
    assert scores["listener"]["missing"] == 4
    assert scores["listener"]["final"] == [None] * 3


def test_a_failed_last_turn_that_is_taken_out_hides_no_failure(tmp_path):
    answers = EmbeddedAnswers(card="SAGE-Sentient-v0")
    name = library().get(PEOPLE[1]).person.name

    def answer(body):
        told, asked = (message["content"] for message in body["messages"][:2])
        return "?" if name in told and asked.count('"text"') > 4 else answers(body)

    with ChatServer(answer) as server:
        list(run(make_plan("openai:user", server, agents=AGENTS[:1], seeds=1), tmp_path / "run"))
    bent = Bent(tmp_path / "run")
    assert [one.failed_by for one in bent.episodes] == [None, "user"]
    told = json.loads(invoke("verify", bent.folder, "--json").stdout)
    assert told["sound"] is True
    of = {"agent": 0, "user": 1}
    assert told["failed"] == {"total": 1, **of, "agents": {"listener": of}}
    assert "in 1 of them the user failed" in invoke("verify", bent.folder).output
    bent.replace(1, turns=bent.episodes[1].turns[:-1])
    bent.write()
    told = json.loads(invoke("verify", bent.folder, "--json").stdout)
    assert (told["sound"], told["divergence"]["line"]) == (False, 2)
    assert "it is cut off after" in told["divergence"]["what"]


FAILS_WHEN_IT_GOES_BADLY = """
from rlver_gym.agents import BASELINES
from rlver_gym.util.errors import AgentFailed

class Agent:
    def __init__(self):
        self.inner = BASELINES["advice"](0)

    def reply(self, messages):
        if len(messages) > 3:
            raise AgentFailed("its time was up")
        return self.inner.reply(messages)

class Honest(Agent):
    def reply(self, messages):
        return self.inner.reply(messages)
"""


def test_an_agent_that_fails_when_it_goes_badly_ranks_behind_one_that_does_not(
    tmp_path, monkeypatch
):
    (tmp_path / "quitter.py").write_text(FAILS_WHEN_IT_GOES_BADLY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    words = [word for name in PEOPLE for word in ("--persona", name)]
    words += ["--agent", "quitter:Agent", "--agent", "quitter:Honest", "--seeds", "1"]
    done = invoke("bench", *words, "--out", tmp_path / "run", "--json")
    assert done.exit_code == 4
    told = json.loads(done.stdout)
    assert told["failed"] == {"quitter:Agent": {"agent": 2, "user": 0}}
    first, last = told["scores"]
    assert (first["agent"], last["agent"]) == ("quitter:Honest", "quitter:Agent")
    assert (last["failed"], last["failed_by_agent"], last["at_worst"]) == (2, 2, [0.0, 0.0, 0.0])
    assert first["at_worst"] == first["final"]
    verdict = json.loads(invoke("verify", tmp_path / "run", "--json").stdout)
    assert (verdict["sound"], verdict["failed"]["agent"]) == (True, 2)
    assert "in 2 of them the agent gave no reply" in invoke("verify", tmp_path / "run").output
    card = tmp_path / "hf" / "README.md"
    invoke("export", tmp_path / "run", "--to", "hf", "--outcome", "all", "--out", card.parent)
    assert "| quitter:Agent | 2 | none ended |" in card.read_text(encoding="utf-8")
    assert "at worst" in invoke("report", tmp_path / "run").output
    (table,) = read_page(tmp_path / "run" / "report.html")["overview"]["tables"]
    assert {one["agent"]: one["failed_by_agent"] for one in table["scores"]}["quitter:Agent"] == 2


def test_a_run_that_is_continued_holds_again_what_was_cut_off_or_edited(bent, server):
    plan = make_plan(bent.manifest["plan"]["user"], server)
    whole = (bent.folder / EPISODES).read_bytes()
    bent.replace(0, turns=bent.episodes[0].turns[:-1])
    bent.write()
    lines = (bent.folder / EPISODES).read_text(encoding="utf-8")
    edited = lines.splitlines()[-1]
    changed = edited.replace('"thought":"', '"thought":"Ah. ', 1)
    (bent.folder / EPISODES).write_text(lines.replace(edited, changed), encoding="utf-8")
    with open_run(plan, bent.folder) as continued:
        assert continued.num_dropped == 2
        held = [one.key for one in continued.run_missing()]
    assert held == [bent.episodes[0].key, bent.episodes[-1].key]
    assert (bent.folder / EPISODES).read_bytes() == whole


@pytest.mark.parametrize("kind", ["doubled", "another seed"])
def test_a_run_with_dialogues_of_no_such_plan_is_not_continued(kind, bent, server):
    FORGED[kind][0](bent)
    bent.write()
    with pytest.raises(RunError, match=r"has not written .*line 9.*Take these lines out"):
        list(run(make_plan(bent.manifest["plan"]["user"], server), bent.folder))


def test_what_is_no_record_of_the_plan_is_not_exported(bent, tmp_path):
    bent.replace(0, turns=bent.episodes[0].turns[:2])
    bent.replace(1, user_version="99")
    bent.episodes += [bent.episodes[2], bent.episodes[2]._replace(seed=9)]
    bent.write()
    done = export([bent.folder], "sft", tmp_path / "sft")
    assert len(done.chosen.records) == 6
    lines = {"unfinished": [1], "foreign": [2], "doubled": [9], "unplanned": [10]}
    assert done.problems[0].lines == lines
    told = invoke("export", bent.folder, "--to", "hf", "--out", tmp_path / "hf")
    assert "no finished dialogue" in told.output
    cut_at_the_best_moment()(bent)
    bent.write()
    with pytest.raises(RunError, match=r"no episodes .* that count.*: no finished dialogue"):
        export([bent.folder], "sft", tmp_path / "none")


def test_missing_dialogues_count_as_nothing_in_the_score_at_worst(bent):
    listener = [one for one in bent.episodes if one.agent == "listener"]
    bent.episodes.remove(min(listener, key=lambda one: one.final))
    kept = [one.final for one in bent.episodes if one.agent == "listener"]
    bent.write()
    found = json.loads(invoke("report", bent.folder, "--no-recompute", "--json").stdout)
    (score,) = [one for one in found["scores"] if one["agent"] == "listener"]
    assert score["missing"] == 1
    assert score["at_worst"][0] == sum(kept) / 4
    assert score["final"][0] > score["at_worst"][0]
    assert found["verified"][str(bent.folder)]["sound"] is None


PIN = ("agents", "openai:agent")
UNASKED = "what openai:agent said .* not asked again: "
ELSEWHERE = "by its response cache, agent was asked at http://127.*, not at http://best"


@pytest.mark.parametrize(
    ("bend", "says", "sound"),
    [
        (change_turn(utterance="Hush."), "is recorded to say 'Hush.', asked again it says ", False),
        (FAIL_BY_THE_AGENT, "is recorded to fail, asked again it says", False),
        (delete(RESPONSE_CACHE_FILE), f"{UNASKED}its response cache is missing", False),
        (edit(*PIN, system="0" * 16), f"{UNASKED}.* not what this version asks with", False),
        (edit(*PIN, base_url="http://best"), ELSEWHERE, True),
    ],
)
def test_what_a_chat_model_said_as_the_agent_is_asked_of_the_cache(
    bend, says, sound, server, tmp_path
):
    plan = make_plan("embedded", server, agents=("openai:agent",), persona_ids=PEOPLE[:1])
    list(run(plan, tmp_path / "run"))
    bent = Bent(tmp_path / "run")
    told = json.loads(invoke("verify", bent.folder, "--json").stdout)
    assert (told["sound"], told["asked_again"]) == (True, ["openai:agent"])
    bend(bent)
    for at, one in enumerate(bent.episodes):
        if one.failed_by is None:
            bent.episodes[at] = replay_episode(make_session(one), one)
    bent.write()
    assert json.loads(invoke("verify", bent.folder, "--json").stdout)["sound"] is sound
    for place, text in tell_everywhere(bent.folder).items():
        assert re.search(says, text), (place, text)


def make_session(episode):
    """In which the words of an episode can be said again."""
    persona = library().get(episode.persona)
    return EmpathySession(EmbeddedUser(), persona, env_card(episode.env), episode.seed)


def test_the_package_that_is_said_to_have_made_a_run_is_named_when_it_is_not_this_one(bent):
    bent.manifest["package"] = "9.9.9"
    bent.write()
    told = json.loads(invoke("verify", bent.folder, "--json").stdout)
    assert (told["sound"], told["package"]) == (True, "9.9.9")
    assert "all as recorded by rlver-gym 9.9.9" in invoke("verify", bent.folder).output


@pytest.mark.parametrize(
    "words", ["verify", "report", "strategies", "rescore --user embedded", "export --to sft"]
)
def test_a_run_that_was_killed_within_a_line_is_told_how_it_goes_on(words, bent):
    path = bent.folder / EPISODES
    path.write_bytes(path.read_bytes()[:-30])
    name, *options = words.split()
    told = invoke(name, bent.folder, *options)
    assert told.exit_code != 0
    assert "The same bench command goes on from there" in f"{told.output}{told.exception}"


def test_without_a_manifest_what_was_cut_and_called_content_is_not_exported(bent, tmp_path):
    bent.replace(0, turns=bent.episodes[0].turns[:2])
    bent.replace_turn(0, -1, outcome=Outcome.CONTENT)
    bent.episodes.append(bent.episodes[1])
    bent.write()
    (bent.folder / MANIFEST).unlink()
    done = export([bent.folder], "sft", tmp_path / "sft")
    assert done.problems[0].lines == {"unfinished": [1], "doubled": [9]}
    assert "manifest.json: there is none" in " ".join(done.problems[0].describe("run"))
    assert len(done.chosen.records) == 7
