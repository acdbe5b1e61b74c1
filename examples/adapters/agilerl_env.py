"""AgileRL: an environment of text for its language models, of many turns with a reward for each. To
be copied.

Needs: pip install 'agilerl[cpu-llm]==2.58.*'

For LLMREINFORCE, LLMPPO and GRPO, through a harness that makes tokens of text:

    def make_env():
        return RolloutHarness.local(EmpathyTextEnv(), tokenizer, max_turns=8, max_model_len=2048)

    train_llm_rollout([agent], max_turns=8, env_factory=make_env)

or as the `entrypoint` of a manifest, `adapters.agilerl_env:EmpathyTextEnv`. Its algorithms for
vectors take `gym.make_vec("RLVER-Strategy-v0")` as it is.
"""

from typing import Any

from rlver_gym import env_card
from rlver_gym.integrations.episodes import DEFAULT_ENV, EpisodeHost, list_specs


class EmpathyTextEnv:
    """One dialogue after the other: an `agilerl.protocols.TextEnvProtocol`. A row is a persona.

    AgileRL cannot leave a dialogue out: when the user failed, `reset` or `step` raises UserFailed,
    and the training stops.
    """

    def __init__(self, env: str = DEFAULT_ENV, *, user: Any = "embedded", **options: Any) -> None:
        """`user`, `options`: give the environments of a batch one user object, where they are to
        share a client and its limits.
        """
        self._rows = list_specs(env)
        self._host = EpisodeHost(user, **options)
        self.system_prompt = self._rows[0].system_prompt
        self.dataset_size = len(self._rows)
        self.max_turns = env_card(env).turns

    def reset(self, seed: int | None = None, row_index: int = 0) -> tuple[str, dict[str, Any]]:
        """The person's first words. AgileRL gives all of a group the same seed and row."""
        spec = self._rows[row_index]._replace(seed=seed or 0)
        self._episode = self._host.episode(spec, "Go on from the last checkpoint.")
        return self._episode.begin(), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        result = self._episode.say(action)
        return result.reply, result.reward, result.done, False, {}
