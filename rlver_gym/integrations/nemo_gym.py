"""NeMo Gym: a resources server for its `gymnasium_agent`; a session is a dialogue.

A folder resources_servers/rlver_empathy with an app.py,

    from rlver_gym.integrations.nemo_gym import EmpathyServer
    if __name__ == "__main__":
        EmpathyServer.run_webserver()

a requirements.txt that names nemo-gym and rlver-gym, and a YAML file:

    rlver_empathy:
      resources_servers:
        rlver_empathy: {entrypoint: app.py, domain: other, user: "openai:MODEL"}
    rlver_empathy_agent:
      responses_api_agents:
        gymnasium_agent:
          entrypoint: app.py
          max_steps: 8        # at least the turns of the environment card
          resources_server: {type: resources_servers, name: rlver_empathy}
          model_server: {type: responses_api_models, name: policy_model}
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false
# (it is no dependency, and the types are checked without it, where its name is taken for this file)

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from pydantic import Field, PrivateAttr, field_validator

from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.library import library
from rlver_gym.core.persona import SplitChoice
from rlver_gym.integrations.episodes import (
    DEFAULT_ENV,
    EpisodeHost,
    EpisodeSpec,
    TextEpisode,
    list_specs,
)
from rlver_gym.io.errors import (
    CardError,
    DialogueError,
    UnknownName,
    UserFailed,
    UtteranceError,
    needs_packages,
)

with needs_packages("Install NeMo Gym, which no extra does: pip install nemo-gym"):
    from nemo_gym.base_resources_server import BaseResourcesServerConfig
    from nemo_gym.openai_utils import NeMoGymResponse
    from resources_servers.gymnasium import GymnasiumServer, extract_text

_log = logging.getLogger(__name__)


def make_rows(
    env: str = DEFAULT_ENV,
    split: SplitChoice | None = None,
    seeds: Iterable[int] = (0,),
    agent: str = "rlver_empathy_agent",
) -> list[dict[str, Any]]:
    """The rows of a JSONL dataset: every persona of a split (None: the environment's) with each
    seed. The person's first words follow the system prompt when the dialogue begins.

    `agent`: the name of the `gymnasium_agent` in the YAML file. Repeats of a row
    (`num_repeats`) meet the person in the same mood.
    """
    people = library()
    return [
        {
            "responses_create_params": {
                "input": [
                    {
                        "role": "system",
                        "content": agent_prompt(people.get(spec.persona).language),
                    }
                ]
            },
            "agent_ref": {"type": "responses_api_agents", "name": agent},
            **spec.to_dict(),
        }
        for spec in list_specs(env, split, seeds)
    ]


class EmpathyServerConfig(BaseResourcesServerConfig):
    """What stands in the YAML file beside NeMo Gym's own entries."""

    user: str = "embedded"
    """As for `gym.make`; all sessions share it."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The user's, such as `base_url`. Its key is read from OPENAI_API_KEY."""

    @field_validator("options")
    @classmethod
    def _refuse_secrets(cls, options: dict[str, Any]) -> dict[str, Any]:
        if options.get("api_key") is not None or "@" in str(options.get("base_url", "")):
            raise CardError(
                "a key, or a password in base_url, would stand in NeMo Gym's configuration, which"
                " its servers hand around. Set OPENAI_API_KEY and OPENAI_BASE_URL instead."
            )
        return options


class EmpathyServer(GymnasiumServer):
    """A session is one dialogue. The reward of a turn is the change of the emotion in points, in
    [-10, 10], or what the card says; the agent adds them up, and the info of the last turn lists
    them as `turn_rewards`. What the person feels, thinks and needs stays on the server.

    When the user fails, the request fails, so that the rollout does: NeMo Gym writes it among the
    failures, without a reward.
    """

    ray_enabled: ClassVar[bool | None] = False
    config: EmpathyServerConfig
    _host: EpisodeHost = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """UnknownName for a user or an option that does not exist."""
        super().model_post_init(context)
        self._host = EpisodeHost(self.config.user, **self.config.options)

    async def reset(
        self, metadata: Mapping[str, Any], session_id: str | None = None
    ) -> tuple[str | None, dict[str, Any]]:
        """Begin the dialogue that a row names: the person's first words.

        DialogueError for a row that names nobody, UnknownName for what does not exist, UserFailed
        when the person found no first words.
        """
        self._cleanup_session(session_id)
        episode = self._host.episode(EpisodeSpec.from_dict(metadata))
        with _hide_private_errors():
            opening = await episode.abegin()
        _check_user(episode)
        self.session_state[session_id] = episode
        return opening, {}

    async def step(
        self, action: NeMoGymResponse, metadata: Mapping[str, Any], session_id: str | None = None
    ) -> tuple[str | None, float, bool, bool, dict[str, Any]]:
        """Say the text of a response to the person; reasoning is not heard. The observation is what
        they answer; None at the end, where the info holds their last words as `reply`.

        DialogueError for a session without a dialogue, UserFailed when the user failed.
        """
        episode: TextEpisode | None = self.session_state.get(session_id)
        if episode is None:
            raise DialogueError("this session has no dialogue. POST /reset first.")
        try:
            with _hide_private_errors():
                result = await episode.asay(extract_text(action))
            _check_user(episode)
        except UserFailed:
            self._cleanup_session(session_id)
            raise
        if not result.done:
            return result.reply, result.reward, False, False, {}
        info = {"turn_rewards": list(episode.rewards), "reply": result.reply}
        return None, result.reward, True, False, info


def _check_user(episode: TextEpisode) -> None:
    if not episode.valid:
        raise UserFailed("the simulated user failed: this rollout is no score. Run it again.")


@contextmanager
def _hide_private_errors() -> Iterator[None]:
    """Errors about what the policy said reach the agent. Others may quote the persona or a model's
    thoughts: they stay in this server's log.
    """
    try:
        yield
    except (DialogueError, UnknownName, UtteranceError):
        raise
    except Exception:
        _log.exception("the simulated user cannot go on")
        raise UserFailed(
            "the simulated user cannot go on: this rollout is no score. The resources server's log"
            " says why."
        ) from None
