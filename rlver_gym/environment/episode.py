"""The record of one dialogue: everything needed to check its score again, as one line of JSON."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, Self

from rlver_gym.core.cards import MAX_TURNS, EnvCard
from rlver_gym.core.dialogue import Appraisal, Dialogue, Reason, Turn
from rlver_gym.core.emotion import MAX_CHANGE, MAX_EMOTION, MIN_EMOTION, Outcome
from rlver_gym.core.ledger import quote
from rlver_gym.core.persona import MAX_LINES, Disposition, HiddenNeed
from rlver_gym.environment.session import EmpathySession, give_up_reason
from rlver_gym.environment.snapshot import follow_turns
from rlver_gym.io.errors import RunError
from rlver_gym.io.json_text import parse_json
from rlver_gym.io.terminal import format_count

FailedBy = Literal["agent", "user"]


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
        """The record of a session that has ended."""
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
    def key(self) -> tuple[str, str, int]:
        """What makes it unique within a run."""
        return self.agent, self.persona, self.seed

    @property
    def final(self) -> int:
        """The last emotion score."""
        return self.turns[-1].emotion if self.turns else self.start

    @property
    def outcome(self) -> Outcome | None:
        """How it ended."""
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
                follow_turns(Dialogue(self.opening, self.turns), card)
        except (ValueError, TypeError) as error:
            return str(error)
        return None

    @property
    def total_reward(self) -> float:
        """The return: the sum of the rewards."""
        return sum(turn.reward for turn in self.turns)

    def as_dict(self) -> dict[str, Any]:
        """Plain values in order, each turn with a checksum over all before it."""
        plain: dict[str, Any] = self._asdict()
        check = _digest("", {name: value for name, value in plain.items() if name != "turns"})
        plain["turns"] = []
        for turn in map(turn_to_dict, self.turns):
            check = _digest(check, turn)
            plain["turns"].append(turn | {"check": check})
        return plain | {"outcome": self.outcome, "final": self.final, "return": self.total_reward}

    def to_json(self) -> str:
        """One line of JSON, the same on every machine."""
        return json.dumps(self.as_dict(), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str, source: str = "episode") -> Self:
        """Parse a line of `to_json`; RunError names `source` and what is wrong."""
        try:
            plain = parse_json(line)
            _check_fields(plain, cls._fields, "the episode")
            header = {name: plain[name] for name in cls._fields if name != "turns"}
            _check_types(header, cls.__annotations__, "the episode")
            _check_types(plain, {"turns": list}, "the episode")
            _check_ranges(header, _HEADER_RANGES, "the episode")
            header["need"], header["disposition"] = (
                HiddenNeed(header["need"]).value,
                Disposition(header["disposition"]).value,
            )
            if len(plain["turns"]) > MAX_TURNS:
                raise ValueError(
                    f"{len(plain['turns'])} turns, but no dialogue has more than {MAX_TURNS}"
                )
            return cls(
                **header,
                turns=tuple(
                    parse_turn(turn, number) for number, turn in enumerate(plain["turns"], 1)
                ),
            )
        except (ValueError, TypeError) as error:
            raise RunError(
                f"{source}: not an episode record ({quote(str(error), _MAX_CAUSE_CHARS)}). Was the"
                " file edited or cut?"
            ) from error


def _digest(before: str, plain: dict[str, Any]) -> str:
    """A link of the chain of checksums: 12 hex digits of SHA-256, with the link before it."""
    text = before + json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def turn_to_dict(turn: Turn) -> dict[str, Any]:
    """Plain values, in the order of a record."""
    spread = turn.appraisal.spread
    return {
        "utterance": turn.utterance,
        "change": turn.appraisal.change,
        "emotion": turn.emotion,
        "reward": turn.reward,
        "outcome": turn.outcome,
        "thought": turn.appraisal.thought,
        "reasons": [list(reason) for reason in turn.appraisal.reasons],
        **({} if spread is None else {"spread": float(spread)}),
        "reply": turn.reply,
        **({} if turn.disclosures is None else {"disclosures": list(turn.disclosures)}),
    }


_TURN = {
    "utterance": str,
    "change": int,
    "emotion": int,
    "reward": float,
    "thought": str,
    "reasons": list,
    "spread": float,
    "reply": str,
    "disclosures": list,
}
_OPTIONAL = {"spread", "disclosures"}
_REQUIRED = (*(name for name in _TURN if name not in _OPTIONAL), "outcome")


_MAX_CAUSE_CHARS = 500
_MAX_POINTS = 1e6
"""Of a reward or a reason: far beyond what any user gives, and small enough to add up."""
_MAX_DISCLOSURES = 4 * MAX_LINES
"""In one turn: the disclosures and the facts of a card, all told at once."""
_HEADER_RANGES = {"seed": (0, 10**18), "start": (MIN_EMOTION, MAX_EMOTION)}
_TURN_RANGES = {
    "change": (-MAX_CHANGE, MAX_CHANGE),
    "emotion": (MIN_EMOTION, MAX_EMOTION),
    "reward": (-_MAX_POINTS, _MAX_POINTS),
    "spread": (0, 2 * MAX_CHANGE),
}


def parse_turn(plain: dict[str, Any], number: int) -> Turn:
    """The turn of `turn_to_dict`; ValueError or TypeError names what in it is wrong."""
    place = f"turn {number}"
    _check_fields(plain, _REQUIRED, place)
    _check_types(plain, _TURN, place)
    _check_ranges(plain, _TURN_RANGES, place)
    reasons = tuple(_parse_reason(reason, place) for reason in plain["reasons"])
    outcome = Outcome(plain["outcome"]) if plain["outcome"] is not None else None
    appraisal = Appraisal(plain["change"], plain["thought"], reasons, plain.get("spread"))
    disclosures = _parse_disclosures(plain.get("disclosures"), place)
    return Turn(
        plain["utterance"],
        appraisal,
        plain["emotion"],
        plain["reward"],
        outcome,
        plain["reply"],
        disclosures,
    )


def _parse_disclosures(ids: list[Any] | None, place: str) -> tuple[str, ...] | None:
    if ids is None:
        return None
    if len(ids) > _MAX_DISCLOSURES or not all(type(one) is str for one in ids):
        raise ValueError(f"disclosures of {place} are not up to {_MAX_DISCLOSURES} texts")
    return tuple(ids)


def _parse_reason(plain: Any, place: str) -> Reason:
    if not isinstance(plain, list) or len(plain) != len(Reason._fields):
        raise ValueError(f"a reason of {place} is not a list of {', '.join(Reason._fields)}")
    code, points, note = plain
    fields = {"code": code, "points": points, "note": note}
    _check_types(
        fields,
        {"code": str, "points": int if type(points) is int else float, "note": str},
        f"a reason of {place}",
    )
    _check_ranges(fields, {"points": (-_MAX_POINTS, _MAX_POINTS)}, f"a reason of {place}")
    return Reason(code, points, note)


def _check_fields(plain: Any, names: Iterable[str], place: str) -> None:
    """TypeError for what is no JSON object, ValueError for one that lacks a field."""
    if not isinstance(plain, dict):
        raise TypeError(f"{place} is {type(plain).__name__}, not an object with fields")
    for name in names:
        if name not in plain:
            raise ValueError(f"the field {name!r} of {place} is missing")


def _check_types(plain: dict[str, Any], types: Mapping[str, Any], place: str) -> None:
    for name, kind in types.items():
        if name in plain and type(plain[name]) is not kind:
            raise TypeError(
                f"{name} of {place} is {type(plain[name]).__name__}, not {kind.__name__}"
            )


def _check_ranges(
    plain: dict[str, Any], ranges: Mapping[str, tuple[float, float]], place: str
) -> None:
    for name, (low, high) in ranges.items():
        if name in plain and not low <= plain[name] <= high:
            raise ValueError(f"{name} of {place} is {plain[name]:g}, not from {low:g} to {high:g}")
