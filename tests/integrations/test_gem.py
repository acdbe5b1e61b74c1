"""GEM, through its registry, its vectors and its wrappers."""

import random
from threading import Barrier

import numpy as np
import pytest

gem = pytest.importorskip("gem")

from adapters.gem_env import EmpathyTextEnv
from integrations.failing import FailsInTurn
from integrations.scripted import RUDE, UTTERANCES, hold_episode

from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.library import library
from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import CardError, DialogueError, UnknownName

pytestmark = pytest.mark.usefixtures("close_shared_clients")
ID = "social:RLVER-Empathy-v0"
PERSONA = library().ids("train")[3]


class WaitsForOthers(EmbeddedUser):
    """Appraises only while another one appraises."""

    both = Barrier(2, timeout=120)

    def appraise(self, scene, emotion, dialogue):
        self.both.wait()
        return super().appraise(scene, emotion, dialogue)


def reference_rewards(seed, utterances=UTTERANCES):
    return hold_episode(PERSONA, seed, utterances).rewards


def step_rewards(env, utterances=UTTERANCES):
    return [env.step(one)[1] for one in utterances]


def test_the_first_observation_is_what_the_policy_is_told_and_the_first_words():
    opening = hold_episode(PERSONA, 5).messages[-1]["content"]
    env = gem.make(ID, persona=PERSONA)
    assert env.reset(seed=5)[0] == f"{agent_prompt()}\n\n{opening}"
    assert gem.make(ID, persona=PERSONA, instructions=False).reset(seed=5)[0] == opening


def test_an_info_tells_nothing_that_a_supporter_could_not_know():
    env = gem.make(ID, persona=PERSONA)
    _, begun = env.reset(seed=5)
    *_, ended = [env.step(RUDE) for _ in range(3)]
    assert set(begun) == {"turn", "outcome", "valid", "persona", "cut_chars", "prev_ep_valid"}
    assert set(ended[4]) == {"turn", "outcome", "valid", "persona", "cut_chars"}
    assert not (set(begun) | set(ended[4])) & set(EmpathyEnv.privileged_info)


def test_threads_step_a_group_and_every_member_has_the_rewards_that_it_has_alone():
    envs = gem.make_vec([ID] * 8, async_mode=True, persona=PERSONA)
    envs.reset(seed=[5, 5, 6, 6, 7, 7, 8, 8])
    reward_TB = [envs.step([one] * 8)[1].tolist() for one in UTTERANCES]
    expected = [reference_rewards(seed) for seed in (5, 5, 6, 6, 7, 7, 8, 8)]
    assert [list(one) for one in zip(*reward_TB, strict=True)] == expected


def test_the_users_of_a_vector_are_waited_for_at_the_same_time():
    envs = gem.make_vec([ID] * 2, async_mode=True, persona=PERSONA, user=WaitsForOthers())
    envs.reset(seed=[5, 5])
    assert envs.step([UTTERANCES[0]] * 2)[1].tolist() == reference_rewards(5, UTTERANCES[:1]) * 2


@pytest.mark.parametrize("user", [FailsInTurn(2), FailsInTurn(0)])
def test_a_user_that_fails_truncates_and_the_reset_that_follows_still_tells(user):
    env = gem.make(ID, persona=PERSONA, user=user)
    env.reset(seed=5)
    ends = []
    while not (ends and ends[-1][3]):
        ends.append(env.step(UTTERANCES[0]))
    _, reward, terminated, truncated, info = ends[-1]
    assert (reward, terminated, truncated, info["valid"]) == (0.0, False, True, False)
    assert not env.reset()[1]["prev_ep_valid"]


def test_seeds_go_to_the_environment_alone_and_choose_as_in_gymnasium():
    random.seed(3)
    np.random.seed(3)
    before = random.getstate(), np.random.get_state()[1].tolist()
    env, reference = gem.make(ID, seed=7), EmpathyEnv()
    for seed in (7, None, None, 8):
        _, info = env.reset(None if seed == 7 else seed)
        reference.reset(seed=seed)
        env.sample_random_action()
        assert info["persona"] == reference.step("Hello")[4]["persona"]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_a_spawned_environment_with_the_same_state_goes_on_from_it_and_leaves_it_alone():
    env = gem.make(ID)
    env.reset(seed=5)
    env.step(UTTERANCES[0])
    child = env.spawn(same_state=True)
    rude, kind = [
        step_rewards(one, [said] * 2) for one, said in ((child, RUDE), (env, UTTERANCES[1]))
    ]
    assert rude != kind
    twin = gem.make(ID)
    twin.reset(seed=5)
    assert step_rewards(twin, UTTERANCES[:2])[1:] == kind[:1]
    assert child.reset() == env.reset()


def test_a_spawned_environment_without_the_state_begins_by_itself_and_shares_the_user():
    user = EmbeddedUser()
    env = gem.make(ID, persona=PERSONA, user=user, seed=5)
    env.reset()
    child = env.spawn(persona=library().ids("train")[0])
    assert child._env.user is user
    with pytest.raises(DialogueError, match="not begun"):
        child.step("Hello")
    assert child.reset()[1]["persona"] == library().ids("train")[0]


def test_a_state_cannot_be_spawned_before_the_beginning_or_with_another_card():
    env = gem.make(ID, persona=PERSONA)
    with pytest.raises(DialogueError, match="not begun"):
        env.spawn(same_state=True)
    env.reset(seed=5)
    with pytest.raises(DialogueError, match="another card"):
        env.spawn(same_state=True, env="RLVER-Challenging-v0")


def test_every_shipped_card_is_registered_and_a_card_of_ones_own_is_an_argument():
    env = gem.make("social:RLVER-Sparse-v0", persona=PERSONA)
    env.reset(seed=5)
    assert step_rewards(env) == [0.0, 0.0, 0.0]
    assert isinstance(gem.make(ID, env="SAGE-Sentient-v0"), EmpathyTextEnv)


def test_what_does_not_exist_is_named():
    with pytest.raises(UnknownName, match="nobody"):
        gem.make(ID, persona="nobody")
    with pytest.raises(CardError, match="OPENAI_API_KEY"):
        gem.make(ID, user="openai:any", api_key="secret")
