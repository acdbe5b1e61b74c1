"""The noise floor by hand, replicates under other seeds of the user, and runs side by side."""

import json
from functools import lru_cache
from math import nan, sqrt
from statistics import fmean

import pytest
from commands import run_command
from pages import read_page

from rlver_gym.bench.compare import read_comparisons
from rlver_gym.bench.folder import read_episodes
from rlver_gym.bench.noise import (
    describe_seed_noise,
    describe_shift_between_users,
    measure_spread_over_runs,
    measure_spread_over_user_seeds,
)
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.bench.verify import verify
from rlver_gym.core.emotion import Outcome
from rlver_gym.library.personas import library
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.studio.runs import Runs
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.util.correlation import kendall_tau
from rlver_gym.util.interval import AgentSpread, Spread

PEOPLE = library().ids("demo")[:2]
AGENTS = ("adaptive", "gibberish", "listener")
PLAN = BenchPlan(agents=AGENTS, seeds=2, user_seeds=3, persona_ids=PEOPLE)
WORDS = ("--seeds", "2", *(word for one in PEOPLE for word in ("--persona", one)))
"""The same plan, but for agents and replicates, on the command line."""


def spread(**means):
    agents = tuple(AgentSpread(name, values) for name, values in means.items())
    return Spread(tuple(map(str, range(len(agents[0].means)))), agents)


@pytest.mark.parametrize(
    ("one", "other", "tau"),
    [
        ((1, 2, 3), (3, 2, 1), -1),
        ((1, 2, 3, 4), (1, 3, 2, 4), (5 - 1) / 6),
        ((1, 1, 2), (1, 2, 3), 2 / sqrt(2 * 3)),
        ((1, 1), (1, 2), nan),
    ],
)
def test_kendall_tau_by_hand(one, other, tau):
    assert kendall_tau(one, other) == pytest.approx(tau, nan_ok=True)


def test_the_noise_floor_and_how_far_runs_are_apart_by_hand():
    # Variances 8 and 0: pooled 4, so 1.96 * sqrt(2) * 2.
    found = spread(a=(50.0, 54.0), b=(51.0, 51.0))
    assert [one.sd for one in found.agents] == pytest.approx([sqrt(8), 0])
    assert found.noise_floor == pytest.approx(5.5437, abs=1e-4)
    assert describe_shift_between_users(spread(a=(50.0, 30.0), b=(20.0, 26.0), c=(10.0, 10.0))) == [
        "Level: scores differ by 8.7 points on average, by 20.0 at most (a).",
        "Order: Kendall tau 1.00.",
    ]
    # 1.96 * sqrt(2) * sqrt(8) for a alone, 5.5437 / sqrt(2) for means over both.
    assert describe_seed_noise(found) == [
        "Differences below 5.5 points are noise of the user (95 %, pooled over agents; 7.8 for a,"
        " which moves most); of means over all 2 user seeds, below 3.9.",
        "Order: Kendall tau -1.00.",
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replicates")
    list(run(PLAN, folder))
    assert list(verify(folder)) == [None] * len(AGENTS) * len(PEOPLE) * 2 * 3
    return folder


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    folder = tmp_path_factory.mktemp("single")
    list(run(PLAN.model_copy(update={"user_seeds": 1}), folder))
    return folder


def of(episodes, agent, seed):
    return [one for one in episodes if one.agent == agent and one.seed == seed]


def test_the_first_replicate_is_the_benchmark_without_replicates(folder, single):
    episodes = read_episodes(single)
    assert [one for one in read_episodes(folder) if one.seed < 2] == episodes
    assert measure_spread_over_user_seeds(episodes, 2, 1) is None
    assert measure_spread_over_runs(read_comparisons([single])) is None
    assert Runs([single]).overview["tables"][0]["noise"] is None


def test_a_replicate_changes_the_seed_of_the_user_and_not_that_of_the_agent(folder):
    """What gibberish says hangs on its seed and on the turn, and on nothing that it hears."""
    episodes = read_episodes(folder)
    talks = [[one.turns for one in of(episodes, "gibberish", seed)] for seed in range(6)]
    said = [[[turn.utterance for turn in turns[:3]] for turns in talk] for talk in talks]
    assert said[0] == said[2] == said[4] != said[1] == said[3] == said[5]
    heard = [[[turn.reply for turn in turns] for turns in talk] for talk in talks]
    assert heard[0] != heard[2]


def test_the_spread_is_that_of_the_means_of_each_replicate(folder):
    episodes = read_episodes(folder)
    found = measure_spread_over_user_seeds(episodes, 2, 3)
    assert found
    assert {one.agent for one in found.agents} == set(AGENTS)
    by_seed = [[one.final for one in of(episodes, "listener", seed)] for seed in range(6)]
    # as many with each persona, so the mean over personas is that over dialogues
    means = [fmean(by_seed[at] + by_seed[at + 1]) for at in (0, 2, 4)]
    listener = next(one for one in found.agents if one.agent == "listener")
    assert listener.means == pytest.approx(means)
    means = [one.mean for one in found.agents]
    assert means == sorted(means, reverse=True)


def test_a_persona_with_whom_a_whole_replicate_failed_counts_in_none(folder):
    def fail(one):
        last = one.turns[-1]._replace(outcome=Outcome.FAILED)
        is_lost = one.persona == PEOPLE[0] and one.seed in (2, 3)
        return one._replace(turns=(*one.turns[:-1], last)) if is_lost else one

    episodes = read_episodes(folder)
    others = [one for one in episodes if one.persona != PEOPLE[0]]
    spreads = [
        measure_spread_over_user_seeds(some, 2, 3) for some in ([*map(fail, episodes)], others)
    ]
    assert spreads[0] == spreads[1]


def test_bench_and_report_say_the_same_of_the_noise(folder, tmp_path):
    agents = [word for one in AGENTS for word in ("--agent", one)]
    words = ["bench", *agents, *WORDS, "--user-seeds", "3", "--out", str(folder)]
    table = run_command(*words)
    assert table.returncode == 0, table.stderr
    assert "2 personas x 2 seeds x 3 user seeds" in table.stdout
    noise = measure_spread_over_user_seeds(read_episodes(folder), 2, 3)
    assert noise
    page = read_page(folder / "report.html")["overview"]["tables"][0]["noise"]["says"]
    report = run_command("report", str(folder), "--out", str(tmp_path / "page.html")).stdout
    markdown = run_command("report", str(folder), "--markdown", "--no-recompute").stdout
    texts = table.stdout, page, report, markdown.replace("\\", "")
    for sentence in describe_seed_noise(noise):
        assert all(sentence in text for text in texts)
    for command in (words, ["report", str(folder)]):
        found = json.loads(run_command(*command, "--json").stdout)["noise"]
        assert list(found["agents"]) == [score["agent"] for score in _scores(folder)]
        assert len(found["agents"]["listener"]["means"]) == 3


def _scores(folder):
    told = run_command("report", str(folder), "--json", "--no-recompute").stdout
    return json.loads(told)["scores"]


class SeededAnswers:
    """A user whose lines hang on the seed of the request, as a language model's do."""

    def __init__(self):
        self.seeds = []
        people = tuple(map(library().get, PEOPLE))
        self._make = lru_cache(
            lambda seed: EmbeddedAnswers(people, card="SAGE-Sentient-v0", seed=seed)
        )

    def __call__(self, body):
        self.seeds.append(body["seed"])
        return self._make(body["seed"] % 5)(body)


@pytest.fixture(scope="module")
def llm_folder(tmp_path_factory):
    folder, answers = tmp_path_factory.mktemp("llm"), SeededAnswers()
    with ChatServer(answers) as server:
        chat = ChatSettings.model_validate({"base_url": server.base_url, "attempts": 1})
        list(run(PLAN.model_copy(update={"user": "openai:user", "chat": chat, "seeds": 1}), folder))
    return folder, answers


def test_replicates_with_an_llm_user_ask_under_other_seeds_and_are_verified_without_its_server(
    llm_folder,
):
    folder, answers = llm_folder
    assert all(one is None for one in verify(folder))
    found = measure_spread_over_user_seeds(read_episodes(folder), 1, 3)
    assert found
    assert found.noise_floor > 0
    # One seed for the opening and one for each step of each turn, in each replicate others.
    assert len(set(answers.seeds)) > 2 * len({one.seed for one in read_episodes(folder)})


def test_runs_with_other_users_are_compared_where_they_share_agents(llm_folder, folder, tmp_path):
    runs = [folder, llm_folder[0]]
    comparisons = read_comparisons(runs)
    assert len(comparisons) == 2
    found = measure_spread_over_runs(comparisons)
    assert found
    assert found.replicates == tuple(one.name for one in runs)
    ours, theirs = ({score["agent"]: score["final"] for score in _scores(one)} for one in runs)
    assert {one.agent: one.means for one in found.agents} == {
        agent: pytest.approx((ours[agent][0], theirs[agent][0])) for agent in AGENTS
    }
    out = ("--out", str(tmp_path / "both.html"))
    shown = run_command("report", *map(str, runs), *out).stdout
    page = read_page(tmp_path / "both.html")["overview"]["shift"]["says"]
    for sentence in describe_shift_between_users(found):
        assert sentence in shown
        assert sentence in page
    list(run(PLAN.model_copy(update={"agents": ("silent",), "user_seeds": 1}), tmp_path / "other"))
    strangers = [folder, tmp_path / "other"]
    assert measure_spread_over_runs(read_comparisons(strangers)) is None
    assert Runs(strangers).overview["shift"] is None
    plain = json.loads(run_command("report", *map(str, runs), *out, "--json").stdout)
    assert plain["between_runs"] == json.loads(json.dumps(found.to_dict()))
