"""GEM: the text environments as `social:RLVER-Empathy-v0` and so on, registered when this module is
imported, for `gem.make` and `gem.make_vec`. To be copied.

    envs = gem.make_vec(["social:RLVER-Empathy-v0"] * 4, async_mode=True, persona=PERSONA)
    observations, infos = envs.reset(seed=[7] * 4)      # a group: one person in one mood
"""

# pyright: reportAttributeAccessIssue=false

from typing import Any

import numpy as np

from rlver_gym.agents.strategies import STRATEGIES, FixedStrategy
from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.answer import read_words
from rlver_gym.core.cards import shipped_env_ids
from rlver_gym.core.persona import SplitChoice
from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.integrations.episodes import DEFAULT_ENV
from rlver_gym.users import SentientUser
from rlver_gym.util.errors import needs_extra

with needs_extra("gem"):
    import gem


FAMILY = "social"
"""What the ids begin with."""


class EmpathyTextEnv(gem.Env):
    """One dialogue after the other; what `gym.make` gives, as GEM asks for it.

    An observation is what the person says; the first one begins with what the policy is told. The
    reward of a turn is the change of the emotion in points, in [-10, 10], or what the card says.
    `info` holds `turn`, `outcome` (None while it goes on), `valid`, `persona` and `cut_chars`, and
    nothing that a real supporter could not know.

    `truncated` is True only when the user failed. GEM knows no invalid episode: the reward of that
    turn is 0, `info["valid"]` is False, and so is `info["prev_ep_valid"]` of the `reset` that
    follows, since vector environments reset by themselves and give that `info` alone. Leave such
    an episode out.

    Seeds go to a generator of this environment; `random` and `numpy.random` are left alone.
    """

    def __init__(
        self,
        env: str = DEFAULT_ENV,
        *,
        persona: str | None = None,
        split: SplitChoice | None = None,
        user: str | SentientUser = "embedded",
        seed: int | None = None,
        instructions: bool = True,
        **options: Any,
    ) -> None:
        """`env`: an environment card. `persona`: the id of the one to meet; None draws one of
        `split` at each `reset`. `user`, `options`: as for `gym.make`. `seed`: of random actions,
        and of the first `reset` without a seed; `gem.make_vec` gives each environment another one.
        `instructions`: whether the first observation begins with `agent_prompt()`.

        UnknownName for what does not exist, CardError for a key among the options.
        """
        super().__init__()
        self._arguments: dict[str, Any] = {
            "env": env,
            "persona": persona,
            "split": split,
            "instructions": instructions,
        }
        self._env = EmpathyEnv(
            env, user=user, split=split, persona=persona, on_failure="truncate", **options
        )
        self._seed = seed
        self._instructions = instructions
        self._is_valid = True
        self._actions = np.random.default_rng(seed)

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode; without a seed, the next one of the last seed's sequence."""
        prev_ep_valid = self._is_valid
        seed = self._seed if seed is None else seed
        self._seed = None
        opening, info = self._env.reset(seed=seed)
        self._is_valid = info["valid"]
        return self._introduce(opening), {**info, "prev_ep_valid": prev_ep_valid}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say the words of a model's answer. DialogueError before `reset` and after the end."""
        reply, reward, terminated, truncated, info = self._env.step(read_words(action))
        self._is_valid = info["valid"]
        return reply, reward, terminated, truncated, info

    def sample_random_action(self) -> str:
        """An utterance in the manner of a random one of the twelve strategies. The members of a
        vector act differently, though their episodes have the same seed.
        """
        strategy = STRATEGIES[self._actions.integers(len(STRATEGIES))]
        seed = int(self._actions.integers(2**31))
        return FixedStrategy(strategy, seed).reply(tuple(self._env.session.dialogue.messages()))

    def spawn(self, same_state: bool = False, **kwargs: Any) -> "EmpathyTextEnv":
        """Another environment like this one, which shares its user.

        With `same_state` its dialogue stands where this one does, and the same utterances give the
        same answers, rewards and next episodes; otherwise it has still to be reset. `kwargs`:
        arguments to have otherwise, such as `seed`, which is not handed on.

        DialogueError with `same_state` before the first `reset`, or for another environment card.
        """
        child = type(self)(**{**self._arguments, "user": self._env.user, **kwargs})
        if same_state:
            child._env.restore(self._env.save_state())
            child._is_valid = self._is_valid
            child._actions.bit_generator.state = self._actions.bit_generator.state
        return child

    def _introduce(self, opening: str) -> str:
        if not self._instructions:
            return opening
        language = self._env.session.scene.persona.language
        return f"{agent_prompt(language)}\n\n{opening}"


for _card in shipped_env_ids():
    gem.register(f"{FAMILY}:{_card}", f"{__name__}:{EmpathyTextEnv.__name__}", env=_card)
