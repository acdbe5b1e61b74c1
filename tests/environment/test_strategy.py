"""The strategy view: numbers for words, and what can be seen as a vector."""

import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest

from rlver_gym import EmpathySession, HiddenNeed, Message, env_card, make_agent
from rlver_gym.agents import is_async_agent
from rlver_gym.agents.needs import get_leave_one_out_reader, get_need_reader
from rlver_gym.agents.quoting import rank_by_recency
from rlver_gym.agents.strategies import STRATEGIES, Strategy, compose_utterance
from rlver_gym.environment.alarms import compute_act_shares
from rlver_gym.environment.spaces import Utterance
from rlver_gym.environment.strategy_env import (
    NEEDS,
    EveryNeed,
    StrategyAction,
    TalkFeatures,
    compute_need_evidence,
)
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import UnknownName

ACTS = {
    Strategy.ASK: "open_question",
    Strategy.REFLECT_FEELING: "reflect_feeling",
    Strategy.PRAISE: "praise",
    Strategy.MOTIVES: "motives",
    Strategy.OTHER_SIDE: "other_side",
    Strategy.INVITE_REFLECTION: "reflect_prompt",
    Strategy.TAKE_SIDE: "side",
    Strategy.SUGGEST: "advice",
    Strategy.LISTEN: "invite",
}
"""What the user hears most of when a strategy is chosen; the others have no act of their own."""


class Recorded(gym.Env[str, str]):
    """Plays recorded words, whatever it hears, and gives no card and no info away."""

    action_space, observation_space = Utterance(4000), Utterance(4000)

    def __init__(self, lines):
        self.lines = lines
        self.heard = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.heard = []
        return self.lines[0], {}

    def step(self, action):
        self.heard.append(action)
        return self.lines[len(self.heard)], 0.0, len(self.heard) == len(self.lines) - 1, False, {}


LINES = [
    "I carried him down the stairs, and Martin only watched. Was that wrong?",
    "He went to bed. I wrote to the lawyer on Monday.",
]


def dialogue(env, seed, actions):
    seen, info = env.reset(seed=seed)
    steps = [(seen.tolist(), info.get("persona"))]
    for action in actions:
        seen, reward, over, _, info = env.step(action)
        steps.append((seen.tolist(), reward, info["utterance"]))
        if over:
            break
    return steps


def openings():
    env = gym.make("RLVER-Empathy-v0")
    return [
        [Message("user", env.reset(seed=0, options={"persona": persona})[0])]
        for persona in library().ids("train")
    ]


def test_stable_baselines3_makes_a_vector_of_them_by_name():
    tools = pytest.importorskip("stable_baselines3.common.env_util")
    with pytest.warns(UserWarning, match="no pictures"):  # it asks for them first
        env = tools.make_vec_env("RLVER-Strategy-v0", n_envs=2, seed=0)
    assert env.reset().shape == (2, *env.observation_space.shape)
    env.close()


def test_it_passes_stable_baselines3s_checker():
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(gym.make("RLVER-Strategy-v0"))
        checker.check_env(gym.make_vec("RLVER-Strategy-v0", num_envs=1).envs[0])


def test_the_same_seed_and_choices_give_the_same_dialogue():
    actions = [11, 2, 5, 0, 3, 8, 9, 1]
    first, second = (gym.make("RLVER-Strategy-v0") for _ in range(2))
    for seed in (7, 8):
        assert dialogue(first, seed, actions) == dialogue(second, seed, actions)
        assert dialogue(first, None, [4]) == dialogue(second, None, [4])  # as determined
    assert dialogue(first, 7, actions) != dialogue(first, 8, actions)


def test_its_spec_makes_it_again_and_it_can_be_pickled():
    env = gym.make("RLVER-Strategy-v0", split="test")
    assert env.spec is not None
    again = gym.make(env.spec)
    assert dialogue(env, 1, [3, 4, 5]) == dialogue(again, 1, [3, 4, 5])
    copy = pickle.loads(pickle.dumps(env))
    mine, theirs = env.step(6), copy.step(6)
    assert mine[0].tolist() == theirs[0].tolist()
    assert mine[1:] == theirs[1:]


def test_its_arguments_are_those_of_the_text_environment():
    env = gym.make("RLVER-Strategy-v0", card="SAGE-Sentient-v0", split="demo", user="embedded")
    assert env.reset(seed=0)[1]["persona"] in library().ids("demo")
    assert env.step(0)[0][0] == pytest.approx(1 / 9), "the turn is a share of this card's horizon"


def test_both_wrappers_work_alone_on_any_text_environment():
    speaking = StrategyAction(Recorded(LINES))
    speaking.reset(seed=0)
    *_, info = speaking.step(STRATEGIES.index(Strategy.PRAISE))
    assert info["strategy"] == "praise"
    assert speaking.unwrapped.heard == [info["utterance"]]
    seeing = TalkFeatures(Recorded(LINES), turns=4, emotion=False)
    seen, _ = seeing.reset(seed=0)
    assert seeing.observation_space.contains(seen)
    assert seen[seeing.names.index("question")] == 1
    seen, *_ = seeing.step("Go on.")
    assert seen[seeing.names.index("turn")] == 0.25
    names = zip(seeing.names, seen, strict=True)
    assert not any(value for name, value in names if name.startswith(("tried", "last")))


def test_what_was_tried_is_seen():
    env = gym.make("RLVER-Strategy-v0")
    names = env.get_wrapper_attr("names")
    env.reset(seed=0)
    env.step(3)
    seen = dict(zip(names, env.step(11)[0].tolist(), strict=True))
    chosen = {name for name, value in seen.items() if value and name.startswith(("tried", "last"))}
    assert chosen == {"tried:praise", "tried:listen", "last:listen"}


def test_the_emotion_is_seen_only_when_the_card_says_so():
    assert "emotion" not in gym.make("RLVER-Strategy-v0").get_wrapper_attr("names")
    card = env_card("RLVER-Empathy-v0").model_copy(update={"shows_emotion": True})
    env = gym.make("RLVER-Strategy-v0", card=card)
    assert env.get_wrapper_attr("names")[-1] == "emotion"
    assert env.reset(seed=0)[0][-1] == pytest.approx(0.4)


@pytest.mark.parametrize("strategy", ACTS)
def test_each_strategy_is_heard_as_what_it_is(strategy):
    def share_heard(said):
        heard = []
        for number, messages in enumerate(openings()):
            shares = compute_act_shares([compose_utterance(said, messages, number)])
            heard.append(shares[f"does_{ACTS[strategy]}"] > 0)
        return float(np.mean(heard))

    share = share_heard(strategy)
    assert share > 0.5
    others = ACTS.keys() - {strategy, Strategy.ASK, Strategy.LISTEN, Strategy.INVITE_REFLECTION}
    for other in () if strategy in (Strategy.LISTEN, Strategy.ASK) else others:
        assert share_heard(other) < share / 2, other


def test_no_two_strategies_say_the_same_and_the_wording_varies():
    for number, messages in enumerate(openings()[:20]):
        utterances = {compose_utterance(strategy, messages, number) for strategy in STRATEGIES}
        assert len(utterances) == len(STRATEGIES)
        for strategy in STRATEGIES:
            wordings = {compose_utterance(strategy, messages, wording) for wording in range(8)}
            assert len(wordings) >= 7, strategy


def test_an_agent_may_keep_to_one_strategy():
    card, persona = env_card("RLVER-Empathy-v0"), library().get(library().ids("test")[0])
    session = EmpathySession(EmbeddedUser(), persona, card, seed=3)
    session.start()
    agent = make_agent("strategy:reflect_feeling", persona, seed=3)
    for turn in range(2):
        messages = tuple(session.dialogue.messages())
        reply = agent.reply(messages)
        assert reply == compose_utterance(
            Strategy.REFLECT_FEELING, messages, 3 + turn, rank_by_recency
        )
        session.reply(reply)
    with pytest.raises(UnknownName, match="Did you mean 'listen'"):
        make_agent("strategy:listn", persona)
    assert is_async_agent("hf:model"), (
        "in batches; and the folder's name is no class of a module hf"
    )


def test_words_and_vector_come_from_what_was_said_alone():
    actions = list(range(8))
    env = gym.make("RLVER-Strategy-v0")
    known = dialogue(env, 5, actions)
    recorded = Recorded(list(env.get_wrapper_attr("session").dialogue.user_lines))
    blind = dialogue(TalkFeatures(StrategyAction(recorded), turns=8, emotion=False), 5, actions)
    for part in (0, 2):  # the vectors, the words
        begin = part // 2
        assert [step[part] for step in blind[begin:]] == [step[part] for step in known[begin:]]


def read_right(read, split):
    """The share of hints that a reader takes for the need that they hint at."""
    shelf = library()
    personas = [shelf.get(persona) for persona in shelf.ids(split)]
    lines = {(line, one.need) for one in personas for line in one.situation.hints.of(one.need)}
    return sum(read.need([line])[0] is need for line, need in lines) / len(lines)


def test_hints_are_read_in_people_never_met():
    assert read_right(get_leave_one_out_reader(), "test") > 3 / len(NEEDS)
    evidence = compute_need_evidence("Nobody says thank you. I did all of it.")
    assert all(0 <= value < 1 for value in evidence)
    assert set(compute_need_evidence("")) == {0.0}


def test_a_hint_is_seen_when_it_is_said_and_not_after():
    hint = library().get("noor-the-old-dog").situation.hints.of(HiddenNeed.PRAISE)[0]
    env = TalkFeatures(Recorded([hint, "Hm."]), turns=8, emotion=False)
    place = env.names.index("hint:praise")
    assert env.reset()[0][place] > 0
    assert env.step("Go on.")[0][place] == 0


def test_people_it_was_taught_with_are_read_no_better_than_strangers():
    strangers = read_right(get_need_reader(), "test")
    assert read_right(get_leave_one_out_reader(), "test") == strangers, (
        "nothing changes for those it was not taught with"
    )
    assert read_right(get_need_reader(), "train") > strangers + 0.2, "else there is nothing to mend"
    assert abs(read_right(get_leave_one_out_reader(), "train") - strangers) < 0.1


def test_everybody_may_have_any_need_in_training_and_the_draw_follows_the_seed():
    env = EveryNeed(
        gym.make("RLVER-Strategy-v0", info="privileged"), personas=library().ids("train")
    )
    env.reset(seed=0)
    met = [env.reset()[1] for _ in range(60)]
    assert {info["hidden_need"] for info in met} == {need.value for need in NEEDS}
    assert {info["persona"].partition("/")[0] for info in met} <= set(library().ids("train"))
    env.reset(seed=0)
    assert [env.reset()[1]["persona"] for _ in range(3)] == [info["persona"] for info in met[:3]]
    assert env.reset(options={"persona": "noor-the-old-dog"})[1]["hidden_need"] == "deep_empathy"


def test_a_persona_with_another_need_is_the_same_person_who_hints_at_something_else():
    own, other = library().get("noor-the-old-dog"), library().get("noor-the-old-dog/praise")
    assert (other.person, other.situation) == (own.person, own.situation)
    assert other.need is HiddenNeed.PRAISE
    assert (other.id == own.id, other.hash == own.hash) == (False, False)
    with pytest.raises(UnknownName, match="deep_empathy"):
        library().get("noor-the-old-dog/depe_empathy")
