"""Dialogues played by the policy, many at a time: whoever has been answered speaks next, in one batch. Of the environments it knows only Gymnasium:
`reset` and `step` with text.

Direct: a dialogue is one sequence, which grows by what was sampled and what the template puts between. Think: each turn is a sequence of its own, since
earlier thoughts are not in its prompt.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from threading import BoundedSemaphore, Event
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from rlver_gym.policy.renderer import Renderer
from rlver_gym.policy.sampler import Drawn, Prompt, Sampler, Sampling
from rlver_gym.policy.trajectory import Line, Played, TokenSequence

TextEnv = gym.Env[str, str]


class Start(NamedTuple):
    """How a dialogue begins."""

    number: int
    """Tells dialogues of one call (and of other processes) apart; decides, with the draw's seed, what is sampled."""
    seed: int
    """For the environment's `reset`: the same persona and user for the same seed."""
    group: int
    options: Mapping[str, Any] | None = None
    """For the environment's `reset`."""


def talk(
    sampler: Sampler,
    renderer: Renderer,
    sampling: Sampling,
    envs: Sequence[TextEnv],
    starts: Sequence[Start],
    *,
    draw_seed: int,
    max_tokens: int,
    workers: int = 1,
) -> list[Played]:
    """Play every start in an environment of its own to the end; gives them in the order of the starts.

    `draw_seed`: equal ones give equal replies, whoever else is in the batch, if the sampler goes by seeds. `max_tokens`: a dialogue that has no room for another reply ends,
    marked as overflowed. `workers`: environments that step at the same time, for those that wait for a server; 1 steps them one after the other.
    """
    dialogues = [_Dialogue(env, start, renderer) for env, start in zip(envs, starts, strict=True)]
    room = max_tokens - sampling.max_tokens
    if sampler.at_once is not None:
        _talk_side_by_side(sampler, sampler.at_once, sampling, dialogues, room, draw_seed, workers)
        return [one.played() for one in dialogues]
    sampler.forget()
    try:
        with ThreadPoolExecutor(workers) as pool:
            do = pool.submit if workers > 1 else _done
            waiting = {do(one.reset): one for one in dialogues}
            while waiting:
                ready = _finished(waiting)
                asked = [(one, prompt) for one in ready if not one.over and (prompt := one.prompt(room)) is not None]
                prompts = [Prompt(one.start.number, ids, one.draw_seed(draw_seed)) for one, ids in asked]
                drawn = sampler.sample(prompts, sampling) if prompts else []
                for (one, prompt), reply in zip(asked, drawn, strict=True):
                    waiting[do(one.step, one.speak(prompt, reply))] = one
    finally:
        sampler.forget()
    return [one.played() for one in dialogues]


def _talk_side_by_side(
    sampler: Sampler,
    at_once: int,
    sampling: Sampling,
    dialogues: "Sequence[_Dialogue]",
    room: int,
    draw_seed: int,
    workers: int,
) -> None:
    """Each dialogue goes on as soon as its own answer is there, whatever the others wait for. At most `workers` environments step at the same time."""
    stepping, is_broken = BoundedSemaphore(workers), Event()

    def play(one: _Dialogue) -> None:
        with stepping:
            one.reset()
        while not one.over and not is_broken.is_set() and (prompt := one.prompt(room)) is not None:
            (drawn,) = sampler.sample([Prompt(one.start.number, prompt, one.draw_seed(draw_seed))], sampling)
            utterance = one.speak(prompt, drawn)
            with stepping:
                one.step(utterance)

    with ThreadPoolExecutor(at_once) as pool:
        under_way = [pool.submit(play, one) for one in dialogues]
        try:
            for future in as_completed(under_way):
                future.result()
        except BaseException:
            is_broken.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _done(work: Callable[..., None], *given: Any) -> Future[None]:
    """The work, already done."""
    future: Future[None] = Future()
    future.set_result(work(*given))
    return future


def _finished(waiting: "dict[Future[None], _Dialogue]") -> "list[_Dialogue]":
    """Take out those whose environment has answered, in the order of their numbers; raises what it raised."""
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        future.result()
    return sorted((waiting.pop(future) for future in done), key=lambda one: one.start.number)


class _Dialogue:
    """One dialogue while it is played."""

    def __init__(self, env: TextEnv, start: Start, renderer: Renderer) -> None:
        self.env = env
        self.start = start
        self.renderer = renderer
        self.users: list[str] = []
        self.replies: list[str] = []
        self.lines: list[Line] = []
        self.rewards: list[float] = []
        self.broken: list[bool] = []
        self.cut: list[bool] = []
        self.growing: list[_Growing] = []
        self.info: dict[str, Any] = {}
        self.over = self.valid = self.overflowed = False

    def reset(self) -> None:
        text, self.info = self.env.reset(seed=self.start.seed, options=dict(self.start.options or {}))
        self.valid = True
        self._heard(text)

    def step(self, utterance: str) -> None:
        text, reward, terminated, truncated, self.info = self.env.step(utterance)
        self.rewards.append(float(reward))
        self.valid = bool(self.info.get("valid", True))
        self.over = terminated or truncated
        self._heard(text)

    def prompt(self, room: int) -> list[int] | None:
        """Everything up to the next reply; None when that is longer than `room`, which ends the dialogue."""
        if self.renderer.style == "think":
            ids = self.renderer.prompt(self.users, self.replies)
        elif not self.growing:
            ids = self.renderer.opening(self.users[0])
        else:
            before = self.growing[0].ids
            ids = before + self.renderer.between(self.users[-1], before[-1])
        if len(ids) <= room:
            return ids
        self.over = self.overflowed = True
        self.valid = self.valid and bool(self.replies)
        return None

    def draw_seed(self, seed: int) -> int:
        """What decides the next reply."""
        return int(np.random.SeedSequence((seed, self.start.number, len(self.replies))).generate_state(1)[0])

    def speak(self, prompt: list[int], reply: Drawn) -> str:
        """Note what the policy said; gives what the user hears of it."""
        if self.renderer.style == "think" or not self.growing:
            self.growing.append(_Growing())
        self.growing[-1].grow(prompt, reply, turn=len(self.replies))
        said = self.renderer.parse(reply.ids)
        self.replies.append(said.text)
        self.broken.append(said.broken)
        self.cut.append(reply.ids[-1] not in self.renderer.stop_ids)
        self.lines.append(Line("agent", said.text, said.thought))
        return said.text

    def played(self) -> Played:
        return Played(
            group=self.start.group,
            seed=self.start.seed,
            reward_N=np.array(self.rewards, dtype=np.float32),
            broken_N=np.array(self.broken, dtype=np.bool_),
            sequences=tuple(one.sequence() for one in self.growing),
            lines=tuple(self.lines),
            info=self.info,
            valid=self.valid,
            overflowed=self.overflowed,
            cut_N=np.array(self.cut, dtype=np.bool_),
        )

    def _heard(self, text: str) -> None:
        self.users.append(text)
        self.lines.append(Line("user", text))


class _Growing:
    """A token sequence while it grows. Whatever is no reply counts as not said."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.turns: list[int] = []

    def grow(self, prompt: list[int], reply: Drawn, turn: int) -> None:
        unsaid = len(prompt) - len(self.ids)
        self.ids = [*prompt, *reply.ids]
        self.logprobs += [*[0.0] * unsaid, *reply.logprobs]
        self.turns += [*[-1] * unsaid, *[turn] * len(reply.ids)]

    def sequence(self) -> TokenSequence:
        turn_T = np.array(self.turns, dtype=np.int32)
        return TokenSequence(
            id_T=np.array(self.ids, dtype=np.int64),
            said_T=turn_T >= 0,
            logprob_T=np.array(self.logprobs, dtype=np.float32),
            turn_T=turn_T,
        )


def groups(count: int, size: int, seeds: Iterator[int]) -> list[Start]:
    """`count` starts in groups of `size` neighbours, each group with the next of the seeds."""
    starts: list[Start] = []
    for group in range(-(-count // size)):
        seed = next(seeds)
        starts += [Start(number, seed, group) for number in range(group * size, min(count, (group + 1) * size))]
    return starts
