"""open-instruct: what its rollouts do with a text environment: `reset` with the row's arguments, a
`step` for the text of each turn, and at the end `get_metrics`.

open-instruct is in no package registry, and its dependencies ask for CUDA. Where it is not
installed, a stand-in takes its place, written after open_instruct/environments/base.py of August
2026 (commit e6c3044): the base classes alone, neither Ray nor a model.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar

from integrations.stand_ins import stand_in
from pydantic import BaseModel, ConfigDict, Field

from rlver_gym.integrations.episodes import EpisodeSpec


class StandInEnvCall(BaseModel):
    """Of `open_instruct.environments.base.EnvCall`."""

    model_config = ConfigDict(extra="forbid")

    id: str
    name: str
    args: dict[str, Any] = Field(default_factory=dict)


class StandInStepResult(BaseModel):
    """Of `open_instruct.environments.base.StepResult`."""

    model_config = ConfigDict(extra="forbid")

    result: str = ""
    reward: float = 0.0
    done: bool = False
    metadata: dict[str, Any] = Field(default_factory=dict)


class StandInState(BaseModel):
    """Of `openenv.core.env_server.types.State`."""

    step_count: int = 0


class StandInRLEnvironment(ABC):
    """Of `open_instruct.environments.base.RLEnvironment`."""

    config_name: str = ""
    response_role: str = "tool"

    def get_response_role(self) -> str:
        return self.response_role

    def get_metrics(self) -> dict[str, float]:
        return {}

    @abstractmethod
    async def reset(self, **kwargs: Any) -> tuple[StandInStepResult, list[dict]]: ...

    @abstractmethod
    async def step(self, call: StandInEnvCall) -> StandInStepResult: ...

    @abstractmethod
    def state(self) -> StandInState: ...


class StandInTextRLEnvironment(StandInRLEnvironment):
    """Of `open_instruct.environments.base.TextRLEnvironment`."""

    response_role: str = "user"

    @abstractmethod
    async def text_step(self, text: str) -> StandInStepResult: ...

    @abstractmethod
    async def _reset(self, **kwargs: Any) -> StandInStepResult: ...

    async def reset(self, **kwargs: Any) -> tuple[StandInStepResult, list[dict]]:
        return await self._reset(**kwargs), []

    async def step(self, call: StandInEnvCall) -> StandInStepResult:
        return await self.text_step(call.args["text"])


@dataclass
class StandInBaseEnvConfig:
    """Of `open_instruct.environments.base.BaseEnvConfig`."""

    tool_class: ClassVar[type[StandInRLEnvironment]]
    pool_size: int | None = field(default=None, kw_only=True)


STAND_IN: dict[str, dict[str, Any]] = {
    "open_instruct": {},
    "open_instruct.environments": {},
    "open_instruct.environments.base": {
        "EnvCall": StandInEnvCall,
        "StepResult": StandInStepResult,
        "RLEnvironment": StandInRLEnvironment,
        "TextRLEnvironment": StandInTextRLEnvironment,
        "BaseEnvConfig": StandInBaseEnvConfig,
    },
}
OPENENV: dict[str, dict[str, Any]] = {
    "openenv": {},
    "openenv.core": {},
    "openenv.core.env_server": {},
    "openenv.core.env_server.types": {"State": StandInState},
}

IS_REAL = find_spec("open_instruct") is not None
missing = {} if IS_REAL else STAND_IN
if find_spec("openenv") is None:
    missing = {**missing, **OPENENV}
with stand_in(missing):
    from open_instruct.environments.base import EnvCall

    from rlver_gym.integrations.gyms.open_instruct import (
        ENV_NAME,
        EmpathyTextEnv,
        EmpathyTextEnvConfig,
    )


def make_env(**config: Any) -> EmpathyTextEnv:
    """As open-instruct makes one from what `--tool_configs` holds."""
    arguments = asdict(EmpathyTextEnvConfig(**config))
    del arguments["pool_size"]
    return EmpathyTextEnv(**arguments, call_name=ENV_NAME)


async def roll_out(env: EmpathyTextEnv, kwargs: dict[str, Any], texts: Sequence[str]) -> list[Any]:
    """The results of the steps of one rollout."""
    await env.reset(**kwargs)
    results: list[Any] = []
    for number, text in enumerate(texts, 1):
        call = EnvCall(id=str(number), name=ENV_NAME, args={"text": text})
        results.append(await env.step(call))
        if results[-1].done:
            break
    return results


def play(persona: str, seed: int, utterances: Sequence[str]) -> list[float]:
    """The rewards of an episode, until it ends or nothing is left to say."""
    kwargs = EpisodeSpec(persona, seed).to_dict()
    texts = [f"{one}<|im_end|>" for one in utterances]
    return [one.reward for one in asyncio.run(roll_out(make_env(), kwargs, texts))]
