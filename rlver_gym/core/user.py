"""What a sentient user is: three functions of values.

It keeps no state, so dialogues can be branched, replayed and run at once; and how far a person lets
somebody look (trust).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from rlver_gym.core.cards import EnvCard
from rlver_gym.core.dialogue import Appraisal, Dialogue, Reply
from rlver_gym.core.persona import Disposition, Persona
from rlver_gym.util.event_loop import gather_all


@dataclass(frozen=True, slots=True)
class Scene:
    """What holds for a whole dialogue: who it is with, under which protocol, with which seed."""

    persona: Persona
    card: EnvCard
    seed: int


class Moment(NamedTuple):
    """A point of a dialogue at which something was said."""

    scene: Scene
    emotion: int
    """Before it, in [0, 100]."""
    dialogue: Dialogue
    """Its `utterance` is what was said."""


@runtime_checkable
class SentientUser(Protocol):
    """A simulated person. All that it knows comes in, all that it decides goes out, as values."""

    kind: str
    """What sort of user this is, such as "embedded". Recorded with every episode."""
    version: str
    """Recorded. Changes whenever the same words could be felt or answered differently."""

    def open(self, scene: Scene, emotion: int) -> str:
        """The first words of the dialogue."""
        ...

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        """What `dialogue.utterance` does to a user whose emotion is `emotion`, in [0, 100]."""
        ...

    def speak(
        self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal
    ) -> str | Reply:
        """The answer to `dialogue.utterance` at the `emotion` it led to: the text, or a Reply."""
        ...


class AsyncSteps(Protocol):
    """The three functions of `SentientUser`, for sessions that can wait."""

    async def aopen(self, scene: Scene, emotion: int) -> str: ...

    async def aappraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal: ...

    async def aspeak(
        self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal
    ) -> str | Reply: ...


@runtime_checkable
class AsyncSentientUser(SentientUser, AsyncSteps, Protocol):
    """A user that has to wait for something, such as a server. Many of its dialogues go on at once.

    The three functions of `SentientUser` give the same values; sessions that can wait call those of
    `AsyncSteps` instead.
    """


@runtime_checkable
class _AppraisesMany(Protocol):
    def appraise_many(self, moments: Sequence[Moment]) -> list[Appraisal]: ...


@runtime_checkable
class _AppraisesManyAsync(Protocol):
    async def aappraise_many(self, moments: Sequence[Moment]) -> list[Appraisal]: ...


@runtime_checkable
class HearsMoments(Protocol):
    """A user that hears what was said in many dialogues faster at once."""

    def hear_moments(self, moments: Sequence[Moment]) -> None:
        """Keep with each dialogue's memory what `appraise` and `speak` will ask of it."""
        ...


@runtime_checkable
class ReadsAhead(Protocol):
    """A user that reads faster what it is told of before it is asked."""

    def read_ahead(self, moments: Sequence[Moment]) -> None:
        """Read, at once, what was said at moments that will be asked about."""
        ...


@runtime_checkable
class ReadsDialogues(Protocol):
    """A user that appraises a recorded dialogue at once."""

    async def aappraise_dialogue(self, scene: Scene, dialogue: Dialogue) -> list[Appraisal]:
        """What each utterance did, in order, from the card's start, and anew after an end."""
        ...


def appraise_many(user: SentientUser, moments: Sequence[Moment]) -> list[Appraisal]:
    """What was said at each of the moments, side by side where the user can judge so."""
    if isinstance(user, _AppraisesMany):
        return user.appraise_many(moments)
    return [user.appraise(*moment) for moment in moments]


async def aappraise_many(user: AsyncSteps, moments: Sequence[Moment]) -> list[Appraisal]:
    """The same of a user that is waited for; at once where it has no such method."""
    if isinstance(user, _AppraisesManyAsync):
        return await user.aappraise_many(moments)
    return await gather_all(user.aappraise(*moment) for moment in moments)


def is_async_user(user: SentientUser) -> bool:
    """Whether the user is an `AsyncSentientUser`; quicker than `isinstance` with a protocol."""
    return hasattr(user, "aopen") and hasattr(user, "aappraise") and hasattr(user, "aspeak")


Depth = Literal[1, 2, 3]

_RESTLESS_THRESHOLDS = {Disposition.NEGATIVE: 25, Disposition.AVOIDANT: 22, Disposition.PASSIVE: 16}
"""Quick to anger is quick to go; who waits to be drawn out stays longest, out of politeness."""


def disclosure_depth(emotion: int, change: int, turns: int) -> Depth:
    """The deepest disclosure that may be told now: 1 to anyone, 2 when heard, 3 when trusted."""
    if emotion >= 65 or (change >= 5 and turns >= 3):
        return 3
    return 2 if change > 0 or emotion >= 45 or turns >= 4 else 1


def restless_threshold(disposition: Disposition) -> int:
    """The emotion below which a person of this disposition says that they are going."""
    return _RESTLESS_THRESHOLDS[disposition]
