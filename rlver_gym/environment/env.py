"""EmpathyEnv: one dialogue as a Gymnasium environment. A thin layer on a session."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from rlver_gym.core.cards import DEFAULT_ENV, EnvCard, env_card
from rlver_gym.core.dialogue import Turn
from rlver_gym.core.emotion import Outcome
from rlver_gym.core.persona import SplitChoice
from rlver_gym.core.user import Scene, is_async_user
from rlver_gym.environment.dialogue_env import (
    DialogueEnv,
    EnvStep,
    FailureChoice,
    SaidTurn,
    View,
    check_people,
    check_split,
)
from rlver_gym.environment.info import InfoChoice, describe_turn
from rlver_gym.environment.render import print_last_turn, render_dialogue_as_text
from rlver_gym.environment.session import (
    AppraisedReplies,
    EmpathySession,
    Snapshot,
    count_cut_chars,
)
from rlver_gym.library.personas import library
from rlver_gym.users import SentientUser, explain_no_options, make_user
from rlver_gym.util.errors import CardError, DialogueError, ResetNeeded, UnknownName
from rlver_gym.util.secret_words import find_secret
from rlver_gym.util.terminal import SafeConsole


class EnvState(NamedTuple):
    """A saved EmpathyEnv: who is talked to, where the dialogue stands, and the random state."""

    persona: str
    seed: int
    snapshot: Snapshot
    random: dict[str, Any]
    scene: str = ""
    """Hashes of card and persona, so that it is restored nowhere else; empty when unknown."""


class EmpathyEnv(DialogueEnv):
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

    `gym.make("RLVER-Empathy-v0", card=..., user="embedded", split=None, persona=None,
    personas=None, info="public", on_failure="raise", url=None, render_mode=None, **options)`

    - `card`: an env card of your own (.yaml), in place of the id's
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

    def __init__(
        self,
        card: str | EnvCard = DEFAULT_ENV,
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
        card = env_card(card)
        named = {"user": user, "persona": persona, "personas": personas, **options}
        refuse_secrets(named, "the environment's spec", _MAKE_USER)
        asked = "embedded" if user is None else user
        if options and (why := explain_no_options(asked)):
            known = f"{', '.join(_ARGUMENTS)}; {why}"
            raise UnknownName.of("option", next(iter(options)), _ARGUMENTS, known)
        self.user = make_user(asked, **options)
        if not isinstance(self.user, SentientUser):
            raise UnknownName.of(
                "user",
                user,
                ["embedded"],
                'user="embedded", or an object with kind, version, open, appraise and speak',
            )
        self._library = library(personas)
        self._session: EmpathySession | None = None
        chosen = check_split(split or card.split)
        ids = (self._library.get(persona).id,) if persona else self._library.ids(chosen)
        is_async, people = is_async_user(self.user), self._library
        super().__init__(
            card,
            check_people(ids, chosen, people.source, people.splits),
            View(info, on_failure, render_mode),
            is_async=is_async,
            is_deterministic=not is_async,
        )

    @property
    def has_begun(self) -> bool:
        return self._session is not None

    @property
    def has_failed_to_open(self) -> bool:
        return self.session.has_failed_to_open

    @property
    def session(self) -> EmpathySession:
        """The dialogue going on. ResetNeeded before the first reset, DialogueError with a `url`."""
        if self._session is None:
            raise ResetNeeded("the dialogue has not begun. Call reset() first.")
        return self._session

    def fork(self) -> Self:
        other = super().fork()
        other._session = None
        return other

    def _keep_position(self) -> Callable[[], None]:
        session = self._session
        snapshot = session and session.snapshot()

        def restore() -> None:
            self._session = session
            if session is not None and snapshot is not None:
                session.restore(snapshot)

        return restore

    def validate_utterance(self, utterance: str) -> str:
        return self.session.validate_utterance(utterance)

    def finish_step(self, turn: Turn, action: str) -> EnvStep:
        """What `step` gives for a turn that the session has taken."""
        return self._finish_step(self._show_turn(turn, count_cut_chars(action, self.card)))

    async def aappraise_replies(self, texts: Sequence[str]) -> AppraisedReplies:
        return await self.session.aappraise_replies(texts)

    async def _begin(self, persona: str, scene_seed: int) -> tuple[str, dict[str, Any]]:
        session = EmpathySession(self.user, self._library.get(persona), self.card, scene_seed)
        opening = await session.astart()
        self._session = session
        if self.render_mode == "human":
            print_last_turn(session, SafeConsole())
        return opening, describe_turn(session, None, 0)

    async def _say(self, action: str) -> SaidTurn:
        session = self.session
        turn = (
            session.dialogue.turns[0]
            if session.has_failed_to_open
            else await session.areply(action)
        )
        return self._show_turn(turn, count_cut_chars(action, self.card))

    async def _say_from(self, appraised: AppraisedReplies, index: int) -> SaidTurn:
        turn = await self.session.areply_from(appraised, index)
        return self._show_turn(turn, appraised.cut_chars[index])

    def _show_turn(self, turn: Turn, cut: int) -> SaidTurn:
        session = self.session
        if self.render_mode == "human":
            print_last_turn(session, SafeConsole())
        is_failed = turn.outcome is Outcome.FAILED
        return SaidTurn(turn.reply, turn.reward, is_failed, describe_turn(session, turn, cut))

    def _end_failed_dialogue(self) -> str:
        cause = self.session.failure
        assert cause is not None
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


def _hash_scene_cards(scene: Scene) -> str:
    return f"{scene.card.hash}/{scene.persona.hash}"


def _check_random_state(generator: np.random.Generator, state: Any) -> Any:
    try:
        type(generator.bit_generator)().state = state
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError) as error:
        raise DialogueError(
            "cannot restore this state: its random state is none. Give what save_state() gave."
        ) from error
    return state


_ARGUMENTS = "user split persona personas info on_failure render_mode url card".split()
"""Of `gym.make`, as the signatures of EmpathyEnv and make_env have them."""


_MAKE_USER = ", or make the user first: user=make_user('openai:MODEL', api_key=...)"


def refuse_secrets(options: Mapping[str, Any], place: str, remedy: str = "") -> None:
    """CardError for a key among options that `place` would keep. `remedy`: what else helps."""
    if where := find_secret(options):
        raise CardError(
            f"{where}: a key or a password would stand in {place}. Set OPENAI_API_KEY and"
            f" OPENAI_BASE_URL instead{remedy}."
        )
