"""One dialogue between an agent and a sentient user; every loop is a thin layer on this."""

from collections.abc import Coroutine, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, NamedTuple, TypeVar, cast

from rlver_gym.core.cards import EnvCard
from rlver_gym.core.dialogue import (
    Appraisal,
    Dialogue,
    Reason,
    ReasonCode,
    Reply,
    Sibling,
    Turn,
    clean_utterance,
)
from rlver_gym.core.emotion import MAX_CHANGE, REWARDS, Outcome, apply_change
from rlver_gym.core.persona import Persona
from rlver_gym.core.user import (
    AsyncSentientUser,
    AsyncSteps,
    HearsMoments,
    Moment,
    Scene,
    SentientUser,
    aappraise_many,
    appraise_many,
    is_async_user,
)
from rlver_gym.environment.snapshot import Snapshot, check_snapshot
from rlver_gym.users.world import InWorld
from rlver_gym.util.errors import AgentFailed, DialogueError, ResetNeeded, UserFailed
from rlver_gym.util.event_loop import run_sync, wait_for
from rlver_gym.util.request_origin import make_requests_for, number_dialogue

T = TypeVar("T")
_AGENT_FAILED_NOTE = "the agent failed: "
"""Beginning of the reason for which a dialogue ended without a word of the agent's."""


class AppraisedReplies(NamedTuple):
    """Several replies to one moment of a dialogue, each appraised and none answered."""

    place: Dialogue | str
    """The dialogue before them; over the wire the server's name for it."""
    texts: tuple[str, ...]
    appraisals: tuple[Appraisal, ...]
    """Over the wire only from a server started with --privileged."""
    rewards: tuple[float, ...]
    """What saying each would earn, as the card says."""
    unclipped: tuple[float, ...]
    """The same if the scale had no end: an emotion of 0 shows no difference between bad replies."""
    cut_chars: tuple[int, ...]


def count_cut_chars(text: str, card: EnvCard) -> int:
    return max(0, len(text) - card.max_utterance_chars)


def check_place(appraised: AppraisedReplies, place: object) -> None:
    if appraised.place != place:
        raise DialogueError(
            "these replies were appraised at another moment. Appraise them where the dialogue is"
            " now."
        )


class _Weighed(NamedTuple):
    """What an appraisal leads to."""

    emotion: int
    outcome: Outcome | None
    reward: float


class Retry(NamedTuple):
    """What of a dialogue that failed before is asked anew, past the response cache."""

    turn: int
    """From which turn on, from 1; 0 begins with the first words."""
    attempt: int
    """Equal for all dialogues that are held again together: what they share is asked once."""


class EmpathySession:
    """A dialogue: `start`, then `reply` until `outcome` is set; `astart` and `areply` on a loop."""

    def __init__(self, user: SentientUser, persona: Persona, card: EnvCard, seed: int = 0) -> None:
        """The same arguments and utterances give the same dialogue. CardError for a wrong user."""
        card.check_user(user.kind, user.version)
        self.user = user
        self.is_async = is_async_user(user)
        """Whether the user waits for something, such as a server."""
        self._async_user: AsyncSteps = (
            cast(AsyncSentientUser, user) if self.is_async else _AsyncAdapter(user)
        )
        if card.world is not None:
            self._async_user = InWorld(self._async_user, card.world)
        self.scene = Scene(persona, card, seed)
        self._state = Snapshot(card.start, None, None)
        self._number = number_dialogue()
        self.retry: Retry | None = None
        """Set where the dialogue failed before and is held again."""

    @property
    def emotion(self) -> int:
        """The emotion score now, in [0, 100]."""
        return self._state.emotion

    @property
    def has_begun(self) -> bool:
        """Whether the dialogue has begun: start() was called."""
        return self._state.dialogue is not None

    @property
    def dialogue(self) -> Dialogue:
        """What was said so far."""
        if self._state.dialogue is None:
            raise ResetNeeded(
                "the dialogue has not begun. Call start() (or the environment's reset()) first."
            )
        return self._state.dialogue

    @property
    def has_failed_to_open(self) -> bool:
        """Whether the user failed before its first words."""
        return self.outcome is Outcome.FAILED and not (
            self.dialogue.opening or self.dialogue.turns[0].utterance
        )

    @property
    def outcome(self) -> Outcome | None:
        """How the dialogue ended; None while it goes on."""
        return self._state.outcome

    @property
    def failure(self) -> str | None:
        """Why the dialogue failed; None where it did not."""
        is_failed = self.outcome is Outcome.FAILED
        return self.dialogue.turns[-1].appraisal.reasons[0].note if is_failed else None

    def start(self) -> str:
        """The user's first words. Called again, it begins anew.

        A user that raises UserFailed ends the dialogue before its first words: they are empty, the
        outcome is "failed", and one turn in which nobody says anything holds the reason.
        """
        return run_coroutine(self.astart(), self.is_async)

    async def astart(self) -> str:
        """See `start`."""
        card = self.scene.card
        try:
            with self.request_context():
                opening = await self._async_user.aopen(self.scene, card.start)
        except UserFailed as failure:
            self._state = Snapshot(
                card.start,
                Dialogue("", (_make_failure_turn("", card.start, failure),)),
                Outcome.FAILED,
            )
            return ""
        self._state = Snapshot(card.start, Dialogue(opening), None)
        return opening

    def validate_utterance(self, utterance: str) -> str:
        """The utterance as `reply` would pass it on; raises what `reply` would raise for it."""
        if self.outcome is not None:
            raise ResetNeeded(
                f"the dialogue is over ({self.outcome}). Call start() (or the environment's"
                " reset()) for a new one."
            )
        _ = self.dialogue
        return clean_utterance(
            utterance, self.scene.card.max_utterance_chars, self.scene.card.overlong
        )

    def reply(self, utterance: str) -> Turn:
        """Say something to the user; the turn holds the appraisal, the new emotion, the reward and
        the user's answer.

        A user that raises UserFailed ends the dialogue: outcome "failed", emotion as before, reward
        0, no answer. After any other error the dialogue is where it was, and the same can be said
        again.
        Raises ResetNeeded before the start and after the end, UtteranceError for what is not
        usable text.
        """
        return run_coroutine(self.areply(utterance), self.is_async)

    def appraise_at(self, emotion: int, dialogue: Dialogue) -> Appraisal:
        """What a dialogue's last utterance does to this person at that emotion. UserFailed."""
        work = self._async_user.aappraise(self.scene, emotion, dialogue)
        return run_coroutine(work, self.is_async)

    async def areply(self, utterance: str) -> Turn:
        """See `reply`. DialogueError when something else was said while the user answered."""
        return await self._say(self.validate_utterance(utterance))

    def appraise_replies(self, texts: Sequence[str]) -> AppraisedReplies:
        """What each of several replies would do, appraised side by side where the user can. The
        dialogue stays where it is; `reply_from` goes on from one of them.

        Raises what `reply` raises, and UserFailed.
        """
        return run_coroutine(self.aappraise_replies(texts), self.is_async)

    async def aappraise_replies(self, texts: Sequence[str]) -> AppraisedReplies:
        """See `appraise_replies`."""
        words, dialogue = tuple(map(self.validate_utterance, texts)), self.dialogue
        moments = [Moment(self.scene, self.emotion, dialogue.with_utterance(x)) for x in words]
        with self.request_context():
            appraisals = await aappraise_many(self._async_user, moments)
        rewards = tuple(self._weigh(appraisal).reward for appraisal in appraisals)
        is_delta = self.scene.card.reward == "delta"
        return AppraisedReplies(
            place=dialogue,
            texts=words,
            appraisals=tuple(appraisal._replace(draft=None) for appraisal in appraisals),
            rewards=rewards,
            unclipped=tuple(float(x.unclipped_change) for x in appraisals) if is_delta else rewards,
            cut_chars=tuple(count_cut_chars(text, self.scene.card) for text in texts),
        )

    def reply_from(self, appraised: AppraisedReplies, index: int) -> Turn:
        """Say the reply of that index; the turn's `siblings` are the others. Raises as `reply`."""
        return run_coroutine(self.areply_from(appraised, index), self.is_async)

    async def areply_from(self, appraised: AppraisedReplies, index: int) -> Turn:
        """See `reply_from`."""
        words = self.validate_utterance(appraised.texts[index])
        check_place(appraised, self.dialogue)
        replies = list(map(Sibling, appraised.texts, appraised.appraisals))
        _, appraisal = replies.pop(index)
        return await self._say(words, appraisal, tuple(replies))

    async def _say(
        self, words: str, appraisal: Appraisal | None = None, siblings: tuple[Sibling, ...] = ()
    ) -> Turn:
        before = self._state
        dialogue = self.dialogue.with_utterance(words)
        try:
            with self.request_context():
                turn = await self._take_turn(dialogue, words, appraisal)
        except UserFailed as failure:
            turn = _make_failure_turn(words, before.emotion, failure)
        else:
            turn = turn._replace(siblings=siblings)
        if self._state is not before:
            raise DialogueError(
                "the dialogue moved while the user was answering. Wait for each reply before the"
                " next."
            )
        self._state = Snapshot(turn.emotion, dialogue.with_turn(turn), turn.outcome)
        return turn

    def say_now(self, user: SentientUser, dialogue: Dialogue) -> Turn:
        """`reply` with what `dialogue` says, to a user that is not asynchronous."""
        words = dialogue.utterance or ""
        try:
            with self.request_context():
                appraisal = user.appraise(self.scene, self.emotion, dialogue)
                weighed = self._weigh(appraisal)
                answer = user.speak(self.scene, weighed.emotion, dialogue, appraisal)
            turn = _make_turn(words, appraisal, weighed, answer)
        except UserFailed as failure:
            turn = _make_failure_turn(words, self.emotion, failure)
        self._state = Snapshot(turn.emotion, dialogue.with_turn(turn), turn.outcome)
        return turn

    def request_context(self) -> AbstractContextManager[None]:
        """Requests to servers in this block, the agent's too, are made for this dialogue."""
        turn = len(self.dialogue.turns) + 1 if self.has_begun else 0
        again = self.retry
        attempt = again.attempt if again is not None and turn >= again.turn else None
        return make_requests_for(self._number, attempt)

    def give_up(self, failure: AgentFailed) -> None:
        """End the dialogue as failed, with a silent turn that holds the agent's reason."""
        self.validate_utterance("")
        reason = Reason(ReasonCode.AGENT_FAILED, 0.0, f"{_AGENT_FAILED_NOTE}{failure}")
        turn = Turn("", Appraisal(0, "", (reason,)), self.emotion, 0.0, Outcome.FAILED, "")
        self._state = Snapshot(self.emotion, self.dialogue.with_turn(turn), Outcome.FAILED)

    def _weigh(self, appraisal: Appraisal) -> "_Weighed":
        if not -MAX_CHANGE <= appraisal.change <= MAX_CHANGE:
            raise ValueError(
                f"the user {self.user.kind!r} changed the emotion by {appraisal.change}; at most"
                f" {MAX_CHANGE} points a turn are allowed"
            )
        card, before = self.scene.card, self.emotion
        emotion = apply_change(before, appraisal.change)
        outcome = card.outcome(emotion, len(self.dialogue.turns) + 1)
        return _Weighed(emotion, outcome, REWARDS[card.reward](before, emotion, outcome))

    async def _take_turn(self, dialogue: Dialogue, words: str, appraisal: Appraisal | None) -> Turn:
        if appraisal is None:
            appraisal = await self._async_user.aappraise(self.scene, self.emotion, dialogue)
        weighed = self._weigh(appraisal)
        answer = await self._async_user.aspeak(self.scene, weighed.emotion, dialogue, appraisal)
        return _make_turn(words, appraisal, weighed, answer)

    def snapshot(self) -> Snapshot:
        """The state as a value: to pickle, to keep, to restore into a session of the same scene."""
        return self._state

    def restore(self, snapshot: Snapshot) -> None:
        """Go back (or over) to a snapshot. DialogueError, and no change, for an unfit one."""
        check_snapshot(snapshot, self.scene.card)
        self._state = snapshot


def reply_many(sessions: Sequence[EmpathySession], utterances: Sequence[str]) -> list[Turn]:
    """What `reply` gives in each of several dialogues of one user, heard at once if it can."""
    if not sessions or sessions[0].is_async or sessions[0].scene.card.world is not None:
        return [session.reply(text) for session, text in zip(sessions, utterances, strict=True)]
    user, moments = sessions[0].user, []
    for session, text in zip(sessions, utterances, strict=True):
        dialogue = session.dialogue.with_utterance(session.validate_utterance(text))
        moments.append(Moment(session.scene, session.emotion, dialogue))
    if isinstance(user, HearsMoments):
        with suppress(UserFailed):  # whose dialogue it is, its own turn finds out
            user.hear_moments(moments)
    return [
        session.say_now(user, moment.dialogue)
        for session, moment in zip(sessions, moments, strict=True)
    ]


def _make_turn(words: str, appraisal: Appraisal, weighed: _Weighed, answer: str | Reply) -> Turn:
    text, disclosures = answer if isinstance(answer, Reply) else Reply(answer)
    emotion, outcome, reward = weighed
    return Turn(words, appraisal._replace(draft=None), emotion, reward, outcome, text, disclosures)


def give_up_reason(turn: Turn) -> str | None:
    if turn.outcome is not Outcome.FAILED or turn.utterance or len(turn.appraisal.reasons) != 1:
        return None
    code, _, note = turn.appraisal.reasons[0]
    is_given_up = code == ReasonCode.AGENT_FAILED and note.startswith(_AGENT_FAILED_NOTE)
    return note.removeprefix(_AGENT_FAILED_NOTE) if is_given_up else None


def run_coroutine(work: Coroutine[Any, Any, T], is_async: bool) -> T:
    return wait_for(work) if is_async else run_sync(work)


def _make_failure_turn(words: str, emotion: int, failure: UserFailed) -> Turn:
    reasons = [Reason(ReasonCode.FAILED, 0.0, f"the user failed: {failure}")]
    reasons += [Reason(ReasonCode.ANSWER, 0.0, failure.answer)] if failure.answer else []
    return Turn(words, Appraisal(0, "", tuple(reasons)), emotion, 0.0, Outcome.FAILED, "")


class _AsyncAdapter:
    """A synchronous user with the interface of an asynchronous one."""

    def __init__(self, user: SentientUser) -> None:
        self._user = user

    async def aopen(self, scene: Scene, emotion: int) -> str:
        return self._user.open(scene, emotion)

    async def aappraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        return self._user.appraise(scene, emotion, dialogue)

    async def aappraise_many(self, moments: Sequence[Moment]) -> list[Appraisal]:
        return appraise_many(self._user, moments)

    async def aspeak(
        self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal
    ) -> str | Reply:
        return self._user.speak(scene, emotion, dialogue, appraisal)
