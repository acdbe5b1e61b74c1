"""DialogueEnv: what one dialogue as a Gymnasium environment is, wherever the person is played."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.seeding import np_random

from rlver_gym.core.cards import EnvCard
from rlver_gym.core.persona import SPLIT_CHOICES, SplitChoice
from rlver_gym.environment.info import PRIVILEGED, InfoChoice, check_info_choice, select_info
from rlver_gym.environment.session import AppraisedReplies, run_coroutine
from rlver_gym.environment.spaces import MAX_REPLY_CHARS, Utterance
from rlver_gym.environment.undo import undo_on_error
from rlver_gym.util.errors import CardError, DialogueError, UnknownName, UserFailed, check_known

_PICTURES = ("rgb_array", "rgb_array_list", "depth_array", "depth_array_list")
"""Render modes of Gymnasium's that we do not have."""
_MOVES = (UserFailed, DialogueError)
"""Errors of a step that has ended the dialogue, or that another step has moved."""
FailureChoice = Literal["raise", "truncate"]
"""Whether a failed user raises UserFailed, or ends the episode as truncated and not valid."""
EnvStep = tuple[str, float, bool, bool, dict[str, Any]]
"""Of Gymnasium: what the person says, the reward, whether it ended or broke off, and `info`."""


class View(NamedTuple):
    """How an environment shows a dialogue."""

    info: InfoChoice = "public"
    on_failure: FailureChoice = "raise"
    render_mode: str | None = None


class SaidTurn(NamedTuple):
    """What came of an utterance."""

    reply: str
    reward: float
    is_failed: bool
    info: dict[str, Any]
    """Everything, to be selected from."""


class DialogueEnv(gym.Env[str, str]):
    """The part of an EmpathyEnv that does not depend on who plays the person: see there."""

    metadata: dict[str, Any] = {  # noqa: RUF012 (so in Gymnasium)
        "render_modes": ["ansi", "human"],
        "render_fps": 1,
    }
    privileged_info: ClassVar[tuple[str, ...]] = PRIVILEGED
    _spec: EnvSpec | None = None

    def __init__(
        self,
        card: EnvCard,
        ids: Sequence[str],
        view: View,
        *,
        is_async: bool,
        is_deterministic: bool,
    ) -> None:
        """`ids`: of whom a reset draws. `is_async`: it takes time, as where a server is asked."""
        self.card, self._ids = card, tuple(ids)
        self.info_choice: InfoChoice = check_info_choice(view.info)
        check_known("on_failure", view.on_failure, get_args(FailureChoice))
        self.on_failure = view.on_failure
        self.render_mode = _check_render_mode(view.render_mode, self.metadata["render_modes"])
        self.action_space = Utterance(card.max_utterance_chars)
        self.observation_space = Utterance(MAX_REPLY_CHARS)
        self.is_async = is_async
        self._is_deterministic = is_deterministic

    @property
    def spec(self) -> EnvSpec | None:
        """How it was made; nondeterministic where a language model plays the person."""
        return self._spec

    @spec.setter
    def spec(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, spec: EnvSpec | None
    ) -> None:
        if spec is not None and not self._is_deterministic:
            spec = replace(spec, nondeterministic=True)
        self._spec = spec

    @property
    @abstractmethod
    def has_begun(self) -> bool:
        """Whether there is a dialogue: reset() was called."""

    @property
    @abstractmethod
    def has_failed_to_open(self) -> bool:
        """Whether the user failed before its first words."""

    def fork(self) -> Self:
        """Another environment like this one, not yet reset, that shares its user or connection."""
        other = copy(self)
        other._np_random = None
        return other

    @abstractmethod
    def validate_utterance(self, utterance: str) -> str:
        """The utterance as it would be said; raises what `step` would raise for it."""

    @abstractmethod
    async def aappraise_replies(self, texts: Sequence[str]) -> AppraisedReplies:
        """See `appraise_replies`."""

    @abstractmethod
    def _keep_position(self) -> Callable[[], None]:
        """What brings the dialogue back to where it is now."""

    @abstractmethod
    async def _begin(self, persona: str, scene_seed: int) -> tuple[str, dict[str, Any]]:
        """The first words of an episode, and everything that may be in its `info`."""

    @abstractmethod
    async def _say(self, action: str) -> SaidTurn: ...

    @abstractmethod
    async def _say_from(self, appraised: AppraisedReplies, index: int) -> SaidTurn:
        """The same for a reply that is appraised already."""

    @abstractmethod
    def render(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What was said so far as text, in mode "ansi"."""

    @abstractmethod
    def _end_failed_dialogue(self) -> str:
        """Forget the dialogue whose user failed; returns why it did."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin a dialogue. `options={"persona": id}` chooses with whom."""
        with undo_on_error([self], unless=(UserFailed,)):
            return run_coroutine(self.areset(seed=seed, options=options), self.is_async)

    async def areset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """See `reset`."""
        with undo_on_error([self]):
            super().reset(seed=seed)
            asked = _check_options(options)
            persona, scene_seed = draw_scene(self.np_random, (asked,) if asked else self._ids)
            opening, info = await self._begin(persona, scene_seed)
        if self.has_failed_to_open and self.on_failure == "raise":
            raise self._make_failure()
        return opening, select_info(info, self.info_choice, self.card)

    def draw_persona(self, seed: int) -> str:
        """Whom a reset with that seed meets."""
        return draw_scene(np_random(seed)[0], self._ids)[0]

    def step(self, action: str) -> EnvStep:
        """Say something; see the class for what comes back."""
        with undo_on_error([self], unless=_MOVES):
            return run_coroutine(self.astep(action), self.is_async)

    async def astep(self, action: str) -> EnvStep:
        """See `step`."""
        return self._finish_step(await self._say(action))

    def _finish_step(self, said: SaidTurn) -> EnvStep:
        reply, reward, is_failed, info = said
        if is_failed and self.on_failure == "raise":
            raise self._make_failure()
        is_over = info["outcome"] is not None and not is_failed
        return reply, reward, is_over, is_failed, select_info(info, self.info_choice, self.card)

    def appraise_replies(self, texts: Sequence[str]) -> AppraisedReplies:
        """What each of several replies to this moment would do to the person, appraised side by
        side where the user can. The dialogue stays where it is; `step_from` goes on from one.

        Raises what `step` raises; UserFailed leaves the dialogue where it is.
        """
        return run_coroutine(self.aappraise_replies(texts), self.is_async)

    def step_from(self, appraised: AppraisedReplies, index: int) -> EnvStep:
        """Say the reply of that index, already appraised. DialogueError for another moment."""
        with undo_on_error([self], unless=_MOVES):
            return run_coroutine(self.astep_from(appraised, index), self.is_async)

    async def astep_from(self, appraised: AppraisedReplies, index: int) -> EnvStep:
        """See `step_from`."""
        return self._finish_step(await self._say_from(appraised, index))

    def _make_failure(self) -> UserFailed:
        cause = self._end_failed_dialogue().rstrip(".")
        return UserFailed(
            f"{cause}. This dialogue is over and no score: call reset()"
            ' for another, or make the environment with on_failure="truncate", which ends it with'
            ' info["valid"] False.'
        )


def _check_render_mode(mode: str | None, modes: Sequence[str]) -> str | None:
    if mode in _PICTURES:  # for loops that ask for pictures from whatever they get
        gym.logger.warn(
            f"a dialogue has no pictures: render_mode={mode!r} renders nothing. Modes:"
            f" {', '.join(modes)}."
        )
        return None
    if mode not in (None, *modes):
        raise UnknownName.of("render mode", mode, modes, f"{', '.join(modes)} or None")
    return mode


def draw_scene(generator: np.random.Generator, ids: Sequence[str]) -> tuple[str, int]:
    """Whom a reset meets, of these personas, and the seed of the scene, from 0 to 2**31 - 1."""
    return ids[int(generator.integers(len(ids)))], int(generator.integers(2**31))


def check_people(
    ids: Sequence[str], split: str, place: object, splits: Iterable[str]
) -> Sequence[str]:
    """The ids; CardError without any names the `splits` that have some."""
    if not ids:
        there = " or ".join(f'split="{name}"' for name in sorted(splits))
        raise CardError(f"{place}: has no persona of split {split!r}. Choose {there}.")
    return ids


def _check_options(options: object) -> str | None:
    if options is not None and not isinstance(options, Mapping):
        raise UnknownName(
            f'the options of reset must be a mapping, such as {{"persona": id}}, not'
            f" {type(options).__name__}."
        )
    for name in options or {}:
        if name != "persona":
            raise UnknownName.of("reset option", name, ["persona"], 'options={"persona": id}')
    asked = (options or {}).get("persona")
    if asked is not None and (not isinstance(asked, str) or not asked):
        raise UnknownName(f"a persona is chosen by its id, a text, not {str(asked)[:80]!r}.")
    return asked


def check_split(split: str) -> SplitChoice:
    if split not in SPLIT_CHOICES:
        raise UnknownName.of("split", split, SPLIT_CHOICES)
    return split
