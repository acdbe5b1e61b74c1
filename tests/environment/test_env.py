"""The Gymnasium environment, by Gymnasium's own rules."""

import json
import pickle
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from failing import FailsInTurn
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from paths import ROOT

from rlver_gym import Appraisal, Dialogue, EmpathyEnv, env_card
from rlver_gym.bench.score import score_agents
from rlver_gym.core.cards import shipped_env_ids
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.episode import Episode
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import CardError, DialogueError, UnknownName

WORDS = ["It sounds as if that weighs on you.", "What happened then?", "You did that with care."]
WORDS += ["", "Everything will be fine."]


def rollout(env, seed, steps=20):
    seen = [env.reset(seed=seed)]
    for number in range(steps):
        seen.append(env.step(WORDS[number % len(WORDS)]))
        if seen[-1][2]:
            seen.append(env.reset())
    return seen


def test_a_pickled_environment_goes_on_the_same():
    env = gym.make("RLVER-Empathy-v0")
    env.reset(seed=3)
    env.step(WORDS[0])
    copy = pickle.loads(pickle.dumps(env))
    assert data_equivalence(env.step(WORDS[1]), copy.step(WORDS[1]))
    assert data_equivalence(env.reset(), copy.reset())


@pytest.mark.parametrize("env_id", shipped_env_ids())
def test_the_spec_survives_json_and_equal_seeds_give_equal_rollouts(env_id):
    env = gym.make(env_id, split="demo", user="embedded")
    spec = EnvSpec.from_json(env.spec.to_json())
    assert spec == env.spec
    played = rollout(env, 1)
    assert data_equivalence(rollout(gym.make(spec), 1), played)
    assert not data_equivalence(rollout(gym.make(spec), 2), played)


def test_info_explains_the_turn_and_is_json():
    env = gym.make("RLVER-Empathy-v0", info="privileged")
    _, info = env.reset(seed=0)
    begin = {"emotion": 40, "change": 0, "turn": 0, "outcome": None, "reasons": []}
    assert {name: info[name] for name in begin} == begin
    _, reward, _, _, info = env.step("What happened?")
    assert info["change"] == reward == sum(reason["points"] for reason in info["reasons"])
    assert info["persona"] in library().ids("train")
    assert info["hidden_need"] == library().get(info["persona"]).need
    assert "hidden_need" in EmpathyEnv.privileged_info
    assert json.loads(json.dumps(info)) == info


def test_the_people_that_are_for_tuning_are_drawn_when_asked_for():
    env = gym.make("RLVER-Empathy-v0", split="validation")
    met = {env.reset(seed=seed)[1]["persona"] for seed in range(40)}
    assert len(met) > 6
    assert met <= set(library().ids("validation"))


@pytest.mark.parametrize("seed", [0, 7])
def test_a_persona_chosen_at_reset_begins_the_episode_that_choosing_it_at_make_begins(seed):
    wanted = library().ids("train")[3]
    chosen, made = EmpathyEnv(), EmpathyEnv(persona=wanted)
    for resets in ({"seed": seed}, {}):
        assert chosen.reset(**resets, options={"persona": wanted}) == made.reset(**resets)
        assert chosen.session.scene == made.session.scene


def test_cards_that_changed_are_read_again_and_others_are_not(tmp_path, monkeypatch):
    card = (ROOT / "envs" / "RLVER-Empathy-v0.yaml").read_text("utf-8")
    ruth = (ROOT / "examples" / "people" / "ruth-and-the-choir.yaml").read_text("utf-8")

    def make():
        env = EmpathyEnv("mine.yaml", personas="people", persona="ruth")
        env.reset(seed=0)
        return env

    for place, number in (("here", 40), ("here", 38), ("there", 40)):
        (tmp_path / place / "people").mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(tmp_path / place)
        for path, text, old in (("mine", card, "start: 40"), ("people/ruth", ruth, "age: 67")):
            changed = text.replace(old, f"{old[:-2]}{number} # {place}")
            Path(f"{path}.yaml").write_text(changed, "utf-8")
        env, again = make(), make()
        assert (env.card.start, env.session.scene.persona.person.age) == (number, number)
        assert again.card is env.card
        assert again.session.scene.persona is env.session.scene.persona


def test_rendering_tells_the_dialogue_and_takes_no_markup(capsys):
    words = "[red]What[/red] happened? [/nonsense]"
    env, human = (gym.make("RLVER-Empathy-v0", render_mode=mode) for mode in ("ansi", "human"))
    for each in (env, human):
        each.reset(seed=0)
        each.step(words)
    assert f"agent: {words}" in env.render()
    assert "40 B" in env.render()
    assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [
        ({"persona": "nobody"}, UnknownName),
        ({"split": "testing"}, UnknownName),
        ({"user": "robot"}, UnknownName),
        ({"card": "Nope-v0"}, UnknownName),
        ({"personas": "/nowhere"}, CardError),
        ({"card": "/nowhere/card.yaml"}, CardError),
        ({"render_mode": "rgb"}, UnknownName),
        ({"persona": "../../etc/passwd"}, UnknownName),
        ({"info": "all"}, UnknownName),
        ({"info": None}, UnknownName),
        ({"on_failure": "ignore"}, UnknownName),
        ({"timeout_s": "3"}, UnknownName),
        ({"num_envs": "3"}, UnknownName),
    ],
)
def test_wrong_arguments_get_a_named_error(kwargs, error):
    with pytest.raises(error):
        EmpathyEnv(**kwargs)


def test_wrong_order_gets_a_named_error():
    env = EmpathyEnv("RLVER-Empathy-v0", render_mode="ansi")
    for too_early in (lambda: env.step("hello"), env.render, env.save_state):
        with pytest.raises(DialogueError, match="reset") as caught:
            too_early()
        assert isinstance(caught.value, ResetNeeded)
    env.reset(seed=0)
    for _ in range(8):
        if env.step("")[2]:
            break
    with pytest.raises(ResetNeeded, match="over"):
        env.step("hello")
    for options in ({"person": "x"}, {"persona": 3}, {"persona": ""}, ["persona"], "persona"):
        with pytest.raises(UnknownName, match=r"option|persona"):
            env.reset(options=options)


def test_a_card_object_makes_an_environment():
    card = env_card("RLVER-Empathy-v0").model_copy(update={"start": 60, "turns": 2})
    env = gym.make("RLVER-Empathy-v0", card=card, info="privileged")
    assert env.reset(seed=0)[1]["emotion"] == 60
    env.step("Tell me more.")
    assert env.step("And then?")[2]


class FailsToSpeak(FailsInTurn):
    def appraise(self, scene, emotion, dialogue):
        return EmbeddedUser().appraise(scene, emotion, dialogue)

    def speak(self, scene, emotion, dialogue, appraisal):
        self._fail_in(len(dialogue.turns) + 1, scene)
        return super().speak(scene, emotion, dialogue, appraisal)


@pytest.mark.parametrize("user", [FailsInTurn(2), FailsToSpeak(2)])
@pytest.mark.parametrize("env_id", ["RLVER-Empathy-v0", "RLVER-Sparse-v0"])
def test_a_user_that_fails_ends_the_dialogue_without_a_score(user, env_id):
    env = gym.make(env_id, user=user, info="privileged", on_failure="truncate")
    assert env.reset(seed=0)[1]["valid"]
    before = env.step(WORDS[0])[4]
    *given, info = env.step(WORDS[1])
    assert before["valid"]
    assert given == ["", 0.0, False, True]
    assert (info["outcome"], info["valid"], info["change"]) == ("failed", False, 0)
    assert info["emotion"] == before["emotion"]
    assert "the server is away" in info["reasons"][0]["note"]
    with pytest.raises(DialogueError, match="over"):
        env.unwrapped.step("Hello?")
    (score,) = score_agents([Episode.of(env.unwrapped.session, "me")])
    assert score.failed == 1


def test_what_is_no_user_and_no_state_is_named():
    for user in (3, (), object()):
        with pytest.raises(UnknownName, match="there is no user"):
            gym.make("RLVER-Empathy-v0", user=user)
    env = EmpathyEnv("RLVER-Empathy-v0")
    env.reset(seed=0)
    for state in (3, None, ("a", 1)):
        with pytest.raises(DialogueError, match="save_state"):
            env.restore(state)
        with pytest.raises(DialogueError, match="snapshot"):
            env.session.restore(state)


def _talked():
    env = EmpathyEnv("RLVER-Empathy-v0")
    env.reset(seed=5, options={"persona": "elias-the-old-dog"})
    env.step(WORDS[0])
    env.step(WORDS[1])
    return env


def state(**fields):
    return lambda state: state._replace(**fields)


def snapshot(**fields):
    return lambda state: state._replace(snapshot=state.snapshot._replace(**fields))


def last_turn(**fields):
    def damage(state):
        opening, turns = state.snapshot.dialogue.opening, state.snapshot.dialogue.turns
        dialogue = Dialogue(opening, (*turns[:-1], turns[-1]._replace(**fields)))
        return state._replace(snapshot=state.snapshot._replace(dialogue=dialogue))

    return damage


def add_utterance(state):
    dialogue = state.snapshot.dialogue.with_utterance("hello")
    return state._replace(snapshot=state.snapshot._replace(dialogue=dialogue))


def out_of_bounds(state):
    """All that follows from an appraisal that nobody gives fits it."""
    emotion = state.snapshot.dialogue.turns[-2].emotion + 20
    bad = last_turn(appraisal=Appraisal(20, "", ()), emotion=emotion, reward=20.0)(state)
    return snapshot(emotion=emotion)(bad)


RANDOM = np.random.PCG64(0).state
DAMAGES = {
    "no random state": state(random=None),
    "half a random state": state(random={**RANDOM, "uinteger": "x"}),
    "a random state too large": state(random={**RANDOM, "state": {"state": 1 << 200, "inc": 1}}),
    "a seed that is none": state(seed="5"),
    "a persona that is not here": state(persona="nobody"),
    "another persona": state(persona="noor-missed-evening"),
    "no snapshot": state(snapshot=None),
    "an emotion off the scale": snapshot(emotion=10**30),
    "another emotion than the last": snapshot(emotion=7),
    "an outcome that is none": snapshot(outcome="left"),
    "an end that did not come": snapshot(outcome=Outcome.LEFT),
    "a dialogue that is none": snapshot(dialogue="hello"),
    "a turn that is none": snapshot(dialogue=Dialogue("hello", (("a", "b"),))),
    "another reward": last_turn(reward=10.0),
    "an appraisal that is none": last_turn(appraisal=None),
    "an appraisal out of bounds": out_of_bounds,
    "an utterance without an answer": add_utterance,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_state_that_cannot_be_restored_leaves_everything_where_it_was(name):
    env, twin = _talked(), _talked()
    bad = DAMAGES[name](env.save_state())
    env.step(WORDS[2])
    twin.step(WORDS[2])
    with pytest.raises((DialogueError, UnknownName)) as error:
        env.restore(bad)
    assert len(str(error.value)) < 500
    assert env.save_state() == twin.save_state()
    assert data_equivalence([env.step(WORDS[0]), env.reset()], [twin.step(WORDS[0]), twin.reset()])


def test_a_state_of_another_card_is_refused_by_name():
    with pytest.raises(DialogueError, match="another card than SAGE-Sentient-v0"):
        EmpathyEnv("SAGE-Sentient-v0").restore(_talked().save_state())
    with pytest.raises(DialogueError, match="turn 1 does not follow"):
        EmpathyEnv("RLVER-Sparse-v0").restore(_talked().save_state()._replace(scene=""))


def test_states_before_the_first_turn_and_after_the_last_can_be_restored():
    env = EmpathyEnv("RLVER-Empathy-v0")
    env.reset(seed=1)
    begin = env.save_state()
    while not env.step("")[2]:
        pass
    end = env.save_state()
    other = EmpathyEnv("RLVER-Empathy-v0")
    for state in (end, begin, end):
        other.restore(state)
        assert other.save_state() == state
