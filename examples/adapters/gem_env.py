"""GEM: dialogues as `social:RLVER-Empathy-v0`, registered when this module is imported, for
`gem.make` and `gem.make_vec`. To be copied.

Needs: pip install 'gem-llm==0.1.*'

    envs = gem.make_vec(["social:RLVER-Empathy-v0"] * 4, async_mode=True, specs=[spec])
    observations, infos = envs.reset(seed=[7] * 4)      # a group: one person in one mood
"""

# pyright: reportAttributeAccessIssue=false
import random
from collections.abc import Sequence
from typing import Any

import gem

from rlver_gym.integrations.episodes import DEFAULT_ENV, EpisodeHost, EpisodeSpec, list_specs

ID = f"social:{DEFAULT_ENV}"


class EmpathyTextEnv(gem.Env):
    """One dialogue after the other. An observation is what the person says; the first one begins
    with the system prompt. Seeds go to a generator of this environment.

    `truncated` is True only when the user failed. GEM knows no invalid episode: the reward of that
    turn is 0, `info["valid"]` is False, and so is `info["prev_ep_valid"]` of the `reset` that
    follows, since vector environments reset by themselves and give that `info` alone. Leave such
    an episode out.
    """

    def __init__(
        self,
        *,
        specs: Sequence[EpisodeSpec] = (),
        seed: int | None = None,
        user: Any = "embedded",
        **options: Any,
    ) -> None:
        """`specs`: whom to draw from at each `reset`; () for the train personas. `seed`: of the
        first `reset` without one; `gem.make_vec` gives each environment another.
        """
        super().__init__()
        self._specs = specs or list_specs()
        self._host = EpisodeHost(user, **options)
        self._rng = random.Random(seed)
        self._is_valid = True

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode; without a seed, the next one of the last seed's sequence."""
        if seed is not None:
            self._rng = random.Random(seed)
        spec = self._rng.choice(self._specs)
        spec = spec._replace(seed=self._rng.randrange(2**31) if seed is None else seed)
        self._episode = self._host.episode(spec)
        prev_ep_valid, opening = self._is_valid, self._episode.begin()
        self._is_valid = self._episode.valid
        info = {"valid": self._is_valid, "prev_ep_valid": prev_ep_valid}
        return f"{spec.system_prompt}\n\n{opening}", info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        reply, reward, done, self._is_valid = self._episode.say(action)
        ends = done and self._is_valid, done and not self._is_valid
        return reply, reward, *ends, {"valid": self._is_valid}


gem.register(ID, f"{__name__}:{EmpathyTextEnv.__name__}")
