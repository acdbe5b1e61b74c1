"""The order of agents that a trustworthy score must show, on the test personas."""

from statistics import fmean

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
    own = [one for one in episodes if one.agent == agent and need in (None, one.need)]
    return fmean(one.final for one in own)


def mean_change(episodes, agent, need):
    """Of a reply: where two agents are left by everybody, their final emotions say only how far
    below the threshold the last change fell.
    """
    own = [one for one in episodes if (one.agent, one.need) == (agent, need)]
    return fmean(turn.appraisal.change for one in own for turn in one.turns)


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
    finals = (compute_persona_finals(episodes, agent) for agent in ("listener", other))
    assert compute_paired_difference(*finals).low > 0


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
        held = [episode for episode in episodes if episode.persona == persona_id]
        earned = {one.utterance: one.appraisal.change for each in held for one in each.turns}
        best = sorted(earned, key=lambda utterance: -earned[utterance])[:5]
        persona, card = library().get(persona_id), env_card("SAGE-Sentient-v0")
        warm = "I hear you, and I'm here. Tell me more about it, I have time."
        for utterance in (*best, warm):
            session = EmpathySession(EmbeddedUser(), persona, card, 0)
            session.start()
            while session.outcome is None:
                session.reply(utterance)
            assert session.emotion < START, (persona_id, utterance)
