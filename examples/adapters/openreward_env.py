"""OpenReward (ORS): episodes as tasks of an environment server, and one tool, `say`, whose every
call gives the reward of its turn. To be copied.

Needs: pip install openreward~=0.1.167

Server([make_environment()]).run() serves them. The policy sees the prompt and what `say` returns;
the client sees also the task (persona and seed), the rewards and the number of the turn.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from openreward.environments import Environment, JSONObject, Message, TextBlock, ToolOutput, tool
from pydantic import BaseModel, Field

from rlver_gym.integrations.episodes import DEFAULT_ENV, EpisodeHost, EpisodeSpec, list_specs

SPLITS = ("train", "validation", "test", "demo")
TOOL_PROMPT = (
    "You speak to them by calling the tool `say`, one call at a time; it returns what they answer."
    " They have spoken first."
)


class SayParams(BaseModel, extra="forbid"):
    """What is said."""

    message: str = Field(description="What you say to them.")


class EmpathyEnvironment(Environment):
    """One episode. `make_environment` makes the classes that a `Server` takes."""

    host: ClassVar[EpisodeHost]
    env: ClassVar[str]
    seeds: ClassVar[tuple[int, ...]]
    server_name: ClassVar[str]

    def __init__(
        self, task_spec: JSONObject | None = None, secrets: dict[str, str] | None = None
    ) -> None:
        super().__init__(dict(task_spec or {}), secrets or {})
        spec = EpisodeSpec.from_dict({**self.task_spec, "env": self.env})
        remedy = "Leave it out, or play the task again."
        self._episode = self.host.episode(spec, remedy, hide=": this episode is no score")
        self._opening = ""

    @classmethod
    def name(cls) -> str:
        return cls.server_name

    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return SPLITS

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        specs = list_specs(cls.env, split, cls.seeds)  # pyright: ignore[reportArgumentType]
        return [{"persona": spec.persona, "seed": spec.seed} for spec in specs]

    async def setup(self) -> None:
        """Begin the episode. UserFailed when the person found no first words."""
        self._opening = await self._episode.abegin()

    def get_prompt(self) -> list[TextBlock]:
        system_prompt = f"{self._episode.spec.system_prompt}\n\n{TOOL_PROMPT}"
        return [TextBlock(text=system_prompt), TextBlock(text=self._opening)]

    def get_messages(self) -> list[Message]:
        system_prompt, opening = self.get_prompt()
        return [
            Message(role="system", blocks=[system_prompt]),
            Message(role="user", blocks=[opening]),
        ]

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
    user: Any = "embedded",
    *,
    env: str = DEFAULT_ENV,
    seeds: Iterable[int] = (0,),
    name: str = "",
    **options: Any,
) -> type[EmpathyEnvironment]:
    """A class for `openreward.environments.Server`, whose sessions share one user.

    `seeds`: each persona is a task with each of them. `name`: what the server calls it; "" for the
    env's. When the user fails, the call of `say` fails: the client raises ToolFailed, and the
    session is over without a reward.
    """
    members = {
        "host": EpisodeHost(user, **options),
        "env": env,
        "seeds": tuple(seeds),
        "server_name": name or env,
    }
    return type("Empathy", (EmpathyEnvironment,), members)
