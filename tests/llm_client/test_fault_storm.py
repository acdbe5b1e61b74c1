"""A storm of faults over whole dialogues: each ends, the counts agree, equal seeds are equal."""

import asyncio
import json
from collections import Counter
from typing import Any, NamedTuple

import pytest
from faulty_server import ALL, Faults, FaultyServer
from machine import slack

from rlver_gym import EmpathySession, env_card, make_agent, make_user
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.episode import Episode
from rlver_gym.environment.rollout import arollout
from rlver_gym.library.personas import library
from rlver_gym.llm_client.connect import spending
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.llm_client.spending import Spent
from rlver_gym.testing.answers import EmbeddedAnswers

CARD = env_card("RLVER-Empathy-v0")
PEOPLE = library().ids("train")
ANSWERS = EmbeddedAnswers()
DEADLINE_S = 560.0
"""Far beyond what any storm takes: only a hang reaches it."""


class Storm(NamedTuple):
    episodes: list[Episode]
    spent: Spent
    """By all clients together."""
    requests: tuple[dict[str, Any], ...]
    """The bodies of all calls, as the server saw them."""
    faults: dict[str, int]


def pairs(users, count):
    for number in range(count):
        persona = library().get(PEOPLE[number % len(PEOPLE)])
        session = EmpathySession(users[number % len(users)], persona, CARD, number)
        yield session, make_agent("listener", persona, number)


def storm(count, *, attempt_timeout_s, clients=1, seed=3, rate=0.3):
    """So many dialogues at once with a server of which 30 % of the calls fail (`rate`), in every
    way that servers do.

    What hangs always ends at `attempt_timeout_s`, which no answer comes near: so which attempts
    fail does not depend on the load. A client that is told so often to wait asks for little at
    once, so that many dialogues take several.
    """
    with FaultyServer(ANSWERS, faults=Faults(rate, seed=seed, retry_after_s=0.01)) as server:
        usual = ChatSettings(
            base_url=server.base_url,
            attempts=3,
            attempt_timeout_s=attempt_timeout_s,
            concurrency=8,
            # whether many faults at once are an outage is a matter of when they come
            max_wait_s=None,
        )
        deadlines = (DEADLINE_S + number for number in range(clients))  # each a client of its own
        settings = [usual.model_copy(update={"timeout_s": each}) for each in deadlines]
        users = [make_user("openai:m", **dict(each)) for each in settings]

        async def held():
            dialogues = arollout(pairs(users, count), concurrency=count)
            return [Episode.of(session, "listener") async for session in dialogues]

        episodes = asyncio.run(asyncio.wait_for(held(), DEADLINE_S))
        spent = Spent(*map(sum, zip(*(spending(each).spent for each in settings), strict=True)))
        return Storm(episodes, spent, server.requests, server.faults_served)


def step_of(body):
    """What a call asks for; "repair" when it asks anew."""
    if len(body["messages"]) > 2:
        return "repair"
    return json.loads(body["messages"][1]["content"].split("\n")[-1])["step"]


def check(found, count):
    assert [episode.seed for episode in found.episodes] == list(range(count))
    failed = [episode for episode in found.episodes if episode.outcome is Outcome.FAILED]
    assert None not in {episode.outcome for episode in found.episodes}
    assert 0 < len(failed) < count
    for episode in failed:
        *before, last = episode.turns
        assert last.appraisal.reasons[0].note.startswith("the user failed: ")
        assert "no usable answer" in last.appraisal.reasons[0].note
        assert (last.reward, last.reply, last.appraisal.change) == (0.0, "", 0)
        assert last.emotion == (before[-1].emotion if before else CARD.start)
    for episode in found.episodes:
        assert episode.total_reward == episode.final - episode.start
        assert [turn.outcome for turn in episode.turns[:-1]] == [None] * (len(episode.turns) - 1)
    _counts_agree(found)


def _counts_agree(found):
    """What the client counted, the server saw and the dialogues hold are the same calls."""
    turns = [
        turn for episode in found.episodes for turn in episode.turns if turn.utterance
    ]  # none where the opening failed
    different = {json.dumps(body, sort_keys=True): step_of(body) for body in found.requests}
    steps = Counter(different.values())
    assert (found.spent.attempts, found.spent.calls) == (len(found.requests), len(different))
    assert steps["appraise"] == len(turns)
    answered = sum(turn.outcome is not Outcome.FAILED for turn in turns)
    assert answered <= steps["speak"] <= len(turns)
    repeated = found.spent.attempts - found.spent.calls
    final = sum(episode.outcome is Outcome.FAILED for episode in found.episodes)
    told = sum(count for kind, count in found.faults.items() if kind != "nonsense")
    assert repeated <= told <= repeated + final
    assert found.faults["nonsense"] >= steps["repair"] > 0


@pytest.mark.slow
@pytest.mark.timeout(1_200)  # minutes on a busy machine
def test_a_storm_over_two_hundred_dialogues_ends_well_and_twice_the_same():
    timeout_s = 16.0 * min(4.0, slack())  # an answer that comes too late is one more attempt
    first, second = (storm(200, attempt_timeout_s=timeout_s, clients=40) for _ in range(2))
    check(first, 200)
    assert set(first.faults) == ALL
    pairs_of = zip(first.episodes, second.episodes, strict=True)
    assert [ours.key for ours, theirs in pairs_of if ours != theirs] == []
    assert (first.spent, first.faults) == (second.spent, second.faults)
