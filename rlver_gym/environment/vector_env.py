"""EmpathyVectorEnv: many dialogues that advance together, as in a SyncVectorEnv."""

from collections.abc import Callable, Coroutine, Iterable, Sequence, Sized
from functools import partial
from typing import Any, NamedTuple, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rlver_gym.core.dialogue import Turn
from rlver_gym.environment.dialogue_env import DialogueEnv, EnvStep
from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.environment.make import make_env
from rlver_gym.environment.session import AppraisedReplies, reply_many
from rlver_gym.environment.undo import undo_on_error
from rlver_gym.util.errors import RlverError, UtteranceError
from rlver_gym.util.event_loop import gather_all, run_sync, wait_for

Step = tuple[
    tuple[str, ...], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
]
T = TypeVar("T")
_Say = Callable[[], Coroutine[Any, Any, EnvStep]]


class EmpathyVectorEnv(VectorEnv[tuple[str, ...], tuple[str, ...], NDArray[Any]]):
    """`num_envs` dialogues side by side: observations and actions are tuples of strings, rewards an
    array in points.

    `gym.make_vec("RLVER-Empathy-v0", num_envs=64)` makes one, and steps as Gymnasium's own vector
    environments do (`vectorization_mode` "sync" and "async"). `autoreset_mode` is one of
    Gymnasium's: NEXT_STEP (the default, as there) begins the next dialogue in the step after the
    one that ends it, whose action is ignored; SAME_STEP begins it in the same step, with
    `infos["final_obs"]` and `infos["final_info"]`; DISABLED leaves it to
    `reset(options={"reset_mask": mask})`.

    `group_size=k` gives k neighbouring dialogues the same seed, so the same persona and user: the
    groups of GRPO. All other arguments are those of `EmpathyEnv`.

    With a `url`, what raises brings the dialogues back on this side alone, because a server does
    not go back: the same utterances are then answered as they were, others are a DialogueError, and
    a dialogue in whose place another had begun is over (ResetNeeded).
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (so in Gymnasium)
        **DialogueEnv.metadata,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        group_size: int = 1,
        **kwargs: Any,
    ) -> None:
        """Raises ValueError when `group_size` does not divide `num_envs`."""
        if num_envs < 1 or group_size < 1 or num_envs % group_size:
            raise ValueError(
                f"num_envs ({num_envs}) must be a positive multiple of group_size ({group_size})."
                " Change one of them."
            )
        first = make_env(**kwargs)
        # All with the same user, so with one client.
        self.envs = [first, *(first.fork() for _ in range(num_envs - 1))]
        self.num_envs = num_envs
        self.group_size = group_size
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**DialogueEnv.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = self.envs[0].render_mode
        self.single_action_space = self.envs[0].action_space
        self.single_observation_space = self.envs[0].observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._texts = [""] * num_envs
        self._is_over = np.zeros(num_envs, dtype=np.bool_)

    def reset(
        self,
        *,
        seed: int | np.integer[Any] | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Begin dialogues: all, or those of `options["reset_mask"]`, a boolean array of shape
        (num_envs,).

        An integer seed gives group g the seed `seed + g`, and decides what later resets without
        one draw. Other options go to each dialogue. What raises, an interrupt too, begins none.
        """
        options = dict(options or {})
        mask = _check_mask(
            options.pop("reset_mask", np.ones(self.num_envs, dtype=np.bool_)), self.num_envs
        )
        chosen = list(map(int, np.flatnonzero(mask)))
        with undo_on_error(self.envs, self):
            seeds = self._seeds(seed)
            if seed is not None:
                self._seed_later_resets(seeds, ~mask)
            openings = self._run_all(
                self.envs[number].areset(seed=seeds[number], options=options) for number in chosen
            )
        infos: dict[str, Any] = {}
        for number, (self._texts[number], info) in zip(chosen, openings, strict=True):
            infos = self._add_info(infos, info, number)
        self._is_over &= ~mask
        return tuple(self._texts), infos

    def step(self, actions: tuple[str, ...]) -> Step:
        """One utterance to every dialogue: `actions` holds `num_envs` strings; the users answer at
        once when they wait for a server.

        When one of the utterances is unusable, a user failed (UserFailed, unless
        `on_failure="truncate"`), or a server stops the run (see `ChatError`), no dialogue has
        moved.
        """
        self._check(actions)
        says: list[_Say] = [
            partial(env.astep, text) for env, text in zip(self.envs, actions, strict=True)
        ]
        with undo_on_error(self.envs):
            if not self.envs[0].is_async:
                says = self._reply_at_once(says, actions)
            return self._step_all(says)

    def _reply_at_once(self, says: list[_Say], actions: Sequence[str]) -> list[_Say]:
        heard = [
            (number, env)
            for number, env in enumerate(self.envs)
            if isinstance(env, EmpathyEnv) and self._listens(number)
        ]
        turns = reply_many([env.session for _, env in heard], [actions[at] for at, _ in heard])
        for (number, env), turn in zip(heard, turns, strict=True):
            says[number] = partial(_finish_step, env, turn, actions[number])
        return says

    def appraise_replies(
        self, texts: Sequence[Sequence[str]]
    ) -> tuple[AppraisedReplies | None, ...]:
        """Several replies to every dialogue at once; None where nothing can be said now."""
        self._check_count(texts, "replies for")
        numbers = [number for number in range(self.num_envs) if self._listens(number)]
        appraised = self._run_all(
            self.envs[number].aappraise_replies(texts[number]) for number in numbers
        )
        by_number = dict(zip(numbers, appraised, strict=True))
        return tuple(by_number.get(number) for number in range(self.num_envs))

    def step_from(
        self, appraised: Sequence[AppraisedReplies | None], indices: Sequence[int]
    ) -> Step:
        """To every dialogue the reply of its index, already appraised; gives what `step` gives."""
        self._check_count(appraised, "appraised replies for")
        self._check_count(indices, "indices for")
        says: list[_Say] = []
        for number, (env, replies, index) in enumerate(
            zip(self.envs, appraised, indices, strict=True)
        ):
            if replies is None and self._listens(number):
                raise UtteranceError(f"no replies for dialogue {number}, which goes on.")
            says.append(
                partial(env.astep, "")
                if replies is None
                else partial(env.astep_from, replies, index)
            )
        with undo_on_error(self.envs):
            return self._step_all(says)

    def _begins_anew(self, number: int) -> bool:
        return bool(self._is_over[number]) and self.autoreset_mode is AutoresetMode.NEXT_STEP

    def _listens(self, number: int) -> bool:
        env = self.envs[number]
        return not (self._begins_anew(number) or (env.has_begun and env.has_failed_to_open))

    def _step_all(self, says: Sequence[_Say]) -> Step:
        results = self._run_all(self._step_one(*numbered) for numbered in enumerate(says))
        rewards = np.array([result.reward for result in results], dtype=np.float64)
        terminated = np.array([result.terminated for result in results], dtype=np.bool_)
        truncated = np.array([result.truncated for result in results], dtype=np.bool_)
        infos: dict[str, Any] = {}
        for number, result in enumerate(results):
            self._texts[number] = result.text
            if result.final:
                infos = self._add_info(infos, result.final, number)
            infos = self._add_info(infos, result.info, number)
        self._is_over = terminated | truncated
        return tuple(self._texts), rewards, terminated, truncated, infos

    async def _step_one(self, number: int, say: _Say) -> "_StepResult":
        env = self.envs[number]
        if self._begins_anew(number):
            text, info = await env.areset()
            return _StepResult(text, 0.0, False, False, info, None)
        text, reward, terminated, truncated, info = await say()
        if not (self.autoreset_mode is AutoresetMode.SAME_STEP and (terminated or truncated)):
            return _StepResult(text, reward, terminated, truncated, info, None)
        opening, first = await env.areset()
        return _StepResult(
            opening, reward, terminated, truncated, first, {"final_obs": text, "final_info": info}
        )

    def _run_all(self, work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        if self.envs[0].is_async:
            return wait_for(gather_all(work))
        return [run_sync(coroutine) for coroutine in work]

    def _check(self, actions: object) -> None:
        if isinstance(actions, str | bytes) or not isinstance(actions, Sequence | np.ndarray):
            raise UtteranceError(
                f"the utterances must be a tuple or list of {self.num_envs} strings, not"
                f" {type(actions).__name__}. Give one to each dialogue."
            )
        self._check_count(actions, "utterances for")
        for number, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            if not self._listens(number):
                continue
            try:
                env.validate_utterance(action)
            except RlverError as error:
                error.add_note(f"in dialogue {number} of {self.num_envs}")
                raise

    def _check_count(self, values: Sized, what: str) -> None:
        if len(values) != self.num_envs:
            raise UtteranceError(f"{len(values)} {what} {self.num_envs} dialogues. Give one each.")

    def render(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
    ) -> tuple[str | None, ...] | None:
        """The dialogues as text, in mode "ansi"."""
        return tuple(env.render() for env in self.envs) if self.render_mode == "ansi" else None

    def close_extras(self, **kwargs: Any) -> None:
        """Tell a server that the dialogues are not needed any more."""
        for env in getattr(self, "envs", ()):  # none when the constructor refused its arguments
            env.close()

    def _seeds(
        self, seed: int | np.integer[Any] | Sequence[int | None] | None
    ) -> Sequence[int | None]:
        if seed is None:
            if self.group_size == 1:
                return [None] * self.num_envs
            seed = int(self.np_random.integers(2**31))
        if isinstance(seed, int | np.integer):
            return [int(seed) + number // self.group_size for number in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(
                f"{len(seed)} seeds for {self.num_envs} dialogues. Give one each, or a single"
                " integer."
            )
        return [None if number is None else int(number) for number in seed]

    def _seed_later_resets(self, seeds: Sequence[int | None], others: NDArray[np.bool_]) -> None:
        super().reset(seed=next(filter(lambda number: number is not None, seeds), None))
        for number in map(int, np.flatnonzero(others)):
            gym.Env.reset(self.envs[number], seed=seeds[number])  # the random numbers alone


async def _finish_step(env: EmpathyEnv, turn: Turn, action: str) -> EnvStep:
    return env.finish_step(turn, action)


def _check_mask(mask: Any, num_envs: int) -> NDArray[np.bool_]:
    if (
        not isinstance(mask, np.ndarray)
        or mask.shape != (num_envs,)
        or mask.dtype != np.bool_
        or not mask.any()
    ):
        raise ValueError(
            f'options["reset_mask"] must be a boolean numpy array of shape ({num_envs},) with at'
            f" least one True, got {mask!r}"
        )
    return mask


class _StepResult(NamedTuple):
    """One dialogue's step; `final`: its last words and info, when another has begun since."""

    text: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    final: dict[str, Any] | None
