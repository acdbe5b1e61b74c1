"""The values that flow through one conversation. All frozen; nothing here acts."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from rlver_gym.core.emotion import Outcome
from rlver_gym.util.errors import UtteranceError


class Message(NamedTuple):
    """One thing said, by the agent (who supports) or the user (the simulated person)."""

    speaker: Literal["agent", "user"]
    text: str

    @property
    def role(self) -> Literal["assistant", "user"]:
        """Of the speaker, as chat models call it."""
        return "assistant" if self.speaker == "agent" else "user"

    def to_chat(self) -> dict[str, str]:
        """As chat models take it: `role` and `content`."""
        return {"role": self.role, "content": self.text}


class ReasonCode(StrEnum):
    """What a reason is about. The other codes are families with an id ("prior:ACT",
    "temper:DISPOSITION", "world:…"), the groups of the embedded user's inputs, and its rules.
    """

    SILENCE = "silence"  # nothing, or next to nothing, was said
    NONSENSE = "nonsense"  # no sentence that anyone could follow
    BROKEN = "broken"  # a part of it does not hang together
    REPETITION = "repetition"  # what the agent has said before
    WHOLE = "whole"  # the reply as a whole, for what they hope for
    READER = "reader"  # what is read in a frozen model's states
    DOUBT = "doubt"  # that the reading is far from all that was rated
    MODEL = "model"  # what a language model judged
    SAMPLES = "samples"  # that the judgement is the median of several
    FEELING = "feeling"  # how they feel after it, by a language model
    JUDGE_ADDRESSED = "judge_addressed"  # the utterance speaks to whoever judges; bounds its change
    ROUNDING = "rounding"  # to a whole point
    LIMIT = "limit"  # at most ten points a turn
    SCALE_END = "scale_end"  # the emotion stays within its scale
    FAILED = "failed"  # the user failed: no score
    ANSWER = "answer"  # what the user's server answered instead
    AGENT_FAILED = "agent_failed"  # the agent had no word to say: no score


class Reason(NamedTuple):
    """One cause of a change of emotion, in quarter points, so that sums are exact."""

    code: str
    """A `ReasonCode`, or a family with an id."""
    points: float
    note: str


class Reply(NamedTuple):
    """What the user answers."""

    text: str
    disclosures: tuple[str, ...] | None = None
    """The ids of what it tells of the card; None when the user does not say."""


class Appraisal(NamedTuple):
    """What an utterance did to the user. The reasons' points add up to `change`, in [-10, 10]."""

    change: int
    thought: str
    reasons: tuple[Reason, ...]
    spread: float | None = None
    """Standard deviation of several judgements, in points; None when there was one."""
    draft: Reply | None = None
    """What the user is about to say, where it was thought of at once. Not recorded."""

    @property
    def unclipped_change(self) -> int:
        """The change before the end of the scale cut it: what the words did, not what the number
        could show of it.
        """
        cut = [reason.points for reason in self.reasons if reason.code == ReasonCode.SCALE_END]
        return self.change - int(sum(cut))


class Sibling(NamedTuple):
    """Another reply to the same moment, appraised beside the one that was said."""

    utterance: str
    appraisal: Appraisal


class Turn(NamedTuple):
    """One utterance, and what came of it. `outcome` is None while the dialogue goes on."""

    utterance: str
    appraisal: Appraisal
    emotion: int
    reward: float
    outcome: Outcome | None
    reply: str
    disclosures: tuple[str, ...] | None = None
    """Of the card, by id, what the reply tells; None when the user does not say."""
    siblings: tuple[Sibling, ...] = ()
    """What else could have been said, where the utterance was chosen among several."""


class Memory:
    """What a user has worked out of a dialogue so far, so that a step need not read the past again.

    It says nothing that the dialogue does not: records and comparisons leave it out, and pickles
    hold an empty one.
    """

    __slots__ = ("before", "now")

    def __init__(self, before: Any = None) -> None:
        self.before = before
        self.now: Any = None

    def __reduce__(self) -> tuple[type["Memory"], tuple[()]]:
        return Memory, ()


@dataclass(frozen=True, slots=True)
class Dialogue:
    """What was said. `utterance` holds the agent's last words until they are answered."""

    opening: str
    turns: tuple[Turn, ...] = ()
    utterance: str | None = None
    memory: Memory = field(default_factory=Memory, compare=False, repr=False)

    def with_utterance(self, utterance: str) -> "Dialogue":
        """The dialogue with what the agent says now; the user has not answered it."""
        return Dialogue(self.opening, self.turns, utterance, Memory(self.memory.now))

    @classmethod
    def of_words(
        cls, opening: str, exchanges: Iterable[tuple[str, str]], emotion: int
    ) -> "Dialogue":
        """Utterances and what was answered, which nobody has appraised."""
        nothing = Appraisal(0, "", ())
        said = (Turn(words, nothing, emotion, 0.0, None, answer) for words, answer in exchanges)
        return cls(opening, tuple(said))

    def with_turn(self, turn: Turn) -> "Dialogue":
        """The dialogue with one more turn, which the user has answered."""
        memory = self.memory if turn.outcome is None else Memory()  # nobody goes on after the end
        return Dialogue(self.opening, (*self.turns, turn), None, memory)

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


# Control characters but tab, line feed: nobody says them, and terminals obey them.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def clean_utterance(
    utterance: object, max_chars: int, overlong: Literal["truncate", "error"]
) -> str:
    """The utterance as the user receives it: control characters (NUL, escape, …) left out, cut to
    `max_chars`.

    Raises UtteranceError when it is not a string, holds a lone surrogate, or is too long and
    `overlong` is "error".
    """
    if not isinstance(utterance, str):
        raise UtteranceError(
            f"an utterance must be a string, not {type(utterance).__name__}. Decode or join it"
            " first."
        )
    # A plain str: a subclass may lie about its length.
    utterance = str.__getitem__(utterance, slice(None))
    hidden = not utterance.isprintable()
    if hidden and (lone := _SURROGATE.search(utterance)):
        raise UtteranceError(
            f"the utterance holds a lone surrogate (U+{ord(lone.group()):04X}) at character"
            f" {lone.start()}. Decode its bytes with errors='replace'."
        )
    if len(utterance) > max_chars:
        if overlong == "error":
            raise UtteranceError(
                f"the utterance has {len(utterance):,} characters, the card allows {max_chars:,}."
                " Shorten it, or use a card with overlong: truncate."
            )
        utterance = utterance[:max_chars]
    return _CONTROL.sub("", utterance) if hidden else utterance
