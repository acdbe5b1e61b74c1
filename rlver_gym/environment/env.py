"""EmpathyEnv: one dialogue as a Gymnasium environment. A thin layer on a session."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from rlver_gym.core.cards import EnvCard, env_card
from rlver_gym.core.dialogue import Turn
from rlver_gym.core.emotion import Outcome
from rlver_gym.core.persona import SPLIT_CHOICES, SplitChoice
from rlver_gym.core.user import Scene, is_async_user
from rlver_gym.environment.info import (
    PRIVILEGED,
    InfoChoice,
    check_info_choice,
    describe_turn,
    select_info,
)
from rlver_gym.environment.render import print_last_turn, render_dialogue_as_text
from rlver_gym.environment.session import (
    AppraisedReplies,
    EmpathySession,
    Snapshot,
    count_cut_chars,
    run_coroutine,
)
from rlver_gym.environment.spaces import MAX_REPLY_CHARS, Utterance
from rlver_gym.environment.undo import undo_on_error
from rlver_gym.library.personas import library
from rlver_gym.users import SentientUser, make_user
from rlver_gym.util.errors import CardError, DialogueError, ResetNeeded, UnknownName, UserFailed
from rlver_gym.util.secret_words import find_secret
from rlver_gym.util.terminal import SafeConsole

_PICTURES = ("rgb_array", "rgb_array_list", "depth_array", "depth_array_list")
"""Render modes of Gymnasium's that we do not have."""
_MOVES = (UserFailed, DialogueError)
"""Errors of a step after which the dialogue is not where it was: a user that failed has ended it,
or another step at the same time has moved it.
"""
FailureChoice = Literal["raise", "truncate"]
"""Whether a failed user raises UserFailed, or ends the episode as truncated and not valid."""


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
    "out_of_turns". A user that fails to answer (its model gave nothing usable) raises `UserFailed`
    out of `reset` or `step`: the episode is over and no score, and `reset` begins another. Nothing
    is `truncated`, so no learner bootstraps from a broken dialogue.

    Loops that leave single episodes out ask for `on_failure="truncate"`: the step is then
    `truncated`, its outcome "failed", the reward 0, the emotion as before, the answer empty and
    `info["valid"]` False. A user that fails before its first words gives an empty text and `valid`
    False out of `reset`, and the first `step`, whatever is said, is that end.

    ## Info

    `turn`, `outcome` (None while it goes on), `valid` (False when the user failed), `persona` and
    `cut_chars`. With `info="privileged"`, for research, also what a real supporter could not know:
    `emotion`, `change` (points, 0 at reset), `band` (S A B C F), `thought`, `reasons` (code,
    points, note; the points add up to the change), `spread` (only where a user judges more than
    once: how far its judgements were apart, in points) and `hidden_need`;
    `EmpathyEnv.privileged_info` lists these names. A card with `shows_emotion` shows the first
    three to everybody. Nothing in it varies between equal runs.

    ## Arguments

    `gym.make("RLVER-Empathy-v0", user="embedded", split=None, persona=None, personas=None,
    info="public", on_failure="raise", url=None, render_mode=None, **options)`

    - `user`: "embedded" (reads words, not meaning), "openai:MODEL", or any object with the three
      functions of `SentientUser`
    - `split`: "train", "validation", "test", "demo" or "all"; None takes the card's
    - `persona`: the id of the one persona to talk to; None draws one at each reset
    - `personas`: a folder of persona cards, or a lean card; None takes the shipped ones
    - `info`: "public", or "privileged" for everything
    - `on_failure`: "raise", or "truncate" for loops that read `info["valid"]`
    - `url`: the address of a server (rlver-gym serve) that plays the person, for the same episodes
      as here. Its token is read from RLVER_GYM_TOKEN; `user` is one that it offers, by default its
      first; `info="privileged"` needs a server started with --privileged. The options are then
      `timeout_s=60.0`, of one request, and `patience_s=120.0`, for how long one is repeated while
      the server cannot be reached or asks to wait (a repeated request is done once)
    - `render_mode`: "human" prints each turn, "ansi" gives the dialogue as text; with a `url` only
      "ansi", of what was said. A mode of pictures gives a warning and renders nothing
    - all others are options of the user, such as `base_url` of "openai:MODEL"; what no user takes
      is an UnknownName. Its key is read from OPENAI_API_KEY, so that none stands in a spec; for a
      key of its own make the user first: `user=make_user("openai:MODEL", api_key=...)`

    `reset(options={"persona": id})` chooses for one episode, which is the one that
    `gym.make(..., persona=id)` gives with the same seed. A server that cannot be reached, that
    refuses, or a spent budget is an error out of `reset` or `step`, as an interrupt is; the
    dialogue, and what is drawn next, are then where they were. `areset` and `astep` are the same
    for code on an event loop. `spec.nondeterministic` is True where a language model plays the
    person.

    ## Version History

    - v0: first release
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (so in Gymnasium)
        "render_modes": ["ansi", "human"],
        "render_fps": 1,
    }
    privileged_info: ClassVar[tuple[str, ...]] = PRIVILEGED

    is_remote: ClassVar[bool] = False
    """Whether a server plays the person: there is no session and no state to save here."""

    def __init__(
        self,
        card: str | EnvCard = "RLVER-Empathy-v0",
        *,
        user: str | SentientUser | None = None,
        split: SplitChoice | None = None,
        persona: str | None = None,
        personas: str | None = None,
        info: InfoChoice = "public",
        on_failure: FailureChoice = "raise",
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        """See the class for the arguments.

        Raises CardError, or UnknownName for a persona, card, split, user or option that does not
        exist.
        """
        self._set_choices(info, on_failure, render_mode)
        card = env_card(card)
        named = {"user": user, "persona": persona, "personas": personas, **options}
        refuse_secrets(named, "the environment's spec", _MAKE_USER)
        made = make_user("embedded" if user is None else user, **options)
        if not isinstance(made, SentientUser):
            raise UnknownName.of(
                "user",
                user,
                ["embedded"],
                'user="embedded", or an object with kind, version, open, appraise and speak',
            )
        is_async = is_async_user(made)
        self._library = library(personas)
        ids = self._library.ids(check_split(split or card.split))
        if persona is not None:
            ids = (self._library.get(persona).id,)
        self._set_people(card, ids, split, self._library.folder / "index.yaml")
        self._set_user(made, is_async=is_async, is_deterministic=not is_async)

    def _set_choices(
        self, info: InfoChoice, on_failure: FailureChoice, render_mode: str | None
    ) -> None:
        self.info_choice: InfoChoice = check_info_choice(info)
        if on_failure not in get_args(FailureChoice):
            raise UnknownName.of("on_failure", on_failure, get_args(FailureChoice), "the two")
        self.on_failure = on_failure
        modes = self.metadata["render_modes"]
        if render_mode in _PICTURES:  # for loops that ask for pictures from whatever they get
            gym.logger.warn(
                f"a dialogue has no pictures: render_mode={render_mode!r} renders nothing. Modes:"
                f" {', '.join(modes)}."
            )
            render_mode = None
        if render_mode not in (None, *modes):
            raise UnknownName.of("render mode", render_mode, modes, f"{', '.join(modes)} or None")
        self.render_mode = render_mode

    def _set_people(
        self, card: EnvCard, ids: tuple[str, ...], split: SplitChoice | None, place: object
    ) -> None:
        if not ids:
            raise CardError(
                f"{place} has no persona of split {split or card.split!r}. Choose another split, or"
                " pair some."
            )
        self.card = card
        self._ids = ids
        self.action_space = Utterance(card.max_utterance_chars)
        self.observation_space = Utterance(MAX_REPLY_CHARS)

    def _set_user(self, user: Any, *, is_async: bool, is_deterministic: bool) -> None:
        self.user = user
        """Who plays the person; with a `url` the name that the server is asked for."""
        self.is_async = is_async
        """Whether the user is asynchronous: it calls something that takes time, such as a server.
        """
        self._is_deterministic = is_deterministic

    @property
    def spec(self) -> EnvSpec | None:
        """How it was made; nondeterministic where a language model plays the person."""
        return self._spec

    @spec.setter
    def spec(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, spec: EnvSpec | None
    ) -> None:
        if spec is not None and not self._is_deterministic:
            spec = replace(spec, nondeterministic=True)
        self._spec = spec

    _spec: EnvSpec | None = None
    _session: EmpathySession | None = None

    @property
    def has_begun(self) -> bool:
        """Whether there is a dialogue: reset() was called."""
        return self._session is not None

    @property
    def has_failed_to_open(self) -> bool:
        """Whether the user failed before its first words."""
        return self.session.has_failed_to_open

    @property
    def session(self) -> EmpathySession:
        """The dialogue going on. ResetNeeded before the first reset, DialogueError with a `url`."""
        if self._session is None:
            raise ResetNeeded("the dialogue has not begun. Call reset() first.")
        return self._session

    def fork(self) -> Self:
        """Another environment like this one that shares its user or connection, not yet begun."""
        other = copy(self)
        other._session, other._np_random = None, None
        return other

    def _keep_position(self) -> Callable[[], None]:
        """What brings the dialogue back to where it is now."""
        session = self._session
        snapshot = session and session.snapshot()

        def restore() -> None:
            self._session = session
            if session is not None and snapshot is not None:
                session.restore(snapshot)

        return restore

    def validate_utterance(self, utterance: str) -> str:
        """The utterance as it would be said; raises what `step` would raise for it."""
        return self.session.validate_utterance(utterance)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin a dialogue. `options={"persona": id}` chooses with whom."""
        with undo_on_error([self], unless=(UserFailed,)):
            return run_coroutine(self.areset(seed=seed, options=options), self.is_async)

    async def areset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """See `reset`."""
        with undo_on_error([self]):
            super().reset(seed=seed)
            asked = _check_options(options)
            persona, scene_seed = draw_scene(self.np_random, (asked,) if asked else self._ids)
            opening, info = await self._begin(persona, scene_seed)
        if self.has_failed_to_open and self.on_failure == "raise":
            raise self._make_failure()
        return opening, select_info(info, self.info_choice, self.card)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say something; see the class for what comes back."""
        with undo_on_error([self], unless=_MOVES):
            return run_coroutine(self.astep(action), self.is_async)

    async def astep(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """See `step`."""
        return self._finish_step(await self._say(action))

    def _finish_step(
        self, said: tuple[str, float, bool, dict[str, Any]]
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        reply, reward, is_failed, info = said
        if is_failed and self.on_failure == "raise":
            raise self._make_failure()
        is_over = info["outcome"] is not None and not is_failed
        return reply, reward, is_over, is_failed, select_info(info, self.info_choice, self.card)

    def finish_step(self, turn: Turn, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """What `step` gives for a turn that the session has taken."""
        return self._finish_step(self._tell(turn, count_cut_chars(action, self.card)))

    def appraise_replies(self, texts: Sequence[str]) -> AppraisedReplies:
        """What each of several replies to this moment would do to the person, appraised side by
        side where the user can. The dialogue stays where it is; `step_from` goes on from one.

        Raises what `step` raises; UserFailed leaves the dialogue where it is.
        """
        return run_coroutine(self.aappraise_replies(texts), self.is_async)

    async def aappraise_replies(self, texts: Sequence[str]) -> AppraisedReplies:
        """See `appraise_replies`."""
        return await self.session.aappraise_replies(texts)

    def step_from(
        self, appraised: AppraisedReplies, index: int
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say the reply of that index, which is appraised already: it alone is answered. Gives what
        `step` gives; the record of the turn holds the others. DialogueError for replies to another
        moment.
        """
        with undo_on_error([self], unless=_MOVES):
            return run_coroutine(self.astep_from(appraised, index), self.is_async)

    async def astep_from(
        self, appraised: AppraisedReplies, index: int
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """See `step_from`."""
        return self._finish_step(await self._say_from(appraised, index))

    async def _begin(self, persona: str, scene_seed: int) -> tuple[str, dict[str, Any]]:
        """The first words of an episode, and everything that may be in its `info`."""
        session = EmpathySession(self.user, self._library.get(persona), self.card, scene_seed)
        opening = await session.astart()
        self._session = session
        if self.render_mode == "human":
            print_last_turn(session, SafeConsole())
        return opening, describe_turn(session, None, 0)

    async def _say(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        """The reply, the reward, whether the user failed, and everything for `info`."""
        session = self.session
        turn = (
            session.dialogue.turns[0]
            if session.has_failed_to_open
            else await session.areply(action)
        )
        return self._tell(turn, count_cut_chars(action, self.card))

    async def _say_from(
        self, appraised: AppraisedReplies, index: int
    ) -> tuple[str, float, bool, dict[str, Any]]:
        """The same for a reply that is appraised already."""
        turn = await self.session.areply_from(appraised, index)
        return self._tell(turn, appraised.cut_chars[index])

    def _tell(self, turn: Turn, cut: int) -> tuple[str, float, bool, dict[str, Any]]:
        session = self.session
        if self.render_mode == "human":
            print_last_turn(session, SafeConsole())
        is_failed = turn.outcome is Outcome.FAILED
        return turn.reply, turn.reward, is_failed, describe_turn(session, turn, cut)

    def _make_failure(self) -> UserFailed:
        cause = self._end_failed_dialogue().rstrip(".")
        return UserFailed(
            f"{cause}. This dialogue is over and no score: call reset()"
            ' for another, or make the environment with on_failure="truncate", which ends it with'
            ' info["valid"] False.'
        )

    def _end_failed_dialogue(self) -> str:
        """Forget the dialogue whose user failed; returns why it did."""
        cause = self.session.dialogue.turns[-1].appraisal.reasons[0].note
        self._session = None
        return cause

    def render(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The dialogue so far as text in mode "ansi"; "human" has shown each turn already."""
        return render_dialogue_as_text(self.session) if self.render_mode == "ansi" else None

    def save_state(self) -> EnvState:
        """Everything needed to go on from here, as a value that can be pickled."""
        scene = self.session.scene
        random = dict(self.np_random.bit_generator.state)
        return EnvState(
            scene.persona.id, scene.seed, self.session.snapshot(), random, _hash_scene_cards(scene)
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
        if state.scene not in ("", _hash_scene_cards(session.scene)):
            raise DialogueError(
                f"cannot restore this state: it was saved with another card than {self.card.id}, or"
                f" another {state.persona}. Make the environment that it was saved from."
            )
        session.restore(state.snapshot)
        self._session, self.np_random.bit_generator.state = (
            session,
            _check_random_state(self.np_random, state.random),
        )


def make_env(
    card: str | EnvCard = "RLVER-Empathy-v0", *, url: str | None = None, **options: Any
) -> EmpathyEnv:
    """What `gym.make` makes: an EmpathyEnv, or with a `url` one whose person a server plays."""
    for name in ("group_size", "autoreset_mode"):
        if name in options:
            raise UnknownName(
                f"{name} is an option of many dialogues at once, gym.make_vec, in its default mode."
                " Leave out vectorization_mode."
            )
    if url is None:
        return EmpathyEnv(card, **options)
    # only who gives a url needs a client
    from rlver_gym.environment.remote import RemoteEmpathyEnv  # noqa: PLC0415

    return RemoteEmpathyEnv(url, card, **options)


def draw_scene(generator: np.random.Generator, ids: Sequence[str]) -> tuple[str, int]:
    """Whom a reset meets, of these personas, and the seed of the scene, from 0 to 2**31 - 1."""
    return ids[int(generator.integers(len(ids)))], int(generator.integers(2**31))


def _hash_scene_cards(scene: Scene) -> str:
    return f"{scene.card.hash}/{scene.persona.hash}"


def _check_random_state(generator: np.random.Generator, state: Any) -> Any:
    """The state, tried on another generator of this kind. DialogueError for one that is none."""
    try:
        type(generator.bit_generator)().state = state
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError) as error:
        raise DialogueError(
            "cannot restore this state: its random state is none. Give what save_state() gave."
        ) from error
    return state


_MAKE_USER = ", or make the user first: user=make_user('openai:MODEL', api_key=...)"


def refuse_secrets(options: Mapping[str, Any], place: str, remedy: str = "") -> None:
    """CardError for a key or a password among a user's options, which `place` would keep: a spec is
    printed, pickled and written as JSON. `remedy`: what else can be done.
    """
    if where := find_secret(options):
        raise CardError(
            f"{where}: a key or a password would stand in {place}. Set OPENAI_API_KEY and"
            f" OPENAI_BASE_URL instead{remedy}."
        )


def _check_options(options: object) -> str | None:
    """The persona that a reset asks for. UnknownName for any other option."""
    if options is not None and not isinstance(options, Mapping):
        raise UnknownName(
            f'the options of reset must be a mapping, such as {{"persona": id}}, not'
            f" {type(options).__name__}."
        )
    for name in options or {}:
        if name != "persona":
            raise UnknownName.of("reset option", name, ["persona"], 'options={"persona": id}')
    asked = (options or {}).get("persona")
    if asked is not None and (not isinstance(asked, str) or not asked):
        raise UnknownName(f"a persona is chosen by its id, a text, not {str(asked)[:80]!r}.")
    return asked


def make_for_loop(env_id: str, **options: Any) -> gym.Env[Any, Any]:
    """`gym.make` for a loop that leaves failed episodes out and scores by the emotion: ours get
    `on_failure="truncate"`, and those on this machine `info="privileged"`, unless the options say
    otherwise; environments of others get their options alone.
    """
    registered = gym.registry.get(env_id.rpartition(":")[2])
    if registered and str(registered.entry_point).startswith("rlver_gym."):
        ours = {"on_failure": "truncate", **({} if "url" in options else {"info": "privileged"})}
        options = ours | options
    return gym.make(env_id, **options)


def check_split(split: str) -> SplitChoice:
    """UnknownName for what is no split."""
    if split not in SPLIT_CHOICES:
        raise UnknownName.of("split", split, SPLIT_CHOICES, ", ".join(SPLIT_CHOICES))
    return split
