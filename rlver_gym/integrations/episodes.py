"""Episodes for any training loop: whom to meet, what is said, what it was worth.

The public driver under every integration. It knows no framework: a loop of your own calls it from
its own reset and step.

```python
from rlver_gym.integrations.episodes import EpisodeHost, EpisodeSpec, list_specs

host = EpisodeHost("embedded")  # one for all episodes: they share the user
row = list_specs(split="train", seeds=[0])[0].to_dict()  # persona, seed, env: a row of a dataset
episode = host.episode(EpisodeSpec.from_dict(row))
opening = episode.begin()  # the first observation; episode.messages holds the system prompt, too
reply, reward, done, valid = episode.say("That sounds hard. What happened?")
```

On an event loop, `abegin` and `asay` do the same. What holds in every framework:

- The same persona, seed and utterances give the same words and rewards, and the same as
  `gym.make(env, persona=...).reset(seed=...)`. Rows with the same persona and seed begin alike: a
  group (GRPO).
- The reward of a turn is what the env card says: by default the change of the emotion in points, in
  [-10, 10]. The score of an episode is its last emotion, from 0 to 1.
- The policy is given the system prompt and what was said, and nothing of what the person feels,
  thinks and needs. Its own thoughts are not heard.
- While `valid` is False (`episode.valid` after `begin`) the user failed: leave the rollout out,
  whatever its reward. A `remedy` makes that an error instead.
- `env` is the id of an env card, `split` None the card's; `user` and its options are as for
  `gym.make`. UnknownName for what does not exist, CardError for a key among options that are
  written down.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, Self

from rlver_gym.answers.reading import read_words
from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.cards import DEFAULT_ENV, env_card
from rlver_gym.core.emotion import Outcome
from rlver_gym.core.languages import Language
from rlver_gym.core.persona import SplitChoice
from rlver_gym.environment.dialogue_env import check_split
from rlver_gym.environment.env import EmpathyEnv, refuse_secrets
from rlver_gym.library.personas import library
from rlver_gym.users import SentientUser, make_user
from rlver_gym.util.errors import DialogueError, UnknownName, UserFailed, UtteranceError

_log = logging.getLogger(__name__)


class EpisodeSpec(NamedTuple):
    """Which episode: a row of a dataset, as plain values."""

    persona: str
    seed: int = 0
    """What `reset` gets. Episodes of a group (GRPO) share it."""
    env: str = DEFAULT_ENV

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """The spec in a row. DialogueError when persona or seed is missing or of another type."""
        persona, seed, env = row.get("persona"), row.get("seed", 0), row.get("env", DEFAULT_ENV)
        if not (isinstance(persona, str) and isinstance(env, str)) or type(seed) is not int:
            raise DialogueError(
                "a row does not say whom to meet: it needs a persona (the id of one) and a seed (an"
                " integer). Make the rows with rlver_gym.integrations.episodes.list_specs()."
            )
        return cls(persona, seed, env)

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()

    @property
    def system_prompt(self) -> str:
        return agent_prompt(library().get(self.persona).language)


def list_specs(
    env: str = DEFAULT_ENV, split: SplitChoice | None = None, seeds: Iterable[int] = (0,)
) -> list[EpisodeSpec]:
    """Every persona of a split (None: the card's), in the library's order, with each seed."""
    chosen = tuple(seeds)
    personas = library().ids(check_split(split or env_card(env).split))
    return [EpisodeSpec(persona, seed, env) for persona in personas for seed in chosen]


class StepResult(NamedTuple):
    """What comes back for an utterance."""

    reply: str
    """What the person answers; "" when the user failed."""
    reward: float
    done: bool
    """The episode is over, for whatever reason."""
    valid: bool
    """False when the user failed: the episode is no score, and is to be left out."""


class EpisodeHost:
    """Begins episodes with one user that all of them share: its client, limits and cache."""

    def __init__(
        self, user: str | SentientUser = "embedded", *, written_to: str = "", **options: Any
    ) -> None:
        """`written_to`: where the framework writes these options, which then may hold no key."""
        if written_to:
            refuse_secrets(options, written_to)
        self.user = make_user(user, **options)

    def episode(
        self, spec: EpisodeSpec, remedy: str = "", hide: str | None = None
    ) -> "TextEpisode":
        """An episode, not begun. `remedy`: what to do where the user fails, which is UserFailed
        then; without one the episode is over, and not valid. `hide`: for a server, whose clients
        see no error that may quote the persona; what to say of the episode instead.
        """
        return TextEpisode(spec, self.user, remedy, hide)


@lru_cache(maxsize=8)
def _cached_host(config: str) -> EpisodeHost:
    return EpisodeHost(**json.loads(config))


def share_host(config: Mapping[str, Any]) -> EpisodeHost:
    """One host for all equal configs of a process. A user that is an object is its own."""
    if not isinstance(config.get("user", ""), str):
        return EpisodeHost(**config)
    return _cached_host(json.dumps(dict(config), sort_keys=True))


class TextEpisode:
    """One episode: `begin` (or `abegin`), then `say` (or `asay`) until `done`."""

    def __init__(
        self, spec: EpisodeSpec, user: SentientUser, remedy: str = "", hide: str | None = None
    ) -> None:
        self.spec = spec
        self._remedy, self._hide = remedy, hide
        self._env = EmpathyEnv(spec.env, user=user, persona=spec.persona, on_failure="truncate")
        self._options = {"persona": spec.persona}
        self._info: dict[str, Any] = {}
        self._done = False
        self.rewards: list[float] = []

    @property
    def language(self) -> Language:
        return self._env.session.scene.persona.language

    @property
    def messages(self) -> list[dict[str, str]]:
        """The dialogue as a policy is given it: system, user (the person), assistant (it)."""
        told = {"role": "system", "content": agent_prompt(self.language)}
        return [told, *(line.to_chat() for line in self._env.session.dialogue.messages())]

    @property
    def done(self) -> bool:
        return self._done

    @property
    def valid(self) -> bool:
        """False when the user failed. Leave such an episode out of training and of averages."""
        return bool(self._info.get("valid", True))

    @property
    def emotion(self) -> int:
        """The emotion now, in [0, 100]: for the reward, not for the policy."""
        return self._env.session.emotion

    @property
    def score(self) -> float | None:
        """The emotion now, from 0 to 1; None when the user failed."""
        return self.emotion / 100 if self.valid else None

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers for a log: emotion, gain (points since the start), turns, a 1 for the outcome."""
        outcome, emotion, turns = self._info.get("outcome"), self.emotion, len(self.rewards)
        gain = float(emotion - self._env.card.start)
        ends = {f"outcome_{ending}": float(str(ending) == outcome) for ending in Outcome}
        return {"emotion": float(emotion), "gain": gain, "turns": float(turns), **ends}

    def begin(self) -> str:
        """The person's first words; empty, and the episode not valid, when the user failed."""
        with _hide_private_errors(self._hide):
            opening, self._info = self._env.reset(seed=self.spec.seed, options=self._options)
        return self._begun(opening)

    async def abegin(self) -> str:
        with _hide_private_errors(self._hide):
            opening, self._info = await self._env.areset(seed=self.spec.seed, options=self._options)
        return self._begun(opening)

    def say(self, utterance: str) -> StepResult:
        """Say something to the person: the words of what a model gave, without thoughts and ends of
        turns; silence where there are none. DialogueError before the beginning and after the end;
        where the user found no first words, the one turn is a failed one.
        """
        with _hide_private_errors(self._hide):
            heard = self._env.step(self._open(utterance))
        return self._heard(*heard)

    async def asay(self, utterance: str) -> StepResult:
        with _hide_private_errors(self._hide):
            heard = await self._env.astep(self._open(utterance))
        return self._heard(*heard)

    def _begun(self, opening: str) -> str:
        self.rewards = []
        self._done = not self.valid
        self._require_valid()
        return opening

    def _open(self, utterance: str) -> str:
        has_failed_at_once = not (self.valid or self.rewards)
        if self._done and not has_failed_at_once:
            raise DialogueError("the episode is over. Begin another one.")
        return read_words(utterance) if isinstance(utterance, str) else utterance

    def _heard(
        self, reply: str, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> StepResult:
        self._info, self._done = info, terminated or truncated
        self.rewards.append(reward)
        self._require_valid()
        return StepResult(reply, reward, self._done, self.valid)

    def _require_valid(self) -> None:
        if self._remedy and not self.valid:
            raise UserFailed(f"the simulated user failed: this episode is no score. {self._remedy}")


@contextmanager
def _hide_private_errors(hide: str | None) -> Iterator[None]:
    """Errors about what a client said reach it; others may quote the persona, and do not."""
    try:
        yield
    except Exception as error:
        if hide is None or isinstance(error, DialogueError | UnknownName | UtteranceError):
            raise
        _log.exception("the simulated user gave no answer")
        raise UserFailed(
            f"the simulated user gave no answer{hide}. The environment server's log says why."
        ) from None
