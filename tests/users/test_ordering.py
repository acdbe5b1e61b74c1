"""The order of agents that a trustworthy score must show, on the test personas."""

import pytest

from rlver_gym import EmpathySession, env_card
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.bench.score import compute_paired_difference, compute_persona_finals, score_agents
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser

pytestmark = pytest.mark.slow
START = 40


@pytest.fixture(scope="module")
def episodes(tmp_path_factory):
    """Of the usual benchmark."""
    return list(run(BenchPlan(), tmp_path_factory.mktemp("run")))


def mean(episodes, agent, need=None):
    finals = [
        episode.final
        for episode in episodes
        if episode.agent == agent and need in (None, episode.need)
    ]
    return sum(finals) / len(finals)


def mean_change(episodes, agent, need):
    """Of a reply: where two agents are left by everybody, their final emotions say only how far
    below the threshold the last change fell.
    """
    changes = [
        turn.appraisal.change
        for episode in episodes
        if (episode.agent, episode.need) == (agent, need)
        for turn in episode.turns
    ]
    return sum(changes) / len(changes)


def test_who_was_told_everything_is_above_who_takes_up_what_is_told_and_both_above_phrases(
    episodes,
):
    """As readers have it (research/corpus.md): oracle, listener, and far below the templates that
    paste and the stock phrases.
    """
    ranking = [score.agent for score in score_agents(episodes)]
    assert ranking[:2] == ["oracle", "listener"]


@pytest.mark.xfail(strict=True, reason="version 12 overpays template questions (55; readers 22)")
def test_templates_that_take_up_what_is_told_end_below_the_start(episodes):
    assert mean(episodes, "listener") < START


@pytest.mark.parametrize("other", ["comfort", "praise", "advice", "echo", "gibberish", "silent"])
def test_who_takes_up_what_is_told_is_above_every_agent_that_does_not(episodes, other):
    assert (
        compute_paired_difference(
            compute_persona_finals(episodes, "listener"), compute_persona_finals(episodes, other)
        ).low
        > 0
    )


OVERPAID = pytest.mark.xfail(strict=True, reason="version 12 pays it 21 (version 11: 18)")


@pytest.mark.parametrize(
    "agent", ["comfort", "praise", "advice", pytest.param("adaptive", marks=OVERPAID)]
)
def test_stock_phrases_bring_nobody_above_the_start(episodes, agent):
    assert mean(episodes, agent) < START / 2


@pytest.mark.parametrize("need", ["deep_empathy", "listening"])
def test_listening_beats_comfort_beats_advice_where_feelings_count(episodes, need):
    listener, comfort, advice = (
        mean_change(episodes, agent, need) for agent in ("listener", "comfort", "advice")
    )
    assert listener > comfort > advice


@pytest.mark.parametrize("agent", ["silent", "echo", "gibberish"])
def test_who_says_nothing_ends_below_the_start(episodes, agent):
    assert max(episode.final for episode in episodes if episode.agent == agent) < START


def test_any_reply_said_every_turn_ends_below_the_start(episodes):
    """Even the most welcome single reply of the oracle or the adaptive agent, which is not the same
    for any two people.
    """
    for persona_id in library().ids("test"):
        turns = [
            turn for episode in episodes if episode.persona == persona_id for turn in episode.turns
        ]
        best = sorted(
            {turn.utterance: turn.appraisal.change for turn in turns}.items(),
            key=lambda pair: -pair[1],
        )[:5]
        for utterance, _ in [
            *best,
            ("I hear you, and I'm here. Tell me more about it, I have time.", 0),
        ]:
            session = EmpathySession(
                EmbeddedUser(), library().get(persona_id), env_card("SAGE-Sentient-v0"), 0
            )
            session.start()
            while session.outcome is None:
                session.reply(utterance)
            assert session.emotion < START, (persona_id, utterance)
