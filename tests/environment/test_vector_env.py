"""Many dialogues at once: the same as one by one."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlver_gym import EmpathyEnv, EmpathyVectorEnv
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import DialogueError, UserFailed, UtteranceError

WORDS = ["What happened?", "That must hurt.", "", "You managed that well.", "Tell me more."]


def words(step, count):
    return tuple(WORDS[(step + number) % len(WORDS)] for number in range(count))


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
@pytest.mark.parametrize("env_id", ["RLVER-Empathy-v0", "RLVER-Sparse-v0"])
def test_equals_sync_vector_env_step_for_step(env_id, mode):
    ours = gym.make_vec(env_id, num_envs=3, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: EmpathyEnv(env_id)] * 3, autoreset_mode=mode)
    assert isinstance(ours, EmpathyVectorEnv)
    assert data_equivalence(ours.reset(seed=11), theirs.reset(seed=11))
    for step in range(20):
        a, b = (env.step(words(step, 3)) for env in (ours, theirs))
        assert data_equivalence(a, b), step
        over = a[2] | a[3]
        if mode == "Disabled" and over.any():
            a, b = (env.reset(options={"reset_mask": over.copy()}) for env in (ours, theirs))
            assert data_equivalence(a, b), step


def test_groups_share_persona_and_seed():
    env = gym.make_vec("RLVER-Empathy-v0", num_envs=8, group_size=4)
    for seed in (5, None):
        texts, infos = env.reset(seed=seed)
        assert len(set(texts[:4])) == len(set(texts[4:])) == 1
        assert len(set(infos["persona"][:4])) == 1
        replies = env.step(("What happened?",) * 8)[0]
        assert len(set(replies[:4])) == len(set(replies[4:])) == 1


@pytest.mark.parametrize(
    "mask", [np.zeros(2, dtype=bool), np.ones(3, dtype=bool), [True, True], np.ones(2)]
)
def test_a_wrong_mask_gets_a_clear_error(mask):
    env = gym.make_vec("RLVER-Empathy-v0", num_envs=2)
    with pytest.raises(ValueError, match="reset_mask"):
        env.reset(options={"reset_mask": mask})


def test_wrong_counts_get_a_clear_error():
    env = gym.make_vec("RLVER-Empathy-v0", num_envs=2)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="group_size"):
        gym.make_vec("RLVER-Empathy-v0", num_envs=3, group_size=2)
    with pytest.raises(ValueError, match="utterances"):
        env.step(("hello",))
    with pytest.raises(ValueError, match="seeds"):
        env.reset(seed=[1])


@pytest.mark.parametrize(
    "bad",
    [("hello", "half \ud83d", "hi"), ("hello", "hi", 5), ("a", "b"), "abc", None, 3, {"a": 1}],
)
def test_a_bad_action_moves_no_dialogue(bad):
    env = gym.make_vec("RLVER-Empathy-v0", num_envs=3)
    env.reset(seed=0)
    twin = gym.make_vec("RLVER-Empathy-v0", num_envs=3)
    twin.reset(seed=0)
    with pytest.raises(UtteranceError):
        env.step(bad)
    assert data_equivalence(env.step(words(0, 3)), twin.step(words(0, 3)))


TO_THE_END = [
    "What happened?",
    "That sounds hard. How did it begin?",
    "And how are you now?",
    "Who knows about it?",
    "What would you wish for?",
    "You have carried this for a long time.",
    "I am still here, take your time.",
    "What was the worst moment?",
]


def test_an_ended_dialogue_among_others_moves_none_when_nothing_resets_it():
    env = EmpathyVectorEnv(2, autoreset_mode=AutoresetMode.DISABLED)
    env.reset(seed=0)
    said = iter(TO_THE_END)
    while not env.step((next(said), ""))[2][1]:
        pass
    turns = len(env.envs[0].session.dialogue.turns)
    assert not env.envs[0].session.outcome
    with pytest.raises(DialogueError, match="over"):
        env.step(("And then?", ""))
    assert len(env.envs[0].session.dialogue.turns) == turns


def test_an_ended_dialogue_ignores_its_action_where_the_next_step_resets_it():
    env = EmpathyVectorEnv(2, autoreset_mode=AutoresetMode.NEXT_STEP)
    env.reset(seed=0)
    while not env.step(("What happened?", ""))[2][1]:
        pass
    env.step(("And then?", None))


class CannotHear(EmbeddedUser):
    """Fails where it hears one word, also at once."""

    def hear_moments(self, moments):
        for moment in moments:
            self.appraise(*moment)

    def appraise(self, scene, emotion, dialogue):
        if dialogue.utterance == "boats":
            raise UserFailed("no boats")
        return super().appraise(scene, emotion, dialogue)


def test_one_dialogue_that_fails_ends_no_other():
    env = EmpathyVectorEnv(2, user=CannotHear(), on_failure="truncate")
    env.reset(seed=0)
    truncations = env.step(["boats", "Hello."])[3]
    assert truncations.tolist() == [True, False]


def test_seeds_of_numpy_are_seeds():
    env = gym.make_vec("RLVER-Empathy-v0", num_envs=2)
    first = env.reset(seed=7)
    assert data_equivalence(env.reset(seed=np.int64(7)), first)
    assert data_equivalence(env.reset(seed=np.array([7, 8])), first)
