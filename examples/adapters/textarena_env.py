"""TextArena: a dialogue as a game for one player, the supporter, registered when this module is
imported, for `textarena.make("RLVER-Empathy-v0")`. To be copied.

Needs: pip install 'textarena==0.7.*'
"""

# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
import random
from collections.abc import Sequence
from typing import Any

import textarena as ta
from textarena.wrappers import LLMObservationWrapper

from rlver_gym import env_card
from rlver_gym.integrations.episodes import DEFAULT_ENV, EpisodeHost, EpisodeSpec, list_specs

SUPPORTER, PERSON = 0, 1
"""The player, and who is in the observations as another voice."""
ROLES = {SUPPORTER: "Supporter", PERSON: "Person"}


class ConversationWrapper(LLMObservationWrapper):
    """Observations as text: all that was said since `reset`, a line `[Person] ...` or
    `[Supporter] ...` each. TextArena's own wrapper keeps the lines of the episodes before, too.
    """

    def reset(self, num_players: int = 1, seed: int | None = None) -> None:
        self.full_observations = {}
        super().reset(num_players=num_players, seed=seed)


class EmpathyGame(ta.Env):
    """One dialogue after the other.

    The reward of a turn is in the info that `step` returns, as `reward`. `close` gives TextArena's
    one reward a player and game, the final emotion from 0 to 1, and `game_info[0]` the rewards of
    all turns, as `turn_rewards`. Where the user failed, the game is done without a result: `close`
    gives None, as for a game that was not played to the end, and `valid` is False.
    """

    def __init__(
        self, specs: Sequence[EpisodeSpec] = (), *, user: Any = "embedded", **options: Any
    ) -> None:
        """`specs`: whom to draw from at each `reset`; () for the train personas."""
        super().__init__()
        self._specs = specs or list_specs()
        self._host = EpisodeHost(user, **options)

    def reset(self, num_players: int = 1, seed: int | None = None) -> None:
        seed = random.SystemRandom().randrange(2**31) if seed is None else seed
        spec = random.Random(seed).choice(self._specs)._replace(seed=seed)
        self._episode = self._host.episode(spec)
        opening = self._episode.begin()
        self.state = ta.SinglePlayerState(num_players=1, max_turns=env_card(spec.env).turns)
        self.state.reset(
            game_state={"persona": spec.persona},
            player_prompt_function=lambda player_id, game_state: spec.system_prompt,
            role_mapping=dict(ROLES),
            secret_roles={SUPPORTER: ROLES[SUPPORTER]},
        )
        self._add(PERSON, opening, ta.ObservationType.GAME_MESSAGE)

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        """Say something to the person; whether the game is over, and the turn's info."""
        reply, reward, done, valid = self._episode.say(action)
        said = [one["content"] for one in self._episode.messages if one["role"] == "assistant"]
        self._add(SUPPORTER, "".join(said[-1:]), ta.ObservationType.PLAYER_ACTION)
        self._add(PERSON, reply, ta.ObservationType.GAME_MESSAGE)
        if done and valid:
            outcomes = [name for name, value in self._episode.metrics.items() if value == 1]
            self.state.set_outcome(self._episode.score, outcomes[-1])
        elif done:
            self.state.done = True
            self.state.game_info[SUPPORTER]["reason"] = "the simulated user failed: no result"
        rewards = list(self._episode.rewards)
        self.state.game_info[SUPPORTER] |= {"turn_rewards": rewards, "valid": valid}
        self.state.step_info = {"reward": reward, "turn": len(rewards), "valid": valid}
        return self.state.step()

    def _add(self, speaker: int, words: str, kind: ta.ObservationType) -> None:
        if words:
            self.state.add_observation(from_id=speaker, message=words, observation_type=kind)


ta.register(
    DEFAULT_ENV,
    f"{__name__}:{EmpathyGame.__name__}",
    default_wrappers=[ConversationWrapper],
)
