"""NeMo Gym: what its server does with a session: `reset`, a `step` for each response of the model,
`close_session`.

NeMo Gym asks for Python 3.13.14. Where it is not installed, a stand-in takes its place, written
after nemo-gym 0.7.0: as much of the base classes as a server of one's own touches, and neither HTTP
nor an agent. `test_nemo_gym.py` compares the two where NeMo Gym is installed.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Any, Literal

from integrations.stand_ins import stand_in
from pydantic import BaseModel, Field

from rlver_gym.integrations.episodes import EpisodeSpec


class StandInConfig(BaseModel):
    """Of `nemo_gym.base_resources_server.BaseResourcesServerConfig`."""

    host: str
    port: int
    entrypoint: str
    name: str


class StandInText(BaseModel):
    """A piece of what a model said."""

    type: Literal["output_text"]
    text: str


class StandInItem(BaseModel):
    """A message, or a model's reasoning."""

    type: Literal["message", "reasoning"]
    content: str | list[StandInText] = ""


class StandInResponse(BaseModel):
    """Of `nemo_gym.openai_utils.NeMoGymResponse`."""

    output: list[StandInItem]


class StandInGymnasiumServer(BaseModel, ABC):
    """Of `resources_servers.gymnasium.GymnasiumServer`."""

    config: StandInConfig
    server_client: Any
    session_state: dict[str, Any] = Field(default_factory=dict)

    async def reset(self, metadata: dict, session_id: str | None = None) -> tuple[str | None, dict]:
        return None, {}

    @abstractmethod
    async def step(
        self, action: StandInResponse, metadata: dict, session_id: str | None = None
    ) -> tuple[str | None, float, bool, bool, dict]: ...

    async def close_session(self, session_id: str | None) -> None:
        self._cleanup_session(session_id)

    def _cleanup_session(self, session_id: str | None) -> None:
        self.session_state.pop(session_id, None)


def stand_in_extract_text(response: StandInResponse) -> str:
    """Of `resources_servers.gymnasium.extract_text`."""
    said = [one.content for one in response.output if one.type == "message"]
    return "".join(
        one if isinstance(one, str) else "".join(part.text for part in one) for one in said
    )


STAND_IN: dict[str, dict[str, Any]] = {
    "nemo_gym": {},
    "nemo_gym.base_resources_server": {"BaseResourcesServerConfig": StandInConfig},
    "nemo_gym.openai_utils": {"NeMoGymResponse": StandInResponse},
    "resources_servers": {},
    "resources_servers.gymnasium": {
        "GymnasiumServer": StandInGymnasiumServer,
        "extract_text": stand_in_extract_text,
    },
}

IS_REAL = find_spec("nemo_gym") is not None
with nullcontext() if IS_REAL else stand_in(STAND_IN):
    from nemo_gym.openai_utils import NeMoGymResponse

    from rlver_gym.integrations.nemo_gym import EmpathyServer, EmpathyServerConfig


def make_client(ports: Mapping[str, int] | None = None) -> Any:
    """NeMo Gym's client of the servers on these ports of 127.0.0.1; None with the stand-in."""
    if not IS_REAL:
        return None
    from nemo_gym.config_types import BaseServerConfig
    from nemo_gym.server_utils import ServerClient
    from omegaconf import DictConfig

    kinds = {"rlver": "resources_servers", "policy": "responses_api_models"}
    addresses = {
        name: {kinds[name]: {name: {"host": "127.0.0.1", "port": port}}}
        for name, port in (ports or {}).items()
    }
    head = BaseServerConfig(host="127.0.0.1", port=0)
    return ServerClient(head_server_config=head, global_config_dict=DictConfig(addresses))


def make_server(**entries: Any) -> EmpathyServer:
    """A server with these entries in its YAML file."""
    config = EmpathyServerConfig(host="", port=0, entrypoint="app.py", name="rlver", **entries)
    return EmpathyServer(config=config, server_client=make_client())


def respond(text: str, reasoning: str = "") -> dict[str, Any]:
    """A model's response that says `text`, in the form of the Responses API."""
    thoughts = {"type": "reasoning", "id": "r", "summary": [], "content": []}
    content = [{"type": "output_text", "text": text, "annotations": []}]
    said = {"type": "message", "id": "m", "role": "assistant", "content": content}
    return {
        "id": "response",
        "created_at": 0.0,
        "model": "script",
        "object": "response",
        "output": [*([thoughts] if reasoning else []), {**said, "status": "completed"}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def play(persona: str, seed: int, utterances: Sequence[str]) -> list[float]:
    """The rewards of an episode, until it ends or nothing is left to say."""
    server, row, session = make_server(), EpisodeSpec(persona, seed).to_dict(), "cookie"

    async def run() -> list[float]:
        await server.reset(row, session)
        rewards: list[float] = []
        for utterance in utterances:
            action = NeMoGymResponse.model_validate(respond(utterance))
            _, reward, terminated, truncated, _ = await server.step(action, row, session)
            rewards.append(reward)
            if terminated or truncated:
                await server.close_session(session)
                break
        return rewards

    return asyncio.run(run())
