"""OpenReward (ORS): episodes as tasks of an environment server, and one tool, `say`, whose every
call gives the reward of its turn.

Server([make_environment()]).run() serves them. The policy sees the prompt and what `say` returns;
the client sees also the task (persona and seed), the rewards and the number of the turn.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.cards import env_card
from rlver_gym.core.languages import AGENT_TEXTS
from rlver_gym.core.persona import SPLITS
from rlver_gym.integrations.episodes import (
    DEFAULT_ENV,
    EpisodeHost,
    EpisodeSpec,
    list_tasks,
)
from rlver_gym.users import SentientUser
from rlver_gym.util.errors import DialogueError, needs_extra

with needs_extra("openreward"):
    from openreward.environments import (
        Environment,
        JSONObject,
        Message,
        TextBlock,
        ToolOutput,
        tool,
    )

_REMEDY = "Leave it out, or play the task again."


class SayParams(BaseModel):
    """What is said."""

    model_config = ConfigDict(extra="forbid")

    message: str = Field(description="What you say to them.")


class EmpathyEnvironment(Environment):
    """One episode. `make_environment` makes the classes that a `Server` takes."""

    host: ClassVar[EpisodeHost]
    env: ClassVar[str]
    """The id of an environment card, or its file."""
    seeds: ClassVar[tuple[int, ...]]
    server_name: ClassVar[str]

    def __init__(
        self, task_spec: JSONObject | None = None, secrets: dict[str, str] | None = None
    ) -> None:
        """`task_spec`: one of `list_tasks`, or like it. DialogueError or UnknownName for others."""
        super().__init__(dict(task_spec or {}), secrets or {})
        spec = EpisodeSpec.from_dict({**self.task_spec, "env": self.env})
        if spec.seed < 0:
            raise DialogueError(f"the task's seed is {spec.seed}. Seeds are integers from 0.")
        self._episode = self.host.episode(spec, _REMEDY, hide=": this episode is no score")
        self._opening = ""

    @classmethod
    def name(cls) -> str:
        return cls.server_name

    @classmethod
    def list_splits(cls) -> Sequence[str]:
        """train, validation, test and demo (which OpenReward takes for one to validate on)."""
        return SPLITS

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return list_tasks(cls.env, split, cls.seeds)

    async def setup(self) -> None:
        """Begin the episode. UserFailed when the person found no first words."""
        self._opening = await self._episode.abegin()

    def get_prompt(self) -> list[TextBlock]:
        language = self._episode.language
        told = f"{agent_prompt(language)}\n\n{AGENT_TEXTS[language].tool}"
        return [TextBlock(text=told), TextBlock(text=self._opening)]

    def get_messages(self) -> list[Message]:
        told, opening = self.get_prompt()
        return [Message(role="system", blocks=[told]), Message(role="user", blocks=[opening])]

    @tool
    async def say(self, params: SayParams) -> ToolOutput:
        """Say something to the person you are talking with. Returns what they answer."""
        result = await self._episode.asay(params.message)
        return ToolOutput(
            blocks=[TextBlock(text=result.reply)],
            metadata={"turn": len(self._episode.rewards)},
            reward=result.reward,
            finished=result.done,
        )


def make_environment(
    user: str | SentientUser = "embedded",
    *,
    env: str = DEFAULT_ENV,
    seeds: Iterable[int] = (0,),
    name: str | None = None,
    **options: Any,
) -> type[EmpathyEnvironment]:
    """A class for `openreward.environments.Server`, whose sessions share one user.

    `seeds`: each persona is a task with each of them. `name`: what the server calls it, for it may
    hold several classes; None for the card's id. When the user fails, the call of `say` fails: the
    client raises ToolFailed, and the session is over without a reward.
    """
    members = {
        "host": EpisodeHost(user, **options),
        "env": env,
        "seeds": tuple(seeds),
        "server_name": name or env_card(env).id,
    }
    return type("Empathy", (EmpathyEnvironment,), members)
