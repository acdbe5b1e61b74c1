"""What Gymnasium's own tools make of the environments: vector modes, wrappers, specs, errors."""

import os
import subprocess
import sys
import warnings
from functools import partial
from inspect import signature

import gymnasium as gym
import numpy as np
import pytest
from failing import FailsInTurn
from gymnasium import wrappers
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.spaces.utils import flatten, unflatten
from gymnasium.utils.env_checker import check_env, data_equivalence
from test_async import Patient

from rlver_gym import EmpathyEnv, env_card
from rlver_gym.core.cards import shipped_env_ids
from rlver_gym.core.dialogue import Reply
from rlver_gym.environment.info import PRIVILEGED
from rlver_gym.environment.make import make_env
from rlver_gym.environment.spaces import Utterance
from rlver_gym.environment.strategy_env import EveryNeed, TalkFeatures
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import CardError, UnknownName, UserFailed

SAY = ("What happened then?", "你好 😀 That sounds hard.", "Everything will be fine.")
PERSONA = "noor-the-old-dog"


class Writing(EmbeddedUser):
    def speak(self, scene, emotion, dialogue, appraisal):
        return Reply("\x00 naïve 你好 👩‍👩‍👧 \U0010ffff می‌خواهم")


def play_vector(mode, steps=12, **options):
    """Everything that two dialogues side by side give, beyond the end of both."""
    env = gym.make_vec("RLVER-Empathy-v0", num_envs=2, vectorization_mode=mode, **options)
    seen = [env.reset(seed=3)[0]]
    for turn in range(steps):
        texts, *numbers, _ = env.step((SAY[turn % 3], SAY[(turn + 1) % 3]))
        seen.append((tuple(texts), *(one.tolist() for one in numbers)))
    env.close()
    return seen


@pytest.mark.parametrize("mode", ["sync", "async", "vector_entry_point"])
def test_every_vectorization_mode_gives_the_same_texts(mode):
    expected = play_vector(None)
    assert any(True in one[2] for one in expected[1:]), "a dialogue ended and another began"
    assert play_vector(mode) == expected


def test_texts_of_every_script_pass_between_processes():
    assert play_vector("async", 2, user=Writing()) == play_vector("sync", 2, user=Writing())


def test_texts_that_were_given_do_not_change_with_later_steps():
    env = gym.make_vec("RLVER-Empathy-v0", num_envs=2, vectorization_mode="async")
    before, _ = env.reset(seed=0)
    copy = tuple(before)
    after = env.step(SAY[:2])[0]
    assert before == copy != after
    env.close()


@pytest.mark.parametrize("text", ["", "Hm.", "你好 😀\n\x00\U0010ffff", "a" * 50])
def test_a_text_can_be_flattened_and_read_back(text):
    space = Utterance(50)
    flat = flatten(space, text)
    assert flat in gym.spaces.flatten_space(space)
    assert unflatten(space, flat) == text


def test_samples_are_in_the_space_and_masks_of_characters_are_refused():
    space = Utterance(10, seed=0)
    assert all(space.contains(text) for text in ("", "a b", "你好", "مرحبا", "🙂🙂", "\n"))
    assert not any(space.contains(text) for text in ("x" * 11, "\ud800", 5, None, b"a"))
    assert all(space.sample() in space for _ in range(50))
    assert len(space.sample((4, None))) == 4
    for mask in ((4, np.ones(3, dtype=np.int8)), (11, None), (-1, None)):
        with pytest.raises(ValueError, match="draws every"):
            space.sample(mask)


@pytest.mark.parametrize("env_id", [*shipped_env_ids(), "RLVER-Strategy-v0"])
@pytest.mark.parametrize("options", [{}, {"info": "privileged"}], ids=["public", "privileged"])
def test_every_id_passes_gymnasiums_checker(env_id, options):
    env = gym.make(env_id, render_mode="ansi", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
        if "Strategy" in env_id:  # whose wrappers are what is to be checked
            warnings.filterwarnings("ignore", message=".*different from the unwrapped version")
            check_env(env, skip_render_check=True)


WRAPPERS = {
    "flatten": wrappers.FlattenObservation,
    "time limit": lambda env: wrappers.TimeLimit(env, 3),
    "time aware": lambda env: wrappers.TimeAwareObservation(wrappers.TimeLimit(env, 9)),
    "statistics": wrappers.RecordEpisodeStatistics,
    "autoreset": wrappers.Autoreset,
    "delay": lambda env: wrappers.DelayObservation(env, 2),
    "stack": lambda env: wrappers.FrameStackObservation(env, 2),
    "normal reward": wrappers.NormalizeReward,
    "clip reward": lambda env: wrappers.ClipReward(env, -1, 1),
    "sticky": lambda env: wrappers.StickyAction(env, 0.3),
    "order": wrappers.OrderEnforcing,
    "checker": wrappers.PassiveEnvChecker,
}


@pytest.mark.parametrize("env_id", ["RLVER-Empathy-v0", "RLVER-Strategy-v0"])
@pytest.mark.parametrize("name", WRAPPERS)
def test_gymnasiums_wrappers_work(name, env_id):
    env = WRAPPERS[name](gym.make(env_id))
    seen, _ = env.reset(seed=0)
    for _ in range(3):
        seen = env.step(3 if "Strategy" in env_id else SAY[0])[0]
    assert env.observation_space.contains(seen)


def test_making_an_environment_loads_no_client():
    script = (
        "import sys, gymnasium, rlver_gym\n"
        "env = gymnasium.make('RLVER-Empathy-v0')\n"
        "env.reset(seed=0); env.step('Go on.')\n"
        "loaded = [name for name in sys.modules if name.startswith(('rlver_gym.serve',"
        " 'rlver_gym.environment.remote', 'rlver_gym.llm_client', 'http.client', 'httpx'))]\n"
        "print(loaded, type(env.unwrapped).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[] EmpathyEnv", done.stderr
    for env_id in [*shipped_env_ids(), "RLVER-Strategy-v0"]:
        assert gym.spec(env_id).entry_point == "rlver_gym.environment.make:make_env"


def test_info_holds_nothing_that_a_supporter_could_not_know():
    envs = [gym.make("RLVER-Empathy-v0", info=info) for info in ("public", "privileged")]
    options = {"persona": f"{PERSONA}/praise"}
    begun = [env.reset(seed=0, options=options)[1] for env in envs]
    for got, told in (begun, [env.step(SAY[0])[4] for env in envs]):
        assert set(got) == {"turn", "outcome", "valid", "persona", "cut_chars"}
        assert set(told) - set(got) == set(PRIVILEGED) - {"spread"}
        assert "praise" not in str(got)
        assert told["persona"] == f"{PERSONA}/praise"


def test_vectors_and_the_strategy_view_hide_it_too():
    for env_id, actions, options in (
        ("RLVER-Empathy-v0", ("Shut up.",) * 2, {"autoreset_mode": "SameStep"}),
        ("RLVER-Strategy-v0", np.array([3, 3]), {"vectorization_mode": "sync"}),
    ):
        env = gym.make_vec(env_id, num_envs=2, **options)
        _, infos = env.reset(seed=0)
        names = set(infos)
        for _ in range(9):
            *_, infos = env.step(actions)
            names |= set(infos) | set(infos.get("final_info", ()))
        assert not names & set(PRIVILEGED)


def test_a_card_that_shows_the_emotion_shows_it_to_everybody():
    card = env_card("RLVER-Empathy-v0").model_copy(update={"shows_emotion": True})
    env = EmpathyEnv(card)
    assert env.reset(seed=0)[1]["emotion"] == 40
    assert not {"hidden_need", "reasons", "thought"} & set(env.step(SAY[0])[4])


def test_features_with_an_emotion_that_nobody_tells_are_refused():
    with pytest.raises(CardError, match="privileged"):
        TalkFeatures(EmpathyEnv(), emotion=True).reset()
    env = TalkFeatures(EmpathyEnv(info="privileged"), emotion=True)
    assert env.reset()[0][-1] == np.float32(0.4)
    with pytest.raises(CardError, match="turns"):
        TalkFeatures(EmpathyEnv(), turns=0)
    with pytest.raises(CardError, match="empty"):
        EveryNeed(EmpathyEnv(), personas=())


def test_a_failed_user_is_an_error_and_no_truncation():
    env = gym.make("RLVER-Empathy-v0", user=FailsInTurn(2))
    env.reset(seed=0)
    env.step(SAY[0])
    with pytest.raises(UserFailed, match=r"the server is away.*reset\(\).*on_failure"):
        env.step(SAY[1])
    with pytest.raises(ResetNeeded):
        env.step(SAY[1])
    env.reset(seed=0)
    assert env.step(SAY[0])[4]["valid"]
    with pytest.raises(UserFailed, match="the server is away"):
        gym.make("RLVER-Strategy-v0", user=FailsInTurn(0)).reset(seed=0)


@pytest.mark.parametrize("env_id", ["RLVER-Empathy-v0", "RLVER-Strategy-v0"])
def test_after_a_first_reset_that_failed_the_next_plays(env_id):
    env = gym.make(env_id)
    with pytest.raises(UnknownName, match="typo"):
        env.reset(options={"persona": "typo"})
    env.reset(options={"persona": "noor-the-old-dog"})
    assert env.step(3 if "Strategy" in env_id else SAY[0])[4]["valid"]


def test_a_language_model_makes_the_spec_nondeterministic():
    model = {"user": "openai:any", "base_url": "http://127.0.0.1:9/v1"}
    for env_id in ("RLVER-Empathy-v0", "RLVER-Strategy-v0"):
        specs = [gym.make(env_id, **one).spec for one in ({}, {"user": Patient()}, model)]
        assert [spec and spec.nondeterministic for spec in specs] == [False, True, True]
        assert not gym.spec(env_id).nondeterministic


@pytest.mark.parametrize("env_id", ["RLVER-Empathy-v0", "RLVER-Strategy-v0"])
def test_a_step_before_reset_raises_gymnasiums_error(env_id):
    many = gym.make_vec(env_id, num_envs=2)
    inner = gym.make(env_id, disable_env_checker=True)
    while not isinstance(inner, wrappers.OrderEnforcing) and inner is not inner.unwrapped:
        inner = inner.env
    action, actions = (3, np.array([1, 1])) if "Strategy" in env_id else ("Hello", ("Hello",) * 2)
    for env, said in ((gym.make(env_id), action), (inner.unwrapped, "Hello"), (many, actions)):
        with pytest.raises(ResetNeeded):
            env.step(said)


ACTIONS = [-1, 12, 99, np.array([3]), [3], (3,), True, np.True_, 3.0, 3.7, np.float32(2), "3", "",
           None, float("nan"), np.array([]), np.array([1, 2]), {}, 10**30]  # fmt: skip


@pytest.mark.parametrize("action", ACTIONS, ids=repr)
def test_what_is_no_strategy_is_refused_and_costs_no_turn(action):
    env, twin = gym.make("RLVER-Strategy-v0"), gym.make("RLVER-Strategy-v0")
    for one in (env, twin):
        one.reset(seed=0)
    with pytest.raises(InvalidAction, match="from 0 to 11"):
        env.step(action)
    assert env.step(3)[4] == twin.step(3)[4]


def test_every_kind_of_whole_number_chooses_a_strategy():
    env = gym.make("RLVER-Strategy-v0")
    utterances = set()
    for action in (3, np.int64(3), np.uint8(3), np.array(3)):
        env.reset(seed=0)
        utterances.add(env.step(action)[4]["utterance"])
    assert len(utterances) == 1


EMPATHY = partial(gym.make, "RLVER-Empathy-v0")
MAKES = [EMPATHY, *(partial(EMPATHY, user=user) for user in (EmbeddedUser(), "openai:m"))]
MAKES += [partial(gym.make, "RLVER-Strategy-v0"), partial(gym.make_vec, "RLVER-Empathy-v0")]


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("option", ["splitt", "seed", "timeout", "url_", "max_turns"])
def test_no_argument_is_swallowed(make, option):
    with pytest.raises(UnknownName, match=option):
        make(**{option: 1})


@pytest.mark.parametrize("env_id", ["RLVER-Empathy-v0", "RLVER-Strategy-v0"])
@pytest.mark.parametrize("mode", ["rgb_array", "rgb_array_list", "depth_array"])
def test_who_asks_for_pictures_is_warned_and_gets_none(env_id, mode):
    for make in (gym.make, gym.make_vec):
        with pytest.warns(UserWarning, match=f"no pictures: render_mode='{mode}'"):
            env = make(env_id, render_mode=mode)
        assert env.render_mode is None
        assert data_equivalence(env.reset(seed=3)[0], make(env_id).reset(seed=3)[0])
    with pytest.raises(UnknownName, match="render mode 'rgb'"):
        gym.make(env_id, render_mode="rgb")


def test_a_mistyped_option_is_answered_with_all_that_there_are():
    with pytest.raises(UnknownName, match="Did you mean 'info'") as raised:
        gym.make("RLVER-Empathy-v0", infos=1)
    options = [*signature(EmpathyEnv).parameters, *signature(make_env).parameters]
    for name in set(options) - {"card", "options"}:
        assert f"{name}," in str(raised.value) or f"{name};" in str(raised.value)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("option", [{"group_size": 2}, {"autoreset_mode": "SameStep"}])
def test_options_of_many_at_once_say_which_mode_they_need(mode, option):
    with pytest.raises(UnknownName, match="Leave out vectorization_mode"):
        gym.make_vec("RLVER-Empathy-v0", num_envs=2, vectorization_mode=mode, **option)


RESETS = """
import sys, gymnasium, numpy, rlver_gym
env = gymnasium.make_vec("RLVER-Empathy-v0", num_envs=4, group_size=int(sys.argv[1]))
first, second = numpy.array([True, True, False, False]), numpy.array([False, False, True, True])
met = []
for options in ({}, {"reset_mask": first}):
    met.append(env.reset(seed=3, options=dict(options))[1])
    met += [env.reset(options={"reset_mask": second})[1], env.reset()[1], env.reset()[1]]
env.reset()
env.reset(seed=[5, 5, None, None])
met.append(env.reset(options={"reset_mask": first})[1])
print([one["persona"].tolist() for one in met])
"""


@pytest.mark.parametrize("group_size", [1, 2, 4])
def test_a_seed_decides_whom_later_resets_meet_in_every_process(group_size):
    command = [sys.executable, "-c", RESETS, str(group_size)]
    environments = (os.environ | {"PYTHONHASHSEED": seed} for seed in ("1", "2"))
    first, second = (subprocess.check_output(command, env=one) for one in environments)
    assert first == second
