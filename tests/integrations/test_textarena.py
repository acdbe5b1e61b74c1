"""TextArena, with games of its registry and agents of its kind."""

import random

import pytest

ta = pytest.importorskip("textarena")

from adapters.textarena_env import PERSON, SUPPORTER
from integrations.drivers.textarena import Script, play
from integrations.failing import FailsInTurn
from integrations.scripted import RUDE, UTTERANCES, hold_episode

from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.library import library
from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.util.errors import CardError, DialogueError, UnknownName

PERSONA = library().ids("train")[3]


def run_game(env, utterances, seed=5):
    """The infos of the turns, the rewards and the game info, as the usual loop gets them."""
    agent = Script(utterances)
    env.reset(num_players=1, seed=seed)
    infos, done = [], False
    while not done:
        _, observation = env.get_observation()
        done, info = env.step(agent(observation))
        infos.append(info)
    return infos, *env.close()


def test_the_reward_at_the_end_is_the_final_emotion_and_those_of_the_turns_are_in_the_infos():
    episode = hold_episode(PERSONA, 5, UTTERANCES * 3)
    infos, rewards, game_info = run_game(
        ta.make("RLVER-Empathy-v0", persona=PERSONA), UTTERANCES * 3
    )
    assert [info["reward"] for info in infos] == episode.rewards
    assert rewards == {SUPPORTER: episode.score}
    assert game_info[SUPPORTER]["turn_rewards"] == episode.rewards
    assert game_info[SUPPORTER]["turn_count"] == len(episode.rewards)
    assert game_info[SUPPORTER]["reason"] == infos[-1]["outcome"]
    assert episode.metrics[f"outcome_{infos[-1]['outcome']}"] == 1


def test_an_observation_is_the_conversation_and_begins_anew_with_each_episode():
    env = ta.make("RLVER-Empathy-v0", persona=PERSONA)
    env.reset(num_players=1, seed=5)
    player, first = env.get_observation()
    opening = hold_episode(PERSONA, 5).messages[-1]["content"]
    assert player == SUPPORTER
    assert first == f"\n[GAME] {agent_prompt()}\n[Person] {opening}"
    env.step("What happened?")
    _, second = env.get_observation()
    assert second.startswith(f"{first}\n[Supporter] What happened?\n[Person] ")
    env.reset(num_players=1, seed=5)
    assert env.get_observation() == (SUPPORTER, first)


def test_a_raw_game_gives_what_is_new_as_messages():
    env = ta.make("RLVER-Empathy-v0-raw", persona=PERSONA)
    env.reset(num_players=1, seed=5)
    _, begun = env.get_observation()
    env.step("What\x07 happened?")
    _, heard = env.get_observation()
    assert [one[0] for one in begun] == [ta.GAME_ID, PERSON]
    assert heard[0] == (SUPPORTER, "What happened?", ta.ObservationType.PLAYER_ACTION)
    assert heard[1][::2] == (PERSON, ta.ObservationType.GAME_MESSAGE)


def test_nothing_that_a_supporter_could_not_know_is_in_observations_infos_or_state():
    env = ta.make("RLVER-Empathy-v0-raw", persona=PERSONA)
    infos, _, game_info = run_game(env, [RUDE] * 8)
    for told in (*infos, *game_info.values(), env.state.game_state):
        assert not set(told) & set(EmpathyEnv.privileged_info)


def test_a_user_that_fails_ends_the_game_without_a_result():
    env = ta.make("RLVER-Empathy-v0", persona=PERSONA, user=FailsInTurn(2))
    infos, rewards, game_info = run_game(env, UTTERANCES)
    assert [info["valid"] for info in infos] == [True, False]
    assert rewards is None
    assert not game_info[SUPPORTER]["valid"]
    assert "failed" in game_info[SUPPORTER]["reason"]


def test_a_seed_chooses_as_in_gymnasium_and_leaves_the_global_generator_alone():
    random.seed(3)
    state = random.getstate()
    env, reference = ta.make("RLVER-Empathy-v0"), EmpathyEnv()
    for seed in (7, None, None, 8):
        env.reset(num_players=1, seed=seed)
        reference.reset(seed=seed)
        env.step(UTTERANCES[0])
        _, reward, _, _, info = reference.step(UTTERANCES[0])
        assert env.state.game_state["persona"] == info["persona"]
        assert env.state.game_info[SUPPORTER]["turn_rewards"] == [reward]
    assert random.getstate() == state


def test_every_shipped_card_is_a_game():
    env = ta.make("RLVER-Sparse-v0", persona=PERSONA)
    infos, rewards, _ = run_game(env, [RUDE] * 8)
    assert [info["reward"] for info in infos[:-1]] == [0.0] * (len(infos) - 1)
    assert infos[-1]["reward"] == rewards[SUPPORTER]


def test_what_cannot_be_played_is_an_error_that_says_why():
    with pytest.raises(UnknownName, match="nobody"):
        ta.make("RLVER-Empathy-v0", persona="nobody")
    with pytest.raises(CardError, match="OPENAI_API_KEY"):
        ta.make("RLVER-Empathy-v0", user="openai:any", api_key="secret")
    env = ta.make("RLVER-Empathy-v0", persona=PERSONA)
    with pytest.raises(DialogueError, match="has not begun"):
        env.step("Hello")
    with pytest.raises(DialogueError, match="one player"):
        env.reset(num_players=2)


def test_a_game_that_is_left_early_has_no_result_yet():
    assert len(play(PERSONA, 5, UTTERANCES).rewards) == 3
    env = ta.make("RLVER-Empathy-v0", persona=PERSONA)
    env.reset(num_players=1, seed=5)
    env.step(UTTERANCES[0])
    assert env.close()[0] is None
