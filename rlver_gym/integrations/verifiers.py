"""verifiers 0.4 (the v1 API): a taskset of people, and the environment that plays the dialogues.

    vf-eval rlver-empathy --model MODEL --client.base-url URL --env.taskset.split test -r 2

The reward of a rollout is the final emotion, from 0 to 1; the rewards of its turns are in the
trace's info.
"""

# pyright: reportAttributeAccessIssue=false

import ssl
from collections.abc import Iterable, Mapping
from typing import Any

from openai import AsyncOpenAI, BadRequestError, DefaultAsyncHttpxClient
from pydantic import field_validator

from rlver_gym.core.cards import env_card
from rlver_gym.core.persona import SplitChoice
from rlver_gym.environment.env import refuse_secrets
from rlver_gym.integrations.episodes import (
    DEFAULT_ENV,
    EpisodeHost,
    EpisodeSpec,
    TextEpisode,
    list_specs,
)
from rlver_gym.util.errors import RlverError, needs_extra

with needs_extra("verifiers"):
    import verifiers.v1 as vf
    from verifiers.v1.dialects.chat import message_to_wire
    from verifiers.v1.harnesses.utils.compaction import is_context_overflow


class EmpathyTaskData(vf.TaskData):
    """Whom a rollout meets. Its `id` is ENV/PERSONA/SEED, its `name` the persona's id."""

    persona: str
    seed: int
    """What `reset` gets. The rollouts of a group share it, and so meet the person in one mood."""
    env: str = DEFAULT_ENV

    @property
    def spec(self) -> EpisodeSpec:
        return EpisodeSpec(self.persona, self.seed, self.env)


class EmpathyTask(vf.Task[EmpathyTaskData, vf.State, vf.TaskConfig]):
    """A dialogue, scored from what its trace holds, so that `vf-replay` can score it again."""

    @property
    def key(self) -> str:
        """The same in every run, wherever the task stands in the taskset."""
        return self.data.id

    @vf.reward
    async def emotion(self, trace: vf.Trace) -> float:
        """The final emotion, from 0 to 1. Of a dialogue that a limit cut off, the emotion then."""
        return trace.info["score"]

    @vf.metric
    async def dialogue(self, trace: vf.Trace) -> Mapping[str, float]:
        """`final_emotion` (0 to 100), `gain`, `turns`, and 1 for one of the outcomes."""
        return trace.info["metrics"]


class EmpathyTasksetConfig(vf.TasksetConfig):
    """Which people are met: `--env.taskset.*`."""

    env: str = DEFAULT_ENV
    """The id of an environment card, or the path of one (.yaml)."""
    split: SplitChoice | None = None
    seeds: list[int] = [0]  # noqa: RUF012 (pydantic copies it)
    """A dialogue with each person for each of these seeds: `--env.taskset.seeds 0 1 2`."""

    @field_validator("env")
    @classmethod
    def _check_env(cls, env: str) -> str:
        try:
            env_card(env)
        except RlverError as error:
            raise ValueError(str(error)) from error
        return env

    @field_validator("seeds")
    @classmethod
    def _check_seeds(cls, seeds: list[int]) -> list[int]:
        if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
            raise ValueError("seeds are different integers from 0, at least one of them")
        return seeds


class EmpathyTaskset(vf.Taskset[EmpathyTask, EmpathyTasksetConfig]):
    """A task a persona and seed. One person alone: `--select.include.names ID`."""

    def load(self) -> Iterable[EmpathyTask]:
        """The tasks: `prompt` is None, since the person speaks first."""
        for spec in list_specs(self.config.env, self.config.split, self.config.seeds):
            data = EmpathyTaskData(
                id=f"{spec.env}/{spec.persona}/{spec.seed}",
                name=spec.persona,
                system_prompt=spec.system_prompt,
                **spec.to_dict(),
            )
            yield EmpathyTask(data, self.config.task)


class ChatHarness(vf.Harness[vf.HarnessConfig]):
    """A completion a turn on verifiers' loop; its `null` harness starts a process for each: 2 s."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    def __init__(self, config: vf.HarnessConfig) -> None:
        super().__init__(config)
        self._tls = ssl.create_default_context()

    async def setup(self, runtime: vf.Runtime) -> None:
        """TypeError for a sandbox: nothing would run in it."""
        if not isinstance(runtime.config, vf.SubprocessConfig):
            raise TypeError(
                f"this chat runs nothing in a sandbox ({runtime.config.type}). Use"
                " --env.agent.runtime.type subprocess, or --env.agent.harness.id null"
            )

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Requests a recorded reply to `data.prompt`; none where the context is full."""
        system, prompt = self.resolve_prompt(data)
        said = [vf.UserMessage(content=prompt)] if isinstance(prompt, str) else prompt or []
        messages = [*([vf.SystemMessage(content=system)] if system else []), *said]
        http_client = DefaultAsyncHttpxClient(verify=self._tls)
        async with AsyncOpenAI(
            base_url=endpoint, api_key=secret, timeout=None, http_client=http_client
        ) as client:
            try:
                await client.chat.completions.create(
                    model=ctx.model, messages=[message_to_wire(message) for message in messages]
                )
            except BadRequestError as error:
                if not is_context_overflow(error):
                    raise
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class EmpathyDialogueEnvConfig(vf.SingleAgentEnvConfig):
    """Who is talked to, and how the policy is run: `--env.*`."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    """The policy: unless you name a harness, `ChatHarness`."""
    user: str = "embedded"
    """"embedded", "openai:MODEL", "module:Name"."""
    user_options: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)
    """Such as '{"base_url": "http://localhost:8000/v1"}'. A key is read from OPENAI_API_KEY."""

    @field_validator("user_options")
    @classmethod
    def _refuse_keys(cls, options: dict[str, Any]) -> dict[str, Any]:
        refuse_secrets(options, "the run's folder")  # CardError is a ValueError
        return options


class EmpathyDialogueEnv(vf.SingleAgentEnv, vf.Env[EmpathyDialogueEnvConfig]):
    """Plays a task's dialogue with the policy; the person speaks first. A failing user fails it."""

    def __init__(self, config: EmpathyDialogueEnvConfig) -> None:
        super().__init__(config)
        self._host = EpisodeHost(config.user, **config.user_options)

    async def run(self, task: EmpathyTask, agents: vf.Agents) -> None:
        """One dialogue, until it ends or the policy is silent. UserFailed when the user is."""
        remedy = "To play such a dialogue again: --env.retries.max-retries"
        episode = self._host.episode(task.data.spec, remedy)
        async with agents.agent.interaction(task) as interaction:
            words = await episode.abegin()
            while not episode.done:
                segment = await interaction.turn(words)
                if segment.terminated:
                    break
                words = (await episode.asay(segment.last_reply)).reply
            _record(interaction.trace, episode)


def _record(trace: vf.Trace, episode: TextEpisode) -> None:
    figures = {name: value for name, value in episode.metrics.items() if name != "outcome_failed"}
    ends = {"final_emotion": figures.pop("emotion"), "outcome_cut_off": float(not episode.done)}
    trace.info["score"], trace.info["turn_rewards"] = episode.score, list(episode.rewards)
    trace.info["metrics"] = figures | ends
