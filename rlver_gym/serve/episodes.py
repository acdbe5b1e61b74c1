"""Episodes, begun and stepped once for each request id, dropped when idle. Knows no framework."""

import secrets
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gymnasium.utils.seeding import np_random

from rlver_gym.core.cards import DEFAULT_ENV, EnvCard, env_card
from rlver_gym.core.dialogue import Turn
from rlver_gym.core.user import is_async_user
from rlver_gym.environment.dialogue_env import draw_scene
from rlver_gym.environment.episode import appraisal_to_dict
from rlver_gym.environment.session import EmpathySession, count_cut_chars
from rlver_gym.library.personas import PersonaLibrary, library
from rlver_gym.serve.episode import Episode, Once
from rlver_gym.serve.messages import (
    AppraisedReply,
    ChoiceRequest,
    EpisodeAnswer,
    EpisodeRequest,
    EpisodeState,
    Line,
    RepliesAnswer,
    RepliesRequest,
    StepAnswer,
    StepRequest,
)
from rlver_gym.serve.metrics import Metrics
from rlver_gym.serve.operation import ServeSettings
from rlver_gym.serve.problems import Refusal
from rlver_gym.users import EmbeddedUser, SentientUser
from rlver_gym.util.errors import (
    CardError,
    ChatError,
    UnknownName,
    UserFailed,
    UtteranceError,
    check_known,
)
from rlver_gym.util.event_loop import Worker
from rlver_gym.util.terminal import format_count

_APPRAISE_FIRST = (
    "No replies to this turn were appraised under that id, or others after them. Have them"
    " appraised at this turn: POST /v1/episodes/{id}/replies."
)


class EpisodeTable:
    """All episodes of a server. For one event loop."""

    def __init__(
        self, settings: ServeSettings, users: Mapping[str, SentientUser], metrics: Metrics
    ) -> None:
        """`users`: by name, the default first. CardError when a card cannot be used."""
        self.settings = settings
        self.users = dict(users)
        self.cards: dict[str, EnvCard] = {
            card.id: card for card in map(env_card, settings.served_envs)
        }
        self._default_env = DEFAULT_ENV if DEFAULT_ENV in self.cards else next(iter(self.cards))
        self.shelf: PersonaLibrary = library(settings.personas)
        for persona_id in self.shelf.ids():
            self.shelf.get(persona_id)
        self._metrics = metrics
        self._threads = {id(user): Worker() for user in users.values() if not is_async_user(user)}
        self._warm: set[tuple[int, str]] = set()
        self._begun: Once[Episode] = Once()
        self._open: dict[str, Episode] = {}
        self._ended: dict[str, Episode] = {}
        self._opening = 0
        self._under_way = 0
        metrics.gauge("open_episodes", "Episodes that go on.").set_function(lambda: self.num_open)
        under_way = metrics.gauge("turns_under_way", "Turns being worked on.")
        under_way.set_function(lambda: self._under_way)

    @property
    def num_open(self) -> int:
        return len(self._open) + self._opening

    def find_card(self, env_id: str) -> EnvCard:
        check_known("environment", env_id, self.cards, "GET /v1/envs")
        return self.cards[env_id]

    async def begin(self, request: EpisodeRequest, address: str = "") -> EpisodeAnswer:
        """Begin an episode, or find the one that the same request of that client began."""
        own_id = request.request_id or secrets.token_hex(16)
        request_id = f"{address} {request.client or ''} {own_id}"
        content = request.model_dump()
        episode = await self._begun.run(
            request_id, content, lambda: self._begin(request_id, request)
        )
        session = episode.session
        first = session.dialogue.turns[0] if session.has_failed_to_open else None
        return EpisodeAnswer(**self._describe(episode, first), opening=session.dialogue.opening)

    async def step(self, episode_id: str, request: StepRequest) -> StepAnswer:
        episode, words = self.find(episode_id), request.utterance
        session = episode.session

        def start() -> Coroutine[Any, Any, StepAnswer]:
            self._claim_turn(episode, request.turn, [words])
            cut = count_cut_chars(words, session.scene.card)
            return self._take_turn(episode, cut, session.reply, session.areply, words)

        return await episode.steps.run(request.request_id, (request.turn, words), start)

    async def appraise(self, episode_id: str, request: RepliesRequest) -> RepliesAnswer:
        """What several replies to this moment would lead to. The episode stays where it is."""
        episode = self.find(episode_id)

        def start() -> Coroutine[Any, Any, RepliesAnswer]:
            self._claim_turn(episode, request.turn, request.utterances)
            return self._appraise(episode, request)

        content = request.turn, tuple(request.utterances)
        return await episode.appraisals.run(request.request_id, content, start)

    async def choose(self, episode_id: str, request: ChoiceRequest) -> StepAnswer:
        """Say one of the replies that were appraised last."""
        episode = self.find(episode_id)

        def start() -> Coroutine[Any, Any, StepAnswer]:
            name, appraised = episode.appraised or ("", None)
            if appraised is None or (name, request.turn) != (
                request.appraised,
                len(episode.turns) + 1,
            ):
                raise Refusal("wrong-turn", _APPRAISE_FIRST, next_turn=len(episode.turns) + 1)
            if request.index >= len(appraised.texts):
                count = format_count(len(appraised.texts), "reply", "replies")
                raise Refusal("invalid", f"index: there are {count}. Count them from 0.")
            self._claim_turn(episode, request.turn)
            say, asay = episode.session.reply_from, episode.session.areply_from
            cut = appraised.cut_chars[request.index]
            return self._take_turn(episode, cut, say, asay, appraised, request.index)

        content = request.turn, request.appraised, request.index
        return await episode.steps.run(request.request_id, content, start)

    def state(self, episode_id: str) -> EpisodeState:
        episode = self.find(episode_id)
        dialogue, turns = episode.session.dialogue, episode.turns
        return EpisodeState(
            **self._describe(episode, turns[-1] if turns else None),
            transcript=[
                Line(speaker=message.speaker, text=message.text) for message in dialogue.messages()
            ],
            rewards=[turn.reward for turn in turns],
        )

    def find(self, episode_id: str) -> Episode:
        """The episode of that id, which is then no longer idle. Refusal when there is none."""
        episode = self._open.get(episode_id) or self._ended.get(episode_id)
        if episode is None:
            idle = f"was idle for longer than {self.settings.idle_s:g} s"
            raise Refusal(
                "unknown-episode",
                f"There is no such episode: it was deleted, {idle}, or the server has started anew."
                " Begin another one with POST /v1/episodes.",
            )
        episode.last_used = time.monotonic()
        return episode

    def delete(self, episode_id: str) -> None:
        self._drop(self.find(episode_id))

    def expire(self) -> None:
        oldest = time.monotonic() - self.settings.idle_s
        for episode in (*self._open.values(), *self._ended.values()):
            if episode.last_used < oldest and not episode.is_answering:
                self._drop(episode)

    def _drop(self, episode: Episode) -> None:
        self._open.pop(episode.id, None)
        self._ended.pop(episode.id, None)
        self._begun.forget(episode.request_id)

    def _begin(self, request_id: str, request: EpisodeRequest) -> Coroutine[Any, Any, Episode]:
        if self.num_open >= self.settings.max_episodes:
            raise Refusal(
                "too-many-episodes",
                f"{self.num_open:,} episodes are open. Wait, or delete those you do not need.",
                retry_after=5,
            )
        name = request.user or next(iter(self.users))
        if name not in self.users:
            offered = ", ".join(self.users)
            raise Refusal(
                "user-not-offered",
                f"The server does not offer the user {name!r}. It offers: {offered}.",
            )
        session = self._make_session(request, self.users[name])
        self._check_capacity()
        episode = Episode(secrets.token_urlsafe(16), request_id, session, time.monotonic())
        self._opening += 1
        self._under_way += 1
        return self._open_episode(episode)

    def _make_session(self, request: EpisodeRequest, user: SentientUser) -> EmpathySession:
        try:
            card = self.find_card(request.env or self._default_env)
            ids = (request.persona,) if request.persona else ()
            ids = ids or self.shelf.ids(request.split or card.split)
            if not ids:
                raise UnknownName(f"there is nobody in the split {request.split or card.split}.")
            generator, _ = np_random(request.seed)
            persona_id, scene_seed = draw_scene(generator, ids)
            if persona_id.partition("/")[0] not in self.shelf.pairings:
                see = f"GET /v1/envs/{card.id}"
                raise UnknownName.of("persona", persona_id, self.shelf.pairings, see)
            persona = self.shelf.get(persona_id)
        except (UnknownName, CardError) as error:
            raise Refusal("unknown-name", str(error)) from None
        asked = request.scene_seed
        return EmpathySession(user, persona, card, scene_seed if asked is None else asked)

    async def _open_episode(self, episode: Episode) -> Episode:
        try:
            thread = self._thread_for(episode.session)
            await (thread(episode.session.start) if thread else episode.session.astart())
        except ChatError as error:
            raise Refusal("user-unavailable") from error
        finally:
            self._opening -= 1
            self._under_way -= 1
        self._metrics.episodes.inc()
        self._file(episode)
        return episode

    def _check_capacity(self) -> None:
        if self._under_way >= self.settings.max_in_flight:
            raise Refusal(
                "busy", f"{self._under_way:,} turns are under way. Wait 1 s.", retry_after=1
            )

    def _claim_turn(self, episode: Episode, turn: int, utterances: Sequence[str] = ()) -> None:
        """Mark a turn as under way. Refusal when it, or one of the utterances, cannot be taken."""
        session = episode.session
        if session.outcome is not None:
            raise Refusal(
                "episode-over",
                f"The episode has ended ({session.outcome}). Begin another one with POST"
                " /v1/episodes.",
                outcome=str(session.outcome),
            )
        taken = len(episode.turns) + episode.is_answering
        if turn != taken + 1 or episode.is_answering:
            wait = f" Turn {taken} is under way: wait for its answer." * episode.is_answering
            raise Refusal(
                "wrong-turn",
                f"Turn {turn} cannot be taken now. The next one is {taken + 1}.{wait}",
                next_turn=taken + 1,
            )
        try:
            for utterance in utterances:
                session.validate_utterance(utterance)
        except UtteranceError as error:
            raise Refusal("invalid", str(error)) from None
        self._check_capacity()
        episode.is_answering = True
        self._under_way += 1

    @contextmanager
    def _under_turn(self, episode: Episode) -> Iterator[None]:
        try:
            yield
            self._warm.add((id(episode.session.user), episode.session.scene.persona.id))
        except ChatError as error:
            raise Refusal("user-unavailable") from error
        finally:
            episode.is_answering = False
            episode.last_used = time.monotonic()
            self._under_way -= 1

    async def _appraise(self, episode: Episode, request: RepliesRequest) -> RepliesAnswer:
        session = episode.session
        with self._under_turn(episode):
            thread = self._thread_for(session)
            try:
                appraised = await (
                    thread(session.appraise_replies, request.utterances)
                    if thread
                    else session.aappraise_replies(request.utterances)
                )
            except UserFailed as failure:
                raise Refusal("user-failed") from failure
        episode.appraised = request.request_id, appraised
        felt = [AppraisedReply(**appraisal_to_dict(x)) for x in appraised.appraisals]
        return RepliesAnswer(
            turn=request.turn,
            rewards=list(appraised.rewards),
            unclipped=list(appraised.unclipped),
            cut_chars=list(appraised.cut_chars),
            privileged=felt if self.settings.privileged else None,
        )

    async def _take_turn(
        self,
        episode: Episode,
        cut: int,
        say: Callable[..., Turn],
        asay: Callable[..., Coroutine[Any, Any, Turn]],
        *what: Any,
    ) -> StepAnswer:
        session, began = episode.session, time.perf_counter()
        with self._under_turn(episode):
            thread = self._thread_for(session)
            turn = await (thread(say, *what) if thread else asay(*what))
        episode.appraised = None
        self._metrics.steps.inc()
        self._metrics.step_s.observe(time.perf_counter() - began)
        if episode.id in self._open and turn.outcome is not None:
            self._file(episode)
        answer = self._describe(episode, turn)
        return StepAnswer(**answer, reply=turn.reply, reward=turn.reward, cut_chars=cut)

    def _thread_for(self, session: EmpathySession) -> Worker | None:
        """Where a turn keeps nobody waiting; None for the event loop itself: the embedded user
        takes a millisecond, but half a second for its first turn with a person, whose cards it
        compiles.
        """
        is_warm = (id(session.user), session.scene.persona.id) in self._warm
        if type(session.user) is EmbeddedUser and is_warm:
            return None
        return self._threads.get(id(session.user))

    def close(self) -> None:
        for thread in self._threads.values():
            thread.stop()

    def _file(self, episode: Episode) -> None:
        if episode.session.outcome is None:
            self._open[episode.id] = episode
            return
        self._open.pop(episode.id, None)
        self._ended[episode.id] = episode
        if len(self._ended) > self.settings.max_episodes:
            self._drop(next(iter(self._ended.values())))

    def _describe(self, episode: Episode, turn: Turn | None) -> dict[str, Any]:
        return episode.describe(turn, privileged=self.settings.privileged)
