"""TextArena: the text environments as games for one player, the supporter, registered when this
module is imported, for `textarena.make("RLVER-Empathy-v0")`; with `-raw` at the end, without the
wrapper that gives the whole conversation as text. To be copied.
"""

# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false

from typing import Any

from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.answer import read_words
from rlver_gym.core.cards import shipped_env_ids
from rlver_gym.core.persona import SplitChoice
from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.integrations.episodes import DEFAULT_ENV
from rlver_gym.users import SentientUser
from rlver_gym.util.errors import DialogueError, needs_extra

with needs_extra("textarena"):
    import textarena as ta
    from textarena.wrappers import LLMObservationWrapper


SUPPORTER, PERSON = 0, 1
"""The player, and who is in the observations as another voice."""
_ROLES = {SUPPORTER: "Supporter", PERSON: "Person"}


class ConversationWrapper(LLMObservationWrapper):
    """Observations as text: all that was said since `reset`, a line `[Person] ...` or
    `[Supporter] ...` each. TextArena's own wrapper keeps the lines of the episodes before, too.
    """

    def reset(self, num_players: int = 1, seed: int | None = None) -> None:
        """Begin an episode, and forget the one before."""
        self.full_observations = {}
        super().reset(num_players=num_players, seed=seed)


class EmpathyGame(ta.Env):
    """One dialogue after the other.

    The reward of a turn is in the info that `step` returns, as `reward`: the change of the emotion
    in points, in [-10, 10], or what the card says. `close` gives TextArena's one reward a player
    and game: the final emotion, from 0 to 1, as in ({0: 0.63}, game_info); and `game_info[0]` the
    rewards of all turns, as `turn_rewards`, and in `reason` the outcome. The other entries of the
    info are `turn`, `outcome`, `valid`, `persona` and `cut_chars`; nothing there or in the
    observations tells what a real supporter could not know.

    Where the user failed, the game is done without a result: the rewards that `close` gives are
    None, as those of a game that was not played to the end, and `valid` is False.

    Seeds go to a generator of this game; the global `random` is left alone.
    """

    def __init__(
        self,
        env: str = DEFAULT_ENV,
        *,
        persona: str | None = None,
        split: SplitChoice | None = None,
        user: str | SentientUser = "embedded",
        **options: Any,
    ) -> None:
        """`env`: an environment card. `persona`: the id of the one to meet; None draws one of
        `split` at each `reset`. `user`, `options`: as for `gym.make`.

        UnknownName for what does not exist, CardError for a key among the options.
        """
        super().__init__()
        self._env = EmpathyEnv(
            env, user=user, split=split, persona=persona, on_failure="truncate", **options
        )
        self._turn_rewards: list[float] = []

    def reset(self, num_players: int = 1, seed: int | None = None) -> None:
        """Begin an episode; without a seed, the next one of the last seed's sequence."""
        if num_players != 1:
            raise DialogueError(
                f"a dialogue is a game for one player, the supporter, not for {num_players}. Call"
                " reset(num_players=1)."
            )
        opening, info = self._env.reset(seed=seed)
        self._turn_rewards = []
        self.state = ta.SinglePlayerState(num_players=1, max_turns=self._env.card.turns)
        self.state.reset(
            game_state={"persona": info["persona"]},
            player_prompt_function=self._instruct,
            role_mapping=dict(_ROLES),
            secret_roles={SUPPORTER: _ROLES[SUPPORTER]},
        )
        self._hear(opening)

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        """Say something to the person; whether the game is over, and the turn's info."""
        reply, reward, terminated, truncated, info = self._env.step(read_words(action))
        self._turn_rewards.append(float(reward))
        self.state.add_observation(
            from_id=SUPPORTER,
            message=self._env.session.dialogue.turns[-1].utterance,
            observation_type=ta.ObservationType.PLAYER_ACTION,
        )
        self._hear(reply)
        if terminated:
            self.state.set_outcome(self._env.session.emotion / 100, info["outcome"])
        elif truncated:
            self.state.done = True
            self.state.game_info[SUPPORTER]["reason"] = "the simulated user failed: no result"
        self.state.game_info[SUPPORTER] |= {
            "turn_rewards": list(self._turn_rewards),
            "valid": info["valid"],
        }
        self.state.step_info = {
            "reward": float(reward),
            **info,
        }
        return self.state.step()

    def _instruct(self, player_id: int, game_state: dict[str, Any]) -> str:
        return agent_prompt(self._env.session.scene.persona.language)

    def _hear(self, words: str) -> None:
        if words:
            self.state.add_observation(
                from_id=PERSON, message=words, observation_type=ta.ObservationType.GAME_MESSAGE
            )


for _card in shipped_env_ids():
    _entry_point = f"{__name__}:{EmpathyGame.__name__}"
    ta.register(_card, _entry_point, default_wrappers=[ConversationWrapper], env=_card)
    ta.register(f"{_card}-raw", _entry_point, env=_card)
