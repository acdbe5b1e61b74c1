"""EmpathyEnv: one dialogue as a Gymnasium environment. A thin layer on a session."""

import string
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlver_gym.core.cards import EnvCard, env_card
from rlver_gym.core.dialogue import Appraisal, Reason, Turn
from rlver_gym.core.emotion import Band, Outcome
from rlver_gym.core.library import library
from rlver_gym.core.persona import SPLIT_CHOICES, SplitChoice
from rlver_gym.core.user import Scene, is_async_user
from rlver_gym.environment.render import as_text, show_last
from rlver_gym.environment.session import EmpathySession, Snapshot, run_coroutine
from rlver_gym.io.errors import CardError, DialogueError, UnknownName
from rlver_gym.io.terminal import SafeConsole
from rlver_gym.users import SentientUser, make_user


class Utterance(spaces.Text):
    """Text of 0 to `max_length` characters, in any script.

    Gymnasium's own `Text` lists its characters, and its default list refuses a space; listing all
    of Unicode takes seconds. This one accepts every string that can be encoded, and samples
    printable ASCII.
    """

    def __init__(self, max_length: int, seed: int | None = None) -> None:
        """`max_length` in characters."""
        super().__init__(
            max_length,
            min_length=0,
            charset=string.ascii_letters + string.digits + " .,!?'",
            seed=seed,
        )

    def contains(self, x: Any) -> bool:
        """Whether x is a string of at most `max_length` characters without lone surrogates."""
        return (
            isinstance(x, str)
            and len(x) <= self.max_length
            and not any("\ud800" <= char <= "\udfff" for char in x)
        )

    def __eq__(self, other: object) -> bool:
        """Equal to utterance spaces of the same length."""
        return isinstance(other, Utterance) and other.max_length == self.max_length

    def __repr__(self) -> str:
        """Such as Utterance(4000)."""
        return f"Utterance({self.max_length})"


MAX_REPLY_CHARS = 16_000


class EnvState(NamedTuple):
    """A saved EmpathyEnv: who is talked to, where the dialogue stands, and the random state."""

    persona: str
    seed: int
    snapshot: Snapshot
    random: dict[str, Any]
    scene: str = ""
    """Hashes of the card and the persona, so that it is restored nowhere else; empty when unknown.
    """


class EmpathyEnv(gym.Env[str, str]):
    """A conversation with a sentient user: a simulated person whose emotion moves with every reply.

    ## Description

    The user has a personality, a situation that weighs on them, and a hidden need that they never
    name. The agent supports them in words. Each utterance is appraised, the emotion score (0 to
    100) changes, and the user answers in the tone of their new emotion.

    ## Action Space

    `Utterance(4000)`: text of any script, up to the card's `max_utterance_chars`. A longer one is
    cut (`info["cut_chars"]` says by how much) or refused, as the card says. Control characters are
    not heard. The empty string is silence.

    ## Observation Space

    `Utterance(16000)`: what the user says.

    ## Rewards

    By card: `delta` is the change of the emotion score in points, in [-10, 10]; `terminal` is the
    last emotion / 100 with the last turn and 0 before. Delta rewards of an episode sum to the last
    emotion minus the first.

    ## Starting State

    A persona drawn from the card's split (or the one asked for) at the card's start emotion,
    speaking first.

    ## Episode End

    All three ends are `terminated`, because the horizon is part of the task: `info["outcome"]` is
    "content" (the emotion reached `content_at`), "left" (it fell below `leave_below`) or
    "out_of_turns". `truncated` is True only when the user failed to answer (it raised
    `UserFailed`): the outcome is "failed", the reward 0, the emotion as before, the answer empty,
    and `info["valid"]` False. Such an episode is no score: leave it out of training and of
    averages. A user that fails before its first words gives an empty text and `valid` False out of
    `reset`, and the first `step`, whatever is said, is that end.

    ## Info

    `emotion`, `change` (points, 0 at reset), `band` (S A B C F), `turn`, `outcome` (None while it
    goes on), `valid` (False when the user failed), `thought`, `reasons` (code, points, note; the
    points add up to the change), `spread` (only where a user judges more than once: how far its
    judgements were apart, in points), `persona`, `cut_chars`, and `hidden_need`. Names in
    `EmpathyEnv.privileged_info` tell what a real supporter could not know: do not feed them to an
    agent that you want to compare. Nothing in it varies between equal runs.

    ## Arguments

    `gym.make("RLVER-Empathy-v0", user="embedded", split=None, persona=None, personas=None,
    render_mode=None, **options)`

    - `user`: "embedded", "openai:MODEL", or any object with the three functions of `SentientUser`
    - `split`: "train", "validation", "test", "demo" or "all"; None takes the card's
    - `persona`: the id of the one persona to talk to; None draws one at each reset
    - `personas`: a folder of persona cards; None takes the shipped ones
    - `render_mode`: "human" prints each turn, "ansi" gives the dialogue as text
    - all others are options of the user, such as `base_url` of "openai:MODEL". Its key is read from
      OPENAI_API_KEY, so that none stands in a spec; for a key of its own make the user first:
      `user=make_user("openai:MODEL", api_key=...)`

    `reset(options={"persona": id})` chooses for one episode, which is the one that
    `gym.make(..., persona=id)` gives with the same seed. A server that cannot be reached, that
    refuses, or a spent budget is an error out of `reset` or `step`; the dialogue is then where it
    was. `areset` and `astep` are the same for code on an event loop.

    ## Version History

    - v0: first release
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (so in Gymnasium)
        "render_modes": ["ansi", "human"],
        "render_fps": 1,
    }
    privileged_info: ClassVar[tuple[str, ...]] = (
        "hidden_need",
        "emotion",
        "change",
        "band",
        "thought",
        "reasons",
        "spread",
    )

    def __init__(
        self,
        card: str | EnvCard = "RLVER-Empathy-v0",
        *,
        user: str | SentientUser = "embedded",
        split: SplitChoice | None = None,
        persona: str | None = None,
        personas: str | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        """See the class for the arguments.

        Raises CardError, or UnknownName for a persona, card, split, user or option that does not
        exist.
        """
        self.card = env_card(card)
        _refuse_secrets(options)
        self.user = make_user(user, **options)
        if not isinstance(self.user, SentientUser):
            raise UnknownName.of(
                "user",
                user,
                ["embedded"],
                'user="embedded", or an object with kind, version, open, appraise and speak',
            )
        self.is_async = is_async_user(self.user)
        """Whether the user is asynchronous: it calls something that takes time, such as a server.
        """
        self.render_mode = render_mode
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UnknownName.of(
                "render mode", render_mode, self.metadata["render_modes"], "'ansi', 'human' or None"
            )
        self._library = library(personas)
        self._ids = self._library.ids(_check_split(split or self.card.split))
        if persona is not None:
            self._ids = (self._library.get(persona).id,)
        if not self._ids:
            raise CardError(
                f"{self._library.folder / 'index.yaml'}: has no persona of split"
                f" {split or self.card.split!r}. Choose another split, or pair some."
            )
        self.action_space = Utterance(self.card.max_utterance_chars)
        self.observation_space = Utterance(MAX_REPLY_CHARS)
        self._session: EmpathySession | None = None

    @property
    def has_begun(self) -> bool:
        """Whether there is a dialogue: reset() was called."""
        return self._session is not None

    @property
    def session(self) -> EmpathySession:
        """The dialogue going on."""
        if self._session is None:
            raise DialogueError("the dialogue has not begun. Call reset() first.")
        return self._session

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin a dialogue. `options={"persona": id}` chooses with whom."""
        return run_coroutine(self.areset(seed=seed, options=options), self.is_async)

    async def areset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """See `reset`."""
        super().reset(seed=seed)
        unknown = set(options or {}) - {"persona"}
        if unknown:
            raise UnknownName.of(
                "reset option", sorted(unknown)[0], ["persona"], 'options={"persona": id}'
            )
        asked = (options or {}).get("persona")
        persona_id, user_seed = draw_scene(self.np_random, (asked,) if asked else self._ids)
        persona = self._library.get(persona_id)
        session = EmpathySession(self.user, persona, self.card, user_seed)
        opening = await session.astart()
        self._session = session
        if self.render_mode == "human":
            show_last(session, SafeConsole())
        return opening, self._info(None, 0)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say something; see the class for what comes back."""
        return run_coroutine(self.astep(action), self.is_async)

    async def astep(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """See `step`."""
        session = self.session
        turn = (
            session.dialogue.turns[0]
            if session.has_failed_to_open
            else await session.areply(action)
        )
        if self.render_mode == "human":
            show_last(session, SafeConsole())
        cut = max(0, len(action) - self.card.max_utterance_chars)
        failed = turn.outcome is Outcome.FAILED
        return (
            turn.reply,
            turn.reward,
            turn.outcome is not None and not failed,
            failed,
            self._info(turn, cut),
        )

    def render(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The dialogue so far as text in mode "ansi"; in mode "human" each turn was already
        shown.
        """
        return as_text(self.session) if self.render_mode == "ansi" else None

    def save_state(self) -> EnvState:
        """Everything needed to go on from here, as a value that can be pickled."""
        scene = self.session.scene
        random = dict(self.np_random.bit_generator.state)
        return EnvState(
            scene.persona.id, scene.seed, self.session.snapshot(), random, _scene_key(scene)
        )

    def restore(self, state: EnvState) -> None:
        """Go back to a saved state: the same utterances will give the same answers, rewards and
        next episodes.

        DialogueError for what is none, or was saved with another card or persona, UnknownName for a
        persona that is not here; all is then where it was.
        """
        if not isinstance(state, EnvState):
            raise DialogueError(
                f"cannot restore a {type(state).__name__}. Give what save_state() gave."
            )
        if (
            not isinstance(state.persona, str)
            or type(state.seed) is not int
            or not 0 <= state.seed < 2**63
        ):
            raise DialogueError(
                "cannot restore this state: its persona or seed is none. Give what save_state()"
                " gave."
            )
        session = EmpathySession(self.user, self._library.get(state.persona), self.card, state.seed)
        if state.scene not in ("", _scene_key(session.scene)):
            raise DialogueError(
                f"cannot restore this state: it was saved with another card than {self.card.id}, or"
                f" another {state.persona}. Make the environment that it was saved from."
            )
        session.restore(state.snapshot)
        self._session, self.np_random.bit_generator.state = (
            session,
            _random_state(self.np_random, state.random),
        )

    def _info(self, turn: Turn | None, cut_chars: int) -> dict[str, Any]:
        return describe_turn(self.session, turn, cut_chars)


def draw_scene(generator: np.random.Generator, ids: Sequence[str]) -> tuple[str, int]:
    """Whom a reset meets, of these personas, and the seed of the scene, from 0 to 2**31 - 1."""
    return ids[int(generator.integers(len(ids)))], int(generator.integers(2**31))


def describe_turn(session: EmpathySession, turn: Turn | None, cut_chars: int) -> dict[str, Any]:
    """The info of a session after this turn, its last one; None after the reset."""
    emotion, dialogue, outcome = session.snapshot()
    persona = session.scene.persona
    appraisal = turn.appraisal if turn else Appraisal(0, "", ())
    return {
        "emotion": emotion,
        "change": appraisal.change,
        "band": str(Band.of(emotion)),
        "turn": len(dialogue.turns) if dialogue else 0,
        "outcome": str(outcome) if outcome else None,
        "valid": outcome is not Outcome.FAILED,
        "thought": appraisal.thought,
        "reasons": _reasons_as_dicts(appraisal.reasons),
        **({} if appraisal.spread is None else {"spread": appraisal.spread}),
        "persona": persona.id,
        "hidden_need": str(persona.need),
        "cut_chars": cut_chars,
    }


def _scene_key(scene: Scene) -> str:
    return f"{scene.card.hash}/{scene.persona.hash}"


def _random_state(generator: np.random.Generator, state: Any) -> Any:
    """The state, when a generator of the same kind takes it: tried on another one.

    DialogueError when it does not.
    """
    try:
        type(generator.bit_generator)().state = state
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError) as error:
        raise DialogueError(
            "cannot restore this state: its random state is none. Give what save_state() gave."
        ) from error
    return state


def _reasons_as_dicts(reasons: tuple[Reason, ...]) -> list[dict[str, Any]]:
    return [{"code": str(code), "points": points, "note": note} for code, points, note in reasons]


def _refuse_secrets(options: dict[str, Any]) -> None:
    """CardError for a key or a password among the options: Gymnasium keeps them in the spec, which
    is printed, pickled and written as JSON.
    """
    if options.get("api_key") is not None or "@" in str(options.get("base_url", "")):
        raise CardError(
            "a key, or a password in base_url, would stand in the environment's spec. Set"
            " OPENAI_API_KEY and OPENAI_BASE_URL instead, or make the user first:"
            " user=make_user('openai:MODEL', api_key=...)."
        )


def _check_split(split: str) -> SplitChoice:
    if split not in SPLIT_CHOICES:
        raise UnknownName.of("split", split, SPLIT_CHOICES, ", ".join(SPLIT_CHOICES))
    return split
