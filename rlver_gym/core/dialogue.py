"""The values that flow through one conversation. All frozen; nothing here acts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rlver_gym.core.emotion import Outcome


class Message(NamedTuple):
    """One thing said, by the agent (who supports) or the user (the simulated person)."""

    speaker: Literal["agent", "user"]
    text: str


class Reason(NamedTuple):
    """One cause of a change of emotion.

    `points` are multiples of 1/4, so that sums of them are exact in floating point.
    """

    code: str
    points: float
    note: str


class Reply(NamedTuple):
    """What the user answers."""

    text: str
    disclosures: tuple[str, ...] | None = None
    """The ids of the card's disclosures and facts that it tells; None when the user does not say."""


class Appraisal(NamedTuple):
    """What an utterance did to the user: `change` in [-10, 10] whole points, to which the reasons' points add up exactly."""

    change: int
    thought: str
    reasons: tuple[Reason, ...]
    spread: float | None = None
    """How far apart several judgements of the same utterance were, in points (standard deviation); None when there was one."""
    draft: Reply | None = None
    """What the user is about to say, when it was thought of in the same breath. Not recorded: the turn's reply is."""


class Turn(NamedTuple):
    """One agent utterance and what came of it. `emotion` is the score after it, `outcome` None while the dialogue goes on."""

    utterance: str
    appraisal: Appraisal
    emotion: int
    reward: float
    outcome: Outcome | None
    reply: str
    disclosures: tuple[str, ...] | None = None
    """Of the card, by id, what the reply tells; None when the user does not say."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """What was said so far. `utterance` holds the agent's last words while the user has not answered them, else None."""

    opening: str
    turns: tuple[Turn, ...] = ()
    utterance: str | None = None

    def said(self, utterance: str) -> "Dialogue":
        """The dialogue after the agent spoke."""
        return Dialogue(self.opening, self.turns, utterance)

    def answered(self, turn: Turn) -> "Dialogue":
        """The dialogue after the user answered."""
        return Dialogue(self.opening, (*self.turns, turn))

    @property
    def user_lines(self) -> tuple[str, ...]:
        """What the user said, the opening first."""
        return (self.opening, *[turn.reply for turn in self.turns])

    @property
    def earlier_utterances(self) -> tuple[str, ...]:
        """What the agent said in the turns already answered."""
        return tuple([turn.utterance for turn in self.turns])

    def messages(self) -> Iterator[Message]:
        """Everything said, in order, from the user's opening on."""
        yield Message("user", self.opening)
        for turn in self.turns:
            yield Message("agent", turn.utterance)
            yield Message("user", turn.reply)
        if self.utterance is not None:
            yield Message("agent", self.utterance)
