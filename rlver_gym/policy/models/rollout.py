"""Dialogues played by the policy, many at a time: whoever has been answered speaks next, in one
batch. Of the environments it knows only Gymnasium: `reset` and `step` with text.

Direct: a dialogue is one sequence, which grows by what was sampled and what the template puts
between. Think: each turn is a sequence of its own, since earlier thoughts are not in its prompt.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from threading import BoundedSemaphore
from typing import Any, NamedTuple, SupportsFloat

import gymnasium as gym
import numpy as np

from rlver_gym.policy.models.own_reward import OwnReward, RewardedReply
from rlver_gym.policy.models.renderer import ParsedReply, Renderer
from rlver_gym.policy.models.sampler import Completion, Prompt, Sampler, Sampling
from rlver_gym.policy.models.trajectory import (
    Alternative,
    OnProgress,
    TokenSequence,
    Trajectory,
    TranscriptLine,
    ignore_progress,
)
from rlver_gym.util.errors import TrainingError, UserFailed
from rlver_gym.util.event_loop import Waits

TextEnv = gym.Env[str, str]
_RESTORE_METHODS = ("save_state", "restore")
"""What an environment has that goes back to an earlier turn."""
_APPRAISE_METHODS = ("appraise_replies", "step_from")
"""What an environment has that says what several replies would earn, and goes on from one."""
_GATHER_S = 0.2
"""How long a batch waits for more answers: many replies take hardly longer than few."""


class ResetSpec(NamedTuple):
    """How a dialogue begins."""

    number: int
    """Tells dialogues of all processes apart; decides, with the draw's seed, what is sampled."""
    seed: int
    """For the environment's `reset`: the same persona and user for the same seed."""
    group: int
    options: Mapping[str, Any] | None = None
    """For the environment's `reset`."""


def collect_rollouts(
    sampler: Sampler,
    renderer: Renderer,
    sampling: Sampling,
    envs: Sequence[TextEnv],
    specs: Sequence[ResetSpec],
    *,
    draw_seed: int,
    max_tokens: int,
    workers: int = 1,
    candidates: int = 1,
    goes_on_from_best: bool = True,
    own_reward: OwnReward | None = None,
    on_progress: OnProgress = ignore_progress,
) -> list[Trajectory]:
    """Play every start in an environment of its own to the end; gives them in the order of the
    starts.

    `draw_seed`: equal ones give equal replies, if the sampler goes by seeds; in another batch up to
    rounding, which now and then tips a token. `max_tokens`: a dialogue that has no room for another
    reply ends, marked as context_overflow. `workers`: environments that step at the same time, for
    those that wait for a server; 1 steps them one after the other. `candidates`: replies that are
    tried at every turn; the dialogue goes on from the best of them (best of n), or from one drawn
    by lot. Above 1, TrainingError for an environment that has neither `appraise_replies` and
    `step_from` nor `save_state` and `restore`. `own_reward`: adds to what the environment gives.
    """
    dialogues = [
        _Dialogue(env, spec, renderer, candidates, goes_on_from_best, own_reward)
        for env, spec in zip(envs, specs, strict=True)
    ]
    stepping = BoundedSemaphore(workers)

    def reset(one: _Dialogue) -> None:
        with stepping:
            one.reset()

    def step(one: _Dialogue, asked: list[Prompt], completions: list[Completion] | None) -> None:
        completions = sampler.sample(asked, sampling) if completions is None else completions
        with stepping:
            one.step(asked[0].ids, completions, asked[0].seed)

    sampler.forget()
    waits = Waits()
    with ThreadPoolExecutor(sampler.at_once or workers, initializer=waits.join) as pool:
        do = pool.submit if sampler.at_once or workers > 1 else _run_in_this_thread
        waiting: dict[Future[None], _Dialogue] = {do(reset, one): one for one in dialogues}
        try:
            while waiting:
                ready = _pop_ready(waiting, 0.0 if sampler.at_once else _GATHER_S)
                asked_of = {
                    one: one.candidates(prompt, draw_seed)
                    for one in ready
                    if not one.over
                    and (prompt := one.prompt(max_tokens - sampling.max_tokens)) is not None
                }
                # A server is asked by each for itself, as soon as it is ready; a model by all
                # who are, in one batch.
                completions = None
                if not sampler.at_once and asked_of:
                    prompts = [one for asked in asked_of.values() for one in asked]
                    completions = iter(sampler.sample(prompts, sampling))
                for one, asked in asked_of.items():
                    given = None if completions is None else list(islice(completions, len(asked)))
                    waiting[do(step, one, asked, given)] = one
                replies = sum(len(one.replies) for one in dialogues)
                over = sum(one.over for one in dialogues)
                on_progress(f"{replies} replies", over, len(dialogues))
        except KeyboardInterrupt:
            waits.cancel()  # a stop does not wait for servers
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            sampler.forget()
    return [one.trajectory() for one in dialogues]


def _run_in_this_thread(work: Callable[..., None], *given: Any) -> Future[None]:
    future: Future[None] = Future()
    future.set_result(work(*given))
    return future


def _pop_ready(waiting: "dict[Future[None], _Dialogue]", gather_s: float) -> "list[_Dialogue]":
    """Take out who was answered within `gather_s` of the first, by number; raises what failed."""
    wait(waiting, return_when=FIRST_COMPLETED)
    done, _ = wait(waiting, timeout=gather_s)
    for future in done:
        future.result()
    return sorted((waiting.pop(future) for future in done), key=lambda one: one.spec.number)


@dataclass(eq=False)
class _Dialogue:
    """One dialogue while it is played."""

    env: TextEnv
    spec: ResetSpec
    renderer: Renderer
    num_candidates: int
    goes_on_from_best: bool
    own_reward: OwnReward | None
    over = valid = context_overflow = logprob_missing = False

    def __post_init__(self) -> None:
        self.users: list[str] = []
        self.replies: list[str] = []
        self.lines: list[TranscriptLine] = []
        self.rewards: list[float] = []
        self.paid: list[float] = []
        self.format_error: list[bool] = []
        self.cut: list[bool] = []
        self.builders: list[SequenceBuilder] = []
        self.alternatives: list[Alternative] = []
        self.info: dict[str, Any] = {}

    def reset(self) -> None:
        if self.num_candidates > 1:
            _check_env_can_compare(self.env)
        text, self.info = self.env.reset(seed=self.spec.seed, options=dict(self.spec.options or {}))
        self.valid = bool(self.info.get("valid", True))
        self._record_user_line(text)
        if not self.valid:  # the user failed at its first words, and says why when it is answered
            self.over, self.info = True, self.env.step("")[4]

    def candidates(self, prompt: list[int], draw_seed: int) -> list[Prompt]:
        """As many times the same prompt as replies are tried, each with a seed of its own."""
        turn = (draw_seed, self.spec.number, len(self.replies))
        seeds = [turn if not number else (*turn, number) for number in range(self.num_candidates)]
        return [
            Prompt(
                self.spec.number * self.num_candidates + number,
                prompt,
                int(np.random.SeedSequence(seed).generate_state(1)[0]),
            )
            for number, seed in enumerate(seeds)
        ]

    def step(self, prompt: Sequence[int], completions: Sequence[Completion], seed: int) -> None:
        """Say the reply, of several the one that goes on; `seed` decides the lot. One without all
        its log-probabilities is not said; where there is no other the dialogue ends.
        """
        completions = [one for one in completions if np.isfinite(one.logprobs).all()]
        if not completions:
            self.over = self.logprob_missing = True
            self.valid = False
            return
        parsed = [self.renderer.parse(one.ids) for one in completions]
        if self.num_candidates == 1:
            self._record_reply(prompt, completions[0], parsed[0])
            answer = self.env.step(parsed[0].text)
            paid = reward = float(answer[1])
            if answer[4].get("valid", True):
                reward = self._add_own_reward(reward, parsed[0], completions[0])
            self._record_answer(answer, reward, paid)
            return
        try:
            tried = _try_replies(self.env, [reply.text for reply in parsed])
        except UserFailed as failure:
            self.over, self.valid = True, False
            self.info = {**self.info, "reasons": [{"note": str(failure)}]}
            return
        rewards = list(map(self._add_own_reward, tried.rewards, parsed, completions))
        known = [at for at, reward in enumerate(rewards) if not math.isnan(reward)]
        chosen = int(np.random.default_rng((seed, 1)).integers(len(parsed)))
        if self.goes_on_from_best or chosen not in known:
            ranks = {at: (not parsed[at].format_error, rewards[at]) for at in known}
            chosen = max(known, key=ranks.__getitem__, default=0)
        turn = len(self.replies)
        for at in known:
            if at != chosen:
                builder = SequenceBuilder()
                builder.grow(prompt, completions[at], turn)
                tried_reply = builder.sequence(), rewards[at], parsed[at].format_error
                self.alternatives.append(Alternative(turn, *tried_reply))
        self._record_reply(prompt, completions[chosen], parsed[chosen])
        answer = tried.go_on(chosen)
        given = (rewards[chosen], tried.rewards[chosen]) if known else 2 * (float(answer[1]),)
        self._record_answer(answer, *given)

    def _add_own_reward(self, reward: float, said: ParsedReply, completion: Completion) -> float:
        if self.own_reward is None or math.isnan(reward):
            return reward
        before = tuple(self.users), tuple(self.replies[: len(self.rewards)])
        who = str(self.info.get("persona") or "")
        reply = (said.text, said.thought, *before, reward, len(completion.ids), who)
        return self.own_reward(RewardedReply(*reply))

    def prompt(self, max_prompt_tokens: int) -> list[int] | None:
        """All up to the next reply; None, and the dialogue over, beyond `max_prompt_tokens`."""
        before = self.builders[-1].ids if self.builders else []
        ids = self.renderer.next_prompt(before, self.users, self.replies)
        if len(ids) <= max_prompt_tokens:
            return ids
        self.over = self.context_overflow = True
        self.valid = self.valid and bool(self.replies)
        return None

    def _record_reply(self, prompt: Sequence[int], reply: Completion, said: ParsedReply) -> None:
        if self.renderer.style == "think" or self.num_candidates > 1 or not self.builders:
            self.builders.append(SequenceBuilder())
        self.builders[-1].grow(prompt, reply, turn=len(self.replies))
        self.replies.append(said.text)
        self.format_error.append(said.format_error)
        self.cut.append(reply.ids[-1] not in self.renderer.stop_ids)
        self.lines.append(TranscriptLine("agent", said.text, said.thought))

    def trajectory(self) -> Trajectory:
        return Trajectory(
            group=self.spec.group,
            seed=self.spec.seed,
            reward_N=np.array(self.rewards, dtype=np.float32),
            paid_N=np.array(self.paid, dtype=np.float32),
            format_error_N=np.array(self.format_error, dtype=np.bool_),
            sequences=tuple(one.sequence() for one in self.builders),
            lines=tuple(self.lines),
            info=self.info,
            valid=self.valid,
            context_overflow=self.context_overflow,
            logprob_missing=self.logprob_missing,
            cut_N=np.array(self.cut, dtype=np.bool_),
            alternatives=tuple(self.alternatives),
        )

    def _record_answer(
        self,
        answer: tuple[str, SupportsFloat, bool, bool, dict[str, Any]],
        reward: float,
        paid: float,
    ) -> None:
        """`paid`: by the user alone, without an own reward."""
        text, _, terminated, truncated, self.info = answer
        self.rewards.append(reward)
        self.paid.append(paid)
        self.valid = bool(self.info.get("valid", True))
        self.over = terminated or truncated
        self._record_user_line(text)

    def _record_user_line(self, text: str) -> None:
        self.users.append(text)
        self.lines.append(TranscriptLine("user", text))


def raise_if_all_failed(trajectories: Sequence[Trajectory]) -> None:
    """TrainingError, with what the environment said, when no dialogue of some is valid."""
    if not trajectories or any(one.valid for one in trajectories):
        return
    info = trajectories[0].info
    notes = [
        str(reason["note"])
        for reason in info.get("reasons", ())
        if isinstance(reason, dict) and "note" in reason
    ]
    why = notes[-1] if notes else "their info says no more than valid: false"
    remedy = "A run in a folder goes on with --resume once that is mended"
    if all(one.context_overflow for one in trajectories):
        why = "no room was left in max_tokens for a first reply"
        remedy = "Begin with a larger --max-tokens and another --out"
    if all(one.logprob_missing for one in trajectories):
        why = "the sampler gave the tokens of no first reply their log-probabilities"
    raise TrainingError(f"all {len(trajectories)} dialogues failed: {why.rstrip('.')}. {remedy}.")


class _TriedReplies(NamedTuple):
    """Several replies to one moment, none of them said yet."""

    rewards: list[float]
    """What each would earn, if the scale of emotion had no end; NaN where the user failed."""
    go_on: Callable[[int], tuple[str, SupportsFloat, bool, bool, dict[str, Any]]]
    """Say that reply: gives what `step` gives. At most one of them."""


def _try_replies(env: TextEnv, texts: Sequence[str]) -> _TriedReplies:
    """What each reply would earn, asked side by side or said one by one, going back. UserFailed."""
    if _appraises_side_by_side(env):
        appraised = env.get_wrapper_attr("appraise_replies")(texts)
        step_from = env.get_wrapper_attr("step_from")
        # where all that is said is bad, the scale ends and rewards are equal
        rewards = getattr(appraised, "unclipped", appraised.rewards)
        return _TriedReplies(list(rewards), lambda at: step_from(appraised, at))
    save_state, restore = (env.get_wrapper_attr(name) for name in _RESTORE_METHODS)
    before, answers, after = save_state(), [], []
    for text in texts:
        restore(before)
        answers.append(env.step(text))
        after.append(save_state())
    restore(before)

    def go_on(chosen: int) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        restore(after[chosen])
        return answers[chosen]

    rewards = [float(x[1]) if x[4].get("valid", True) else math.nan for x in answers]
    return _TriedReplies(rewards, go_on)


def _appraises_side_by_side(env: TextEnv) -> bool:
    """Only with none but Gymnasium's checks around it: `step_from` passes other wrappers by."""
    around = env
    while isinstance(around, gym.wrappers.OrderEnforcing | gym.wrappers.PassiveEnvChecker):
        around = around.env
    has_both = all(env.has_wrapper_attr(name) for name in _APPRAISE_METHODS)
    return has_both and not isinstance(around, gym.Wrapper)


def _check_env_can_compare(env: TextEnv) -> None:
    """TrainingError unless replies are appraised there, or all goes back to an earlier turn."""
    around = env
    while isinstance(around, gym.Wrapper):
        if isinstance(around, gym.wrappers.TimeLimit):
            raise TrainingError(
                "gymnasium's TimeLimit counts tried replies as turns. Make the environment without"
                " max_episode_steps, or compare dialogues."
            )
        around = around.env
    can_restore = all(env.has_wrapper_attr(name) for name in _RESTORE_METHODS)
    if not can_restore and not _appraises_side_by_side(env):
        raise TrainingError(
            f"{type(around).__name__} cannot go back to an earlier turn, so no replies to one"
            " moment can be compared there. Give it save_state() and restore(), or compare"
            " dialogues."
        )


class SequenceBuilder:
    """A token sequence while it grows; what is no reply, or one of turn -1, is not said."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.turns: list[int] = []

    def grow(self, prompt: Sequence[int], reply: Completion, turn: int) -> None:
        given = len(prompt) - len(self.ids)
        self.ids = [*prompt, *reply.ids]
        self.logprobs += [*[0.0] * given, *reply.logprobs]
        self.turns += [*[-1] * given, *[turn] * len(reply.ids)]

    def sequence(self) -> TokenSequence:
        turn_T = np.array(self.turns, dtype=np.int32)
        return TokenSequence(
            id_T=np.array(self.ids, dtype=np.int64),
            action_mask_T=turn_T >= 0,
            logprob_T=np.array(self.logprobs, dtype=np.float32),
            turn_T=turn_T,
        )


def make_grouped_reset_specs(count: int, size: int, seeds: Iterator[int]) -> list[ResetSpec]:
    """`count` starts in groups of `size` neighbours, each group with the next of the seeds."""
    specs: list[ResetSpec] = []
    for group in range(-(-count // size)):
        seed = next(seeds)
        specs += [
            ResetSpec(number, seed, group)
            for number in range(group * size, min(count, (group + 1) * size))
        ]
    return specs
