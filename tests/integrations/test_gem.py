"""GEM, through its registry, its vectors and its threads."""

import random
from threading import Barrier

import numpy as np
import pytest

gem = pytest.importorskip("gem")

from adapters.gem_env import ID
from failing import FailsInTurn
from integrations.scripted import UTTERANCES, hold_episode

from rlver_gym.integrations.episodes import EpisodeSpec
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser

SPEC = EpisodeSpec(library().ids("train")[3], 5)


class WaitsForOthers(EmbeddedUser):
    """Appraises only while another one appraises."""

    both = Barrier(2, timeout=120)

    def appraise(self, scene, emotion, dialogue):
        self.both.wait()
        return super().appraise(scene, emotion, dialogue)


def test_threads_step_a_group_and_every_member_has_the_rewards_that_it_has_alone():
    envs = gem.make_vec([ID] * 4, async_mode=True, specs=[SPEC], user=WaitsForOthers())
    observations, _ = envs.reset(seed=[5, 5, 6, 6])
    assert observations[0].startswith(f"{SPEC.system_prompt}\n\n")
    reward_TB = [envs.step([one] * 4)[1].tolist() for one in UTTERANCES]
    expected = [hold_episode(SPEC.persona, seed, UTTERANCES).rewards for seed in (5, 5, 6, 6)]
    assert [list(one) for one in zip(*reward_TB, strict=True)] == expected


@pytest.mark.parametrize("turn", [2, 0])
def test_a_user_that_fails_truncates_and_the_reset_that_follows_still_tells(turn):
    env = gem.make(ID, specs=[SPEC], user=FailsInTurn(turn))
    env.reset(seed=5)
    ends = []
    while not (ends and ends[-1][3]):
        ends.append(env.step(UTTERANCES[0]))
    _, reward, terminated, truncated, info = ends[-1]
    assert (reward, terminated, truncated, info) == (0.0, False, True, {"valid": False})
    assert not env.reset()[1]["prev_ep_valid"]


def test_seeds_go_to_the_environment_alone_and_one_gives_the_same_episodes_again():
    random.seed(3)
    np.random.seed(3)
    before = random.getstate(), np.random.get_state()[1].tolist()
    first, second = (gem.make(ID, seed=7) for _ in range(2))
    openings = [first.reset()[0] for _ in range(3)]
    assert [second.reset()[0] for _ in range(3)] == openings
    assert len(set(openings)) == 3
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
