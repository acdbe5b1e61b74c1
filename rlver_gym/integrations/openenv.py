"""OpenEnv: a server of episodes, one for each session, and its typed client.

`make_app` serves; `EmpathyClient` talks with it. An observation holds what the person says, and the
number of the turn that it answers, so that a late answer is never taken for another one's.
"""

import html
import secrets
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from gymnasium.utils.seeding import np_random
from pydantic import ConfigDict, Field

from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.cards import env_card
from rlver_gym.core.persona import SPLITS
from rlver_gym.environment.dialogue_env import check_split
from rlver_gym.integrations.episodes import (
    DEFAULT_ENV,
    EpisodeHost,
    EpisodeSpec,
    TextEpisode,
    list_specs,
)
from rlver_gym.library.personas import library
from rlver_gym.users import SentientUser
from rlver_gym.util import __version__
from rlver_gym.util.errors import DialogueError, RlverError, UnknownName, UserFailed, needs_extra

with needs_extra("openenv"):
    from fastapi import FastAPI, Request
    from fastapi.responses import JSONResponse
    from openenv.core import EnvClient
    from openenv.core.client_types import StepResult
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State

ENV_NAME = "rlver_gym"
_REMEDY = "Leave it out, or play it again."
_UNMOVED = ", and the episode is where it was: try again, or leave it out"


class EmpathyAction(Action):
    """Something to say to the person."""

    message: str = Field(description="What you say to them.")
    turn: int | None = Field(
        default=None,
        ge=1,
        description="The number of this utterance, from 1. Another one than the next is refused."
        " Left out: it is not checked.",
    )


class EmpathyObservation(Observation):
    """What the person says. The reward of a turn is its own; after a reset there is none."""

    message: str = Field(description="What the person says.")
    turn: int = Field(ge=0, description="Which utterance this answers; 0 for the first words.")
    episode_id: str = Field(description="As given to reset, or made there.")


class EmpathyState(State):
    """Which episode this is, and where it stands."""

    model_config = ConfigDict(extra="forbid")

    persona: str | None = Field(default=None, description="The id of the persona that is met.")
    seed: int | None = Field(default=None, description="With the persona, it gives this episode.")


class EmpathyEnvironment(Environment[EmpathyAction, EmpathyObservation, EmpathyState]):
    """The episodes of one session, in a thread of OpenEnv's, one after the other."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, host: EpisodeHost, env: str = DEFAULT_ENV, seeds: Sequence[int] = (0,)):
        super().__init__()
        self._host, self._env, self._seeds = host, env, tuple(seeds)
        self._episode: TextEpisode | None = None
        self._episode_id = ""

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        persona: str | None = None,
        split: str | None = None,
        index: int | None = None,
        **unknown: Any,
    ) -> EmpathyObservation:
        """Begin an episode, and give the person's first words.

        Whom it is with: the `persona` of that id; or the task `index` of a `split`; or else the
        seed draws a persona of the split. `seed`: an integer from 0; None takes the task's, or one
        at random, which the state names. IndexError for a task that does not exist, DialogueError
        for other arguments, UserFailed when the user failed: there is no episode then.
        """
        self._episode = None
        if unknown:
            known = ("seed", "episode_id", "persona", "split", "index")
            raise UnknownName.of("reset option", sorted(unknown)[0], known)
        spec = self._choose(seed, persona, split, index)
        episode = self._host.episode(spec, _REMEDY, hide=_UNMOVED)
        opening = episode.begin()
        first = EmpathyObservation(
            message=opening, turn=0, episode_id=uuid4().hex if episode_id is None else episode_id
        )
        self._episode, self._episode_id = episode, first.episode_id
        return first

    def step(
        self, action: EmpathyAction, timeout_s: float | None = None, **options: Any
    ) -> EmpathyObservation:
        """Say something to the person. `timeout_s` is not used: the user has one of its own.
        DialogueError without an episode, after its end, and for another turn than the next;
        UserFailed when the user failed: the episode is no score, and over.
        """
        if self._episode is None:
            raise DialogueError(
                "this session has no episode. A client that lost its connection, or gave up"
                " waiting for an answer, gets a new session: call reset(), and play the episode"
                " from its beginning."
            )
        if self._episode.done:
            raise DialogueError("the episode is over. Call reset() for another one.")
        turn = len(self._episode.rewards) + 1
        if action.turn not in (None, turn):
            raise DialogueError(
                f"the action is numbered {action.turn}, and turn {turn} is next: an answer was"
                " lost. Call reset(), and play the episode from its beginning."
            )
        result = self._episode.say(action.message)
        said = {"message": result.reply, "turn": turn, "episode_id": self._episode_id}
        return EmpathyObservation(**said, reward=result.reward, done=result.done)

    @property
    def state(self) -> EmpathyState:
        """Which episode this is, and how many turns it has had; empty before the first reset."""
        if self._episode is None:
            return EmpathyState()
        known = {"persona": self._episode.spec.persona, "seed": self._episode.spec.seed}
        turns = len(self._episode.rewards)
        return EmpathyState(episode_id=self._episode_id, step_count=turns, **known)

    def get_metadata(self) -> EnvironmentMetadata:
        told = agent_prompt("en")
        return EnvironmentMetadata(name=ENV_NAME, description=told, version=__version__)

    def render_web(self, observation: dict[str, Any]) -> str:
        names = {"user": "Person", "assistant": "You"}
        said = self._episode.messages[1:] if self._episode else []
        return "\n".join(
            f"<p><b>{names[message['role']]}</b> {html.escape(message['content'])}</p>"
            for message in said
        )

    def list_splits(self) -> list[str]:
        return list(SPLITS)

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        specs = list_specs(self._env, check_split(split), self._seeds)
        return [{"persona": spec.persona, "seed": spec.seed} for spec in specs]

    def num_tasks(self, split: str) -> int:
        return len(self.list_tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        tasks, last = self.list_tasks(split), self.num_tasks(split) - 1
        if type(index) is not int or not 0 <= index <= last:
            raise IndexError(f"there is no task {index} in the split {split!r}: it has 0 to {last}")
        return tasks[index]

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """The tasks from `start` on, up to before `stop`, as of a Python slice."""
        return self.list_tasks(split)[start:stop]

    def _choose(
        self, seed: int | None, persona: str | None, split: str | None, index: int | None
    ) -> EpisodeSpec:
        if seed is not None and (type(seed) is not int or seed < 0):
            raise DialogueError(f"the seed is {seed!r}. Seeds are integers from 0.")
        if persona is not None and (split is not None or index is not None):
            raise DialogueError("a persona needs no split and no index: leave them out.")
        chosen_split = env_card(self._env).split if split is None else split
        if index is not None:
            task = self.get_task(chosen_split, index)
            persona, seed = task["persona"], task["seed"] if seed is None else seed
        if seed is None:
            seed = secrets.randbelow(2**31)
        if persona is None:
            ids = library().ids(check_split(chosen_split))
            persona = ids[np_random(seed)[0].integers(len(ids))]
        return EpisodeSpec.from_dict({"persona": persona, "seed": seed, "env": self._env})


class EmpathyClient(EnvClient[EmpathyAction, EmpathyObservation, EmpathyState]):
    """OpenEnv's client. An answer that comes too late ends the connection and the episode."""

    def _step_payload(self, action: EmpathyAction) -> dict[str, Any]:
        return action.model_dump(include={"message", "turn"}, exclude_none=True)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[EmpathyObservation]:
        reward, done = payload["reward"], payload["done"]
        observation = EmpathyObservation(**payload["observation"], reward=reward, done=done)
        return StepResult(observation, reward, done)

    def _parse_state(self, payload: dict[str, Any]) -> EmpathyState:
        return EmpathyState.model_validate(payload)


def make_app(
    user: str | SentientUser = "embedded",
    *,
    env: str = DEFAULT_ENV,
    seeds: Iterable[int] = (0,),
    max_sessions: int = 64,
    **options: Any,
) -> FastAPI:
    """A server for uvicorn, whose sessions share one user.

    `seeds`: each persona is a task with each of them. `max_sessions`: a further one is refused.
    When the user fails, `reset` and `step` are errors: an episode that is no score has no reward.
    Episodes need a WebSocket session (`/ws`); over HTTP, `/step` has no episode. With
    ENABLE_WEB_INTERFACE=true there is a page to try it at /web, one dialogue for all its visitors.
    """
    host = EpisodeHost(user, **options)
    env_card(env)
    app = create_app(
        partial(EmpathyEnvironment, host, env, tuple(seeds)),
        EmpathyAction,
        EmpathyObservation,
        env_name=ENV_NAME,
        max_concurrent_envs=max_sessions,
        state_cls=EmpathyState,
    )
    for kind in (RlverError, IndexError):
        app.add_exception_handler(kind, _answer_error)
    return app


async def _answer_error(request: Request, error: Exception) -> JSONResponse:
    """Of the HTTP routes; a WebSocket session answers errors itself."""
    status = 502 if isinstance(error, UserFailed) else 400
    return JSONResponse({"detail": str(error)}, status)
