"""AgileRL: an environment of text for its language models, of many turns with a reward for each. To
be copied.

For LLMREINFORCE, LLMPPO and GRPO, through a harness that makes tokens of text:

    def make_env():
        return RolloutHarness.local(EmpathyTextEnv(), tokenizer, max_turns=8, max_model_len=2048)

    train_llm_rollout([agent], max_turns=8, env_factory=make_env)

or as the `entrypoint` of a manifest, `adapters.agilerl_env:EmpathyTextEnv`. Its
algorithms for vectors take `gym.make_vec("RLVER-Strategy-v0")` as it is.

Knows nothing of AgileRL's but what it asks of an environment: `agilerl.protocols.TextEnvProtocol`.
"""

from collections.abc import Iterable
from typing import Any

from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.cards import env_card
from rlver_gym.core.library import library
from rlver_gym.core.persona import SplitChoice
from rlver_gym.integrations.episodes import (
    DEFAULT_ENV,
    EpisodeHost,
    EpisodeSpec,
    TextEpisode,
    list_specs,
)
from rlver_gym.users import SentientUser
from rlver_gym.util.errors import DialogueError

_REMEDY = (
    "AgileRL cannot leave it out: see to the user's server, and go on from the last checkpoint."
)


class EmpathyTextEnv:
    """One dialogue after the other. Nothing is in the info, so nothing of what the person feels,
    thinks and needs.

    AgileRL cannot leave a dialogue out: when the user failed, `reset` or `step` raises UserFailed,
    and the training stops.
    """

    def __init__(
        self,
        env: str = DEFAULT_ENV,
        *,
        split: SplitChoice | None = None,
        personas: Iterable[str] | None = None,
        user: str | SentientUser = "embedded",
        **options: Any,
    ) -> None:
        """`env`: an environment card. `personas`: the ids of those to meet, a row each; None for
        all of `split` (None: the environment's). `user`, `options`: as for `gym.make`; give the
        environments of a batch one user object, where they are to share a client and its limits.

        UnknownName for what does not exist, DialogueError for nobody or for several languages.
        """
        people = library()
        self._env = env
        self._personas = tuple(
            (spec.persona for spec in list_specs(env, split)) if personas is None else personas
        )
        self._host = EpisodeHost(user, **options)
        self._episode: TextEpisode | None = None
        languages = {people.get(one).language for one in self._personas}
        if len(languages) != 1:
            raise DialogueError(
                f"the personas speak {len(languages)} languages, but AgileRL tells a policy one"
                " system prompt. Name personas of one language, or a split."
            )
        self.system_prompt = agent_prompt(people.get(self._personas[0]).language)
        """What the policy is told, in the language of the personas. AgileRL gives it as the system
        message, and after the person's first words once more.
        """
        self.dataset_size = len(self._personas)
        """How many rows there are, for AgileRL to draw from."""
        self.max_turns = env_card(env).turns
        """Of the card, for manifests that name none."""

    def reset(self, seed: int | None = None, row_index: int = 0) -> tuple[str, dict[str, Any]]:
        """Begin a dialogue with the persona of a row: the person's first words. AgileRL gives all
        of a group the same seed and row.

        DialogueError for a row that does not exist, UserFailed for a user without first words.
        """
        if not 0 <= row_index < self.dataset_size:
            raise DialogueError(
                f"there is no row {row_index}: rows go from 0 to {self.dataset_size - 1}."
            )
        spec = EpisodeSpec(self._personas[row_index], seed or 0, self._env)
        self._episode = self._host.episode(spec, _REMEDY)
        return self._episode.begin(), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say the text to the person, without its thoughts: what they answer,
        the reward, terminated, truncated, and an empty info.

        DialogueError before `reset` and after the end, UserFailed when the user failed.
        """
        if self._episode is None:
            raise DialogueError("the dialogue has not begun. Call reset() first.")
        result = self._episode.say(action)
        return result.reply, result.reward, result.done, False, {}
