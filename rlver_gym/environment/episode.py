"""The record of one dialogue: everything needed to check its score again, as one line of JSON."""

import hashlib
import json
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Self

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from rlver_gym.core.cards import MAX_TURNS, EnvCard
from rlver_gym.core.dialogue import Appraisal, Dialogue, Reason, Sibling, Turn
from rlver_gym.core.emotion import MAX_CHANGE, MAX_EMOTION, MIN_EMOTION, Outcome
from rlver_gym.core.ledger import quote
from rlver_gym.core.persona import MAX_LINES, Disposition, HiddenNeed
from rlver_gym.environment.session import EmpathySession, give_up_reason
from rlver_gym.environment.snapshot import replay_turns
from rlver_gym.util.errors import RunError
from rlver_gym.util.frozen import explain_problem
from rlver_gym.util.json_text import parse_json
from rlver_gym.util.terminal import format_count

FailedBy = Literal["agent", "user"]


class Case(NamedTuple):
    """One dialogue to hold: what makes an episode unique within a run."""

    agent: str
    persona: str
    seed: int
    """The user's."""

    def __str__(self) -> str:
        return "/".join(map(str, self))


class Episode(NamedTuple):
    """One finished dialogue."""

    agent: str
    env: str
    env_hash: str
    persona: str
    persona_hash: str
    need: str
    disposition: str
    user: str
    user_version: str
    seed: int
    start: int
    opening: str
    turns: tuple[Turn, ...]

    @classmethod
    def of(cls, session: EmpathySession, agent: str) -> Self:
        scene = session.scene
        return cls(
            agent=agent,
            env=scene.card.id,
            env_hash=scene.card.hash,
            persona=scene.persona.id,
            persona_hash=scene.persona.hash,
            need=scene.persona.need.value,
            disposition=scene.persona.person.disposition.value,
            user=session.user.kind,
            user_version=session.user.version,
            seed=scene.seed,
            start=scene.card.start,
            opening=session.dialogue.opening,
            turns=session.dialogue.turns,
        )

    @property
    def key(self) -> Case:
        return Case(self.agent, self.persona, self.seed)

    @property
    def final(self) -> int:
        return self.turns[-1].emotion if self.turns else self.start

    @property
    def outcome(self) -> Outcome | None:
        return self.turns[-1].outcome if self.turns else None

    @property
    def failed_by(self) -> FailedBy | None:
        """Who could not go on, when the dialogue failed."""
        if self.outcome is not Outcome.FAILED:
            return None
        return "user" if give_up_reason(self.turns[-1]) is None else "agent"

    def explain_unfinished(self, card: EnvCard | None) -> str | None:
        """Why this is no finished dialogue under the card (None: under any); None for one."""
        if self.outcome is None:
            return f"it is cut off after {format_count(len(self.turns), 'turn')}"
        try:
            if card is not None:
                replay_turns(Dialogue(self.opening, self.turns), card)
        except (ValueError, TypeError) as error:
            return str(error)
        return None

    @property
    def total_reward(self) -> float:
        """The return: the sum of the rewards."""
        return sum(turn.reward for turn in self.turns)

    def as_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = self._asdict() | {"turns": list(map(turn_to_dict, self.turns))}
        plain |= {"outcome": self.outcome, "final": self.final, "return": self.total_reward}
        return plain | {"check": hashlib.sha256(_dump(plain).encode()).hexdigest()[:12]}

    def to_json(self) -> str:
        """One line of JSON, the same on every machine."""
        return _dump(self.as_dict())

    @classmethod
    def from_json(cls, line: str, source: str = "episode") -> Self:
        """Parse a line of `to_json`; RunError names `source` and what is wrong."""
        try:
            plain = _check_plain_values(_EPISODE, parse_json(line), "the episode")
            turns = tuple(map(_make_turn, plain.pop("turns")))
            texts = {name: plain[name].value for name in ("need", "disposition")}
            header = {name: plain[name] for name in cls._fields[:-1]} | texts
            return cls(**header, turns=turns)
        except ValueError as error:
            raise RunError(
                f"{source}: not an episode record ({quote(str(error), _MAX_CAUSE_CHARS)}). Was the"
                " file edited or cut?"
            ) from error


def _dump(plain: dict[str, Any]) -> str:
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def turn_to_dict(turn: Turn) -> dict[str, Any]:
    change, *felt = appraisal_to_dict(turn.appraisal).items()
    siblings = [{"utterance": one, **appraisal_to_dict(heard)} for one, heard in turn.siblings]
    return {
        "utterance": turn.utterance,
        **dict([change]),
        "emotion": turn.emotion,
        "reward": turn.reward,
        "outcome": turn.outcome,
        **dict(felt),
        "reply": turn.reply,
        **({} if turn.disclosures is None else {"disclosures": list(turn.disclosures)}),
        **({"siblings": siblings} if siblings else {}),
    }


def appraisal_to_dict(appraisal: Appraisal) -> dict[str, Any]:
    spread = appraisal.spread
    return {
        "change": appraisal.change,
        "thought": appraisal.thought,
        "reasons": [list(reason) for reason in appraisal.reasons],
        **({} if spread is None else {"spread": float(spread)}),
    }


_MAX_CAUSE_CHARS = 500
_MAX_POINTS = 1e6
"""Of a reward or a reason: far beyond what any user gives, and small enough to add up."""
_MAX_DISCLOSURES = 4 * MAX_LINES
"""In one turn: the disclosures and the facts of a card, all told at once."""
_MAX_SIBLINGS = 1_000
_IN_POINTS = Field(ge=-_MAX_POINTS, le=_MAX_POINTS)
_Emotion = Annotated[int, Field(ge=MIN_EMOTION, le=MAX_EMOTION)]


@with_config(ConfigDict(strict=True))
class _PlainAppraisal(TypedDict):
    change: Annotated[int, Field(ge=-MAX_CHANGE, le=MAX_CHANGE)]
    thought: str
    reasons: list[
        Annotated[tuple[str, Annotated[int | float, _IN_POINTS], str], Field(strict=False)]
    ]
    spread: NotRequired[Annotated[float, Field(ge=0, le=2 * MAX_CHANGE)] | None]


@with_config(ConfigDict(strict=True))
class _PlainSibling(_PlainAppraisal):
    utterance: str


@with_config(ConfigDict(strict=True))
class _PlainTurn(_PlainSibling):
    emotion: _Emotion
    reward: Annotated[float, _IN_POINTS]
    outcome: Annotated[Outcome, Field(strict=False)] | None
    reply: str
    siblings: NotRequired[Annotated[list[_PlainSibling], Field(max_length=_MAX_SIBLINGS)]]
    disclosures: NotRequired[Annotated[list[str], Field(max_length=_MAX_DISCLOSURES)]]


@with_config(ConfigDict(strict=True))
class _PlainEpisode(TypedDict):
    agent: str
    env: str
    env_hash: str
    persona: str
    persona_hash: str
    need: Annotated[HiddenNeed, Field(strict=False)]
    disposition: Annotated[Disposition, Field(strict=False)]
    user: str
    user_version: str
    seed: Annotated[int, Field(ge=0, le=10**18)]
    start: _Emotion
    opening: str
    turns: Annotated[list[_PlainTurn], Field(max_length=MAX_TURNS)]


_APPRAISAL, _TURN, _EPISODE = map(TypeAdapter, (_PlainAppraisal, _PlainTurn, _PlainEpisode))


def parse_turn(plain: object, number: int) -> Turn:
    return _make_turn(_check_plain_values(_TURN, plain, f"turn {number}"))


def _make_turn(plain: _PlainTurn) -> Turn:
    told = plain.get("disclosures")
    return Turn(
        plain["utterance"],
        _make_appraisal(plain),
        plain["emotion"],
        plain["reward"],
        plain["outcome"],
        plain["reply"],
        None if told is None else tuple(told),
        tuple(Sibling(x["utterance"], _make_appraisal(x)) for x in plain.get("siblings", ())),
    )


def parse_appraisal(plain: object) -> Appraisal:
    return _make_appraisal(_check_plain_values(_APPRAISAL, plain, "an appraisal"))


def _make_appraisal(plain: _PlainAppraisal) -> Appraisal:
    reasons = tuple([Reason(*reason) for reason in plain["reasons"]])
    return Appraisal(plain["change"], plain["thought"], reasons, plain.get("spread"))


def _check_plain_values(kind: TypeAdapter[Any], plain: object, place: str) -> Any:
    try:
        return kind.validate_python(plain)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        at = list(problem["loc"])
        if at[:1] == ["turns"] and len(at) > 1:
            place, at = f"turn {int(at[1]) + 1}", at[2:]
        name = ".".join(map(str, at))
        raise ValueError(
            f"{name + ' of ' if name else ''}{place}: {explain_problem(problem)}"
        ) from None
