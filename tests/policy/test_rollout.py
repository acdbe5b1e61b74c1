"""Dialogues played by a policy: what was said, what it earned, and what is left of it when
something goes wrong.
"""

import itertools
import math
import threading
import time
from types import SimpleNamespace

import gymnasium as gym
import pytest

from rlver_gym.environment.make import make_for_loop
from rlver_gym.environment.spaces import Utterance
from rlver_gym.policy.learning.metrics import compute_metrics
from rlver_gym.policy.learning.rollouts import pack_rollouts
from rlver_gym.policy.models import rollout
from rlver_gym.policy.models.model import load_model, load_tokenizer
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.models.rollout import (
    ResetSpec,
    collect_rollouts,
    make_grouped_reset_specs,
    raise_if_all_failed,
)
from rlver_gym.policy.models.sampler import Completion, ModelSampler, Sampling
from rlver_gym.policy.models.trajectory import TranscriptLine
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import TrainingError, UserFailed


class Counting(gym.Env[str, str]):
    """A text environment of three turns that knows nothing of emotions: the reward is the number of
    the turn.
    """

    action_space = observation_space = Utterance(1000)

    def __init__(self, fails_at=None):
        self.fails_at = fails_at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.turn, self.heard = 0, []
        return f"seed {seed}", {}

    def step(self, action):
        self.turn += 1
        self.heard.append(action)
        failed = self.turn == self.fails_at
        return (
            f"turn {self.turn}",
            float(self.turn),
            self.turn == 3 and not failed,
            failed,
            {"heard": self.heard} | ({"valid": False} if failed else {}),
        )


class Locked(ModelSampler):
    """One prompt list at a time, whoever asks."""

    lock = threading.Lock()

    def sample(self, prompts, sampling):
        with self.lock:
            return super().sample(prompts, sampling)


class Scripted:
    """A sampler that says the same in each dialogue, turn by turn, and notes what it was asked."""

    at_once = None

    def __init__(self, turns):
        self.turns = turns
        self.asked = []
        self.forgot = 0

    def sample(self, prompts, sampling):
        ids = list(self.turns[len(self.asked)])
        self.asked.append(list(prompts))
        return [Completion(ids, [-1.0 - i for i in range(len(ids))]) for _ in prompts]

    def forget(self):
        self.forgot += 1


@pytest.fixture(scope="module")
def direct(tiny_folder):
    return Renderer(load_tokenizer(str(tiny_folder)), "Be kind.")


@pytest.fixture(scope="module")
def thinking(direct):
    return Renderer(direct.tokenizer, "Be kind.", "think")


def ids_of(renderer, text, ended=True):
    return [*renderer.tokenizer(text)["input_ids"], *[renderer.end_of_turn] * ended]


SPECS = (ResetSpec(0, 5, 2), ResetSpec(1, 6, 2))


def play_all(sampler, renderer, envs, specs=SPECS, reply_tokens=20, **how):
    how = {"draw_seed": 0, "max_tokens": 4000, **how}
    sampling = Sampling(reply_tokens, renderer.stop_ids)
    return collect_rollouts(sampler, renderer, sampling, envs, specs[: len(envs)], **how)


def play(renderer, turns, env, **how):
    (played,) = play_all(Scripted(turns), renderer, [env], **how)
    return played


def said(renderer, played):
    """What was said in each sequence, with the turn it belongs to."""
    decode = renderer.tokenizer.decode
    turns = [sorted({*one.turn_T.tolist()} - {-1}) for one in played.sequences]
    return [
        [(decode(one.id_T[one.turn_T == turn]), turn) for turn in own]
        for one, own in zip(played.sequences, turns, strict=True)
    ]


def test_a_direct_dialogue_is_one_sequence(direct):
    replies = [ids_of(direct, "One."), ids_of(direct, "Two", ended=False), ids_of(direct, "")]
    played = play(direct, replies, Counting())
    assert said(direct, played) == [[("One.<|im_end|>", 0), ("Two", 1), ("<|im_end|>", 2)]]
    (sequence,) = played.sequences
    heard = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n".format
    assert direct.tokenizer.decode(sequence.id_T) == (
        f"<|im_start|>system\nBe kind.<|im_end|>\n{heard('seed 5')}One.<|im_end|>\n"
        f"{heard('turn 1')}Two<|im_end|>\n{heard('turn 2')}<|im_end|>"
    )
    assert (sequence.action_mask_T == (sequence.turn_T >= 0)).all()
    assert (sequence.logprob_T[~sequence.action_mask_T] == 0).all()
    assert sequence.logprob_T[sequence.turn_T == 2].tolist() == [-1.0]
    assert played.reward_N.tolist() == [1.0, 2.0, 3.0]
    assert played.info == {"heard": ["One.", "Two", ""]}, "an empty reply is silence"
    assert (played.group, played.seed, played.valid, played.context_overflow) == (2, 5, True, False)


def test_a_thinking_dialogue_is_a_sequence_a_turn_without_earlier_thoughts(thinking):
    turns = ["<think>a</think>One.", "<think>b</think>Two.", "Three."]
    played = play(thinking, [ids_of(thinking, turn) for turn in turns], Counting())
    assert said(thinking, played) == [
        [(f"{turn}<|im_end|>", number)] for number, turn in enumerate(turns)
    ]
    last = thinking.tokenizer.decode(played.sequences[2].id_T)
    assert "assistant\nOne.<|im_end|>" in last
    assert "<think>" not in last
    assert played.info == {"heard": ["One.", "Two.", "Three."]}, "nobody hears thoughts"
    assert played.lines[1] == TranscriptLine("agent", "One.", "a")
    assert played.format_error_N.tolist() == [False, False, True]


def test_a_user_who_fails_leaves_a_dialogue_that_does_not_count(direct):
    played = play(direct, [ids_of(direct, "One.")] * 2, Counting(fails_at=2))
    assert not played.valid
    assert len(played.reward_N) == 2


def test_a_time_limit_ends_a_dialogue_that_counts(direct):
    played = play(direct, [ids_of(direct, "One.")] * 2, gym.wrappers.TimeLimit(Counting(), 2))
    assert played.valid
    assert len(played.reward_N) == 2


def test_a_reward_that_is_no_number_is_refused(direct):
    played = play(direct, [ids_of(direct, "One.")] * 3, Counting())
    played.reward_N[1] = float("nan")
    with pytest.raises(TrainingError, match="reward"):
        pack_rollouts([played])


@pytest.mark.parametrize("style", ["direct", "think"])
def test_a_dialogue_that_outgrows_the_context_ends_early_and_is_marked(style, direct, thinking):
    renderer = direct if style == "direct" else thinking
    turns = [ids_of(renderer, "<think>a</think>One.")] * 3
    whole = play(renderer, turns, Counting())
    room = len(whole.sequences[-1].id_T) - len(turns[-1]) + 20
    assert not play(renderer, turns, Counting(), max_tokens=room).context_overflow
    cut = play(renderer, turns, Counting(), max_tokens=room - 1)
    assert cut.context_overflow
    assert cut.valid
    assert cut.reward_N.tolist() == [1.0, 2.0]
    assert said(renderer, cut)[-1][-1][1] == 1
    nothing = play(renderer, turns, Counting(), max_tokens=21)
    assert nothing.context_overflow
    assert not nothing.valid, "nothing was said in it"


@pytest.mark.parametrize("bad", [math.nan, -math.inf, math.inf])
def test_a_dialogue_whose_sampler_lost_a_log_probability_is_left_out_and_counted(direct, bad):
    class Lossy(Scripted):
        def sample(self, prompts, sampling):
            return [
                one._replace(logprobs=[bad, *one.logprobs[1:]]) if prompt.dialogue == 1 else one
                for prompt, one in zip(prompts, super().sample(prompts, sampling), strict=True)
            ]

    played = play_all(Lossy([ids_of(direct, "One.")] * 3), direct, [Counting(), Counting()])
    assert [(one.valid, one.logprob_missing, len(one.reward_N)) for one in played] == [
        (True, False, 3),
        (False, True, 0),
    ]
    assert compute_metrics(played)["logprob_missing"] == 0.5
    packed = pack_rollouts(played)
    assert (len(packed.group_D), packed.num_skipped) == (1, 1)
    with pytest.raises(TrainingError, match="log-probabilities"):
        raise_if_all_failed(played[1:])


def test_replies_that_were_cut_are_marked(direct):
    whole = ids_of(direct, "One.")
    played = play(direct, [whole, whole[:-1], whole], Counting())
    assert played.cut_N.tolist() == [False, True, False]
    assert compute_metrics([played])["cut"] == pytest.approx(1 / 3)


class SlowForOne(Scripted):
    """A server that answers the first dialogue only when the second is over."""

    at_once = 4

    def __init__(self, ids, over):
        super().__init__([])
        self.ids, self.over = ids, over

    def sample(self, prompts, sampling):
        if prompts[0].dialogue == 0:
            assert self.over.wait(timeout=60), "the second dialogue waits for the first"
        return [Completion(list(self.ids), [-1.0] * len(self.ids)) for _ in prompts]


def test_dialogues_with_a_server_do_not_wait_for_each_other(direct):
    over = threading.Event()

    class Telling(Counting):
        def step(self, action):
            found = super().step(action)
            if found[2]:
                over.set()
            return found

    sampler = SlowForOne(ids_of(direct, "One."), over)
    first, second = play_all(sampler, direct, [Counting(), Telling()])
    assert first.reward_N.tolist() == second.reward_N.tolist() == [1.0, 2.0, 3.0]
    assert (first.seed, second.seed) == (5, 6)


def test_what_goes_wrong_in_one_dialogue_with_a_server_ends_all(direct):
    over, steps = threading.Event(), []
    over.set()

    class Broken(Counting):
        def step(self, action):
            raise UserFailed("no answer")

    class Endless(Counting):
        def step(self, action):
            steps.append(1)
            time.sleep(0.01)
            return "Go on.", 0.0, len(steps) > 2_000, False, {}

    sampler = SlowForOne(ids_of(direct, "One."), over)
    with pytest.raises(UserFailed, match="no answer"):
        play_all(sampler, direct, [Endless(), Broken()], max_tokens=400_000, workers=2)
    assert len(steps) < 500, "the other dialogue was held to its end"


def test_slow_users_wait_side_by_side_and_change_nothing(tiny_folder, direct):
    meeting = threading.Barrier(3, timeout=60)

    class Slow(Counting):
        def step(self, action):
            if self.turn == 0:
                meeting.wait()  # passes only when three step at the same time
            return super().step(action)

    sampler = ModelSampler(load_model(str(tiny_folder), device="cpu"))
    specs = make_grouped_reset_specs(3, 3, itertools.count())
    few = {"reply_tokens": 8, "max_tokens": 400}
    one_by_one, together = (
        play_all(sampler, direct, [kind() for _ in range(3)], specs, workers=workers, **few)
        for kind, workers in ((Counting, 1), (Slow, 3))
    )
    for left, right in zip(one_by_one, together, strict=True):
        assert left.lines == right.lines
        assert left.sequences[0].logprob_T == pytest.approx(right.sequences[0].logprob_T, abs=1e-4)


def batch_sizes_with(envs, tiny_folder, direct):
    """How many replies were sampled at once, batch by batch."""
    sizes = []

    class Watched(ModelSampler):
        def sample(self, prompts, sampling):
            sizes.append(len(prompts))
            return super().sample(prompts, sampling)

    sampler = Watched(load_model(str(tiny_folder), device="cpu"))
    specs = make_grouped_reset_specs(len(envs), len(envs), itertools.count())
    how = {"reply_tokens": 8, "draw_seed": 1, "max_tokens": 400, "workers": len(envs)}
    play_all(sampler, direct, envs, specs, **how)
    return sizes


def test_replies_to_users_who_answer_soon_after_the_first_are_sampled_in_one_batch(
    tiny_folder, direct, monkeypatch
):
    monkeypatch.setattr(rollout, "_GATHER_S", 60.0)

    class Later(Counting):
        def step(self, action):
            time.sleep(0.05)
            return super().step(action)

    assert batch_sizes_with([Counting(), Later(), Later()], tiny_folder, direct) == [3, 3, 3]


def test_nobody_waits_long_for_a_slow_user(tiny_folder, direct):
    is_over = threading.Event()

    class Quick(Counting):
        def step(self, action):
            found = super().step(action)
            if found[2]:
                is_over.set()
            return found

    class Slow(Counting):
        def step(self, action):
            assert is_over.wait(60)  # answers once the other's dialogue has ended
            return super().step(action)

    assert batch_sizes_with([Quick(), Slow()], tiny_folder, direct) == [2, 1, 1, 1, 1]


def test_equal_draw_seeds_give_equal_dialogues_in_the_real_environment(tiny_folder, direct):
    sampler = ModelSampler(load_model(str(tiny_folder), device="cpu"))
    envs = [make_for_loop("rlver_gym:RLVER-Empathy-v0", split="demo") for _ in range(4)]
    specs = make_grouped_reset_specs(4, 2, itertools.count())
    first, again, other = (
        play_all(sampler, direct, envs, specs, 8, draw_seed=seed, max_tokens=2000)
        for seed in (1, 1, 2)
    )
    assert [one.lines for one in first] == [one.lines for one in again]
    assert [one.lines for one in first] != [one.lines for one in other]
    assert first[0].info["persona"] == first[1].info["persona"]
    assert first[0].lines != first[1].lines
    for one in first:
        assert one.total_reward == one.info["emotion"] - 40


def test_the_sampler_forgets_before_and_after(direct):
    sampler = Scripted([ids_of(direct, "One.")] * 3)
    play_all(sampler, direct, [Counting()])
    assert sampler.forgot == 2


def three_ways(tiny_folder, direct, candidates, sampler_class=ModelSampler, at_once=None):
    sampler = sampler_class(load_model(str(tiny_folder)))
    sampler.at_once = at_once
    envs = [gym.make("RLVER-Empathy-v0") for _ in range(3)]
    specs = [ResetSpec(number, 40 + number, number) for number in range(3)]
    how = {"draw_seed": 7, "max_tokens": 2000, "candidates": candidates}
    return play_all(sampler, direct, envs, specs, 12, **how)


def test_candidates_are_the_same_from_a_server(tiny_folder, direct):
    alone = three_ways(tiny_folder, direct, 3)
    side_by_side = three_ways(tiny_folder, direct, 3, Locked, at_once=2)
    assert [one.lines for one in alone] == [one.lines for one in side_by_side]
    both = (
        [[x.reward for x in one.alternatives] for one in each] for each in (alone, side_by_side)
    )
    assert next(both) == next(both)


def test_candidates_need_an_environment_that_can_go_back(direct):
    with pytest.raises(TrainingError, match="Counting cannot go back to an earlier turn"):
        play_all(Scripted([[direct.end_of_turn]]), direct, [Counting()], candidates=2)


class Rewinding(Counting):
    """Pays by the first letter of what was said, and fails for an x; can go back."""

    def step(self, action):
        text, _, over, _, info = super().step(action)
        reward = {"a": 6.0, "b": 2.0, "c": 1.0}.get(action[:1], -3.0)
        failed = action.startswith("x")
        return (
            text,
            0.0 if failed else reward,
            over and not failed,
            failed,
            info | ({"valid": False} if failed else {}),
        )

    def save_state(self):
        return self.turn, list(self.heard)

    def restore(self, state):
        self.turn, self.heard = state[0], list(state[1])


class Several(Scripted):
    """Says other things to each of the prompts of a turn."""

    def sample(self, prompts, sampling):
        self.asked.append(list(prompts))
        return [Completion(list(ids), [-1.0] * len(ids)) for ids in self.turns]


T = "<think>t</think>"


@pytest.mark.parametrize(
    ("candidates", "said_first", "others"),
    [
        ([f"{T}b", f"{T}c", f"{T}d"], "b", [1.0, -3.0]),
        (["b", f"{T}c", "a"], "c", [2.0, 6.0]),  # what breaks the form goes on last
        (["b", "a", "d"], "a", [2.0, -3.0]),
        ([f"{T}x", f"{T}b", f"{T}x"], "b", []),  # where the user failed nothing is known
    ],
)
def test_the_best_reply_goes_on_and_the_others_are_kept(thinking, candidates, said_first, others):
    sampler = Several([ids_of(thinking, one) for one in candidates])
    (played,) = play_all(sampler, thinking, [Rewinding()], candidates=3)
    assert played.lines[1].text == said_first
    assert [one.reward for one in played.alternatives if one.turn == 0] == others
    assert len(played.reward_N) == 3


def test_a_reply_drawn_by_lot_goes_on_where_that_is_asked_for(direct):
    sampler, specs = Several([ids_of(direct, one) for one in "abcd"]), [ResetSpec(0, 5, 0)]
    how = {"candidates": 4, "goes_on_from_best": False}
    drawn = [
        [line.text for line in played.lines if line.speaker == "agent"]
        for seed in (1, 1, 2, 3)
        for played in play_all(sampler, direct, [Rewinding()], specs, draw_seed=seed, **how)
    ]
    assert drawn[0] == drawn[1]
    assert len({text for texts in drawn for text in texts}) > 2


class SideBySide(Rewinding):
    """Says what replies would earn, all in one request, and goes on from one."""

    def __init__(self, fails=False):
        super().__init__()
        self.asked = []
        self.fails = fails

    def save_state(self):
        raise NotImplementedError

    def appraise_replies(self, texts):
        if self.fails:
            raise UserFailed("the server is gone")
        self.asked.append(list(texts))
        return SimpleNamespace(texts=texts, rewards=tuple(float(ord(x[0]) - 97) for x in texts))

    def step_from(self, appraised, index):
        return self.step(appraised.texts[index])


def test_an_environment_that_appraises_side_by_side_is_asked_once_a_moment(direct):
    env, sampler = SideBySide(), Several([ids_of(direct, one) for one in "abc"])
    (played,) = play_all(sampler, direct, [gym.wrappers.OrderEnforcing(env)], candidates=3)
    assert env.asked == [["a", "b", "c"]] * 3
    assert env.heard == ["c"] * 3, "one reply of a moment is said"
    assert [one.reward for one in played.alternatives] == [0.0, 1.0] * 3
    wrapped = gym.wrappers.TransformReward(SideBySide(), lambda reward: -reward)
    with pytest.raises(NotImplementedError):  # its wrapper counts, so each reply is said
        play_all(sampler, direct, [wrapped], candidates=3)


def test_replies_are_compared_as_if_the_scale_had_no_end(direct):
    class AtTheEnd(SideBySide):
        def appraise_replies(self, texts):
            appraised = super().appraise_replies(texts)
            return SimpleNamespace(texts=texts, rewards=(0.0,) * 3, unclipped=appraised.rewards)

    env, sampler = AtTheEnd(), Several([ids_of(direct, one) for one in "abc"])
    (played,) = play_all(sampler, direct, [env], candidates=3)
    assert env.heard == ["c"] * 3
    assert [one.reward for one in played.alternatives] == [0.0, 1.0] * 3
    assert played.reward_N.tolist() == [2.0] * 3


def test_a_user_that_fails_at_replies_ends_the_dialogue(direct):
    sampler = Several([ids_of(direct, one) for one in "ab"])
    (played,) = play_all(sampler, direct, [SideBySide(fails=True)], candidates=2)
    assert not played.valid
    with pytest.raises(TrainingError, match="the server is gone"):
        raise_if_all_failed([played])


@pytest.mark.parametrize("candidates", [1, 2])
def test_a_user_that_fails_at_its_first_words_ends_the_dialogue_alone(direct, candidates):
    class CannotOpen(EmbeddedUser):
        def open(self, scene, emotion):
            raise UserFailed("no first words")

    env = make_for_loop("RLVER-Empathy-v0", user=CannotOpen())
    sampler = Several([ids_of(direct, one) for one in "ab"])
    (played,) = play_all(sampler, direct, [env], candidates=candidates)
    assert not played.valid
    assert not played.sequences
    with pytest.raises(TrainingError, match="no first words"):
        raise_if_all_failed([played])


def test_a_time_limit_counts_candidates_and_is_refused(direct):
    env = gym.wrappers.TimeLimit(Rewinding(), max_episode_steps=8)
    with pytest.raises(TrainingError, match="TimeLimit counts tried replies as turns"):
        play_all(Scripted([[direct.end_of_turn]]), direct, [env], candidates=2)
