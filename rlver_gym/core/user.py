"""What a sentient user is: three functions of values. It keeps no state, so dialogues can be branched, replayed and run at once."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rlver_gym.core.cards import EnvCard
from rlver_gym.core.dialogue import Appraisal, Dialogue, Reply
from rlver_gym.core.persona import Persona


@dataclass(frozen=True, slots=True)
class Scene:
    """What holds for a whole dialogue: who it is with, under which protocol, with which seed."""

    persona: Persona
    card: EnvCard
    seed: int


@runtime_checkable
class SentientUser(Protocol):
    """A simulated person. All that it knows comes in, all that it decides goes out, as values."""

    kind: str
    """What sort of user this is, such as "embedded". Recorded with every episode."""
    version: str
    """Changes whenever the same words could be felt or answered differently. Recorded with every episode."""

    def open(self, scene: Scene, emotion: int) -> str:
        """The first words of the dialogue."""
        ...

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        """What `dialogue.utterance` does to a user whose emotion is `emotion`, in [0, 100]."""
        ...

    def speak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str | Reply:
        """The user's answer to `dialogue.utterance`, once it was appraised and the emotion has become `emotion`: the text, or a Reply that also says what it tells."""
        ...


@runtime_checkable
class AsyncSentientUser(SentientUser, Protocol):
    """A user that has to wait for something, such as a server. Many of its dialogues go on at once.

    The three functions of `SentientUser` give the same values; sessions that can wait call these instead.
    """

    async def aopen(self, scene: Scene, emotion: int) -> str:
        """See `SentientUser.open`."""
        ...

    async def aappraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        """See `SentientUser.appraise`."""
        ...

    async def aspeak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str | Reply:
        """See `SentientUser.speak`."""
        ...


def waits(user: SentientUser) -> bool:
    """Whether the user is an `AsyncSentientUser`. Asked once a dialogue: `isinstance` with a protocol takes four hundred times as long."""
    return hasattr(user, "aopen") and hasattr(user, "aappraise") and hasattr(user, "aspeak")
