"""TextArena, with games of its registry and agents of its kind."""

import pytest

ta = pytest.importorskip("textarena")

from adapters.textarena_env import SUPPORTER
from failing import FailsInTurn
from integrations.drivers.textarena import Script
from integrations.scripted import UTTERANCES, hold_episode

from rlver_gym.integrations.episodes import EpisodeSpec
from rlver_gym.library.personas import library

SPEC = EpisodeSpec(library().ids("train")[3], 5)


def run_game(utterances, **options):
    """The rewards and the game info, as the usual loop gets them."""
    env = ta.make("RLVER-Empathy-v0", specs=[SPEC], **options)
    agent, done = Script(utterances), False
    env.reset(num_players=1, seed=5)
    while agent.left and not done:
        done, _ = env.step(agent(env.get_observation()[1]))
    return env.close()


def test_the_reward_at_the_end_is_the_final_emotion_and_the_game_info_has_those_of_the_turns():
    episode = hold_episode(SPEC.persona, 5, UTTERANCES * 3)
    rewards, game_info = run_game(UTTERANCES * 3)
    assert rewards == {SUPPORTER: episode.score}
    assert game_info[SUPPORTER]["turn_rewards"] == episode.rewards
    assert game_info[SUPPORTER]["turn_count"] == len(episode.rewards)


def test_an_observation_is_the_conversation_and_begins_anew_with_each_episode():
    env = ta.make("RLVER-Empathy-v0", specs=[SPEC])
    env.reset(num_players=1, seed=5)
    first = env.get_observation()
    opening = hold_episode(SPEC.persona, 5).messages[-1]["content"]
    assert first == (SUPPORTER, f"\n[GAME] {SPEC.system_prompt}\n[Person] {opening}")
    env.step("What\x07 happened?")
    _, second = env.get_observation()
    assert second.startswith(f"{first[1]}\n[Supporter] What happened?\n[Person] ")
    env.reset(num_players=1, seed=5)
    assert env.get_observation() == first


@pytest.mark.parametrize("turn", [0, 2, None])
def test_a_game_that_came_to_no_end_has_no_result(turn):
    options = {} if turn is None else {"user": FailsInTurn(turn)}
    rewards, game_info = run_game(UTTERANCES, **options)
    assert rewards is None
    assert game_info[SUPPORTER]["valid"] == (turn is None)
