"""Of each agent the best and the worst dialogue, and the turns that decided them."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple
from urllib.parse import quote, urlencode

from rlver_gym.bench.score import drop_failed
from rlver_gym.core.dialogue import ReasonCode, Turn
from rlver_gym.environment.episode import Episode
from rlver_gym.util.groups import group
from rlver_gym.util.terminal import escape_markdown

DECISIVE = 2
"""How many turns are told of a dialogue, and how many reasons of a turn."""
_MAX_CHARS = 160
_NO_CAUSE = (ReasonCode.ROUNDING, ReasonCode.LIMIT)


class DecisiveTurn(NamedTuple):
    """A turn that moved the emotion."""

    turn: int
    """Counted from 1."""
    change: int
    reasons: tuple[str, ...]
    """Notes of the appraisal that point the way the emotion went, the weightiest first."""
    after: str
    """What the person had said."""
    utterance: str


class Archetype(NamedTuple):
    """An agent at its best or worst, by the final emotion; of equals the shorter dialogue."""

    agent: str
    which: Literal["best", "worst"]
    key: str
    """AGENT/PERSONA/SEED."""
    start: int
    final: int
    outcome: str
    moments: tuple[DecisiveTurn, ...]
    """The turns that moved the emotion most, in order."""


def find_archetypes(episodes: Sequence[Episode]) -> list[Archetype]:
    """Two an agent, in their order, of dialogues that did not fail; one of an agent with one."""
    found: list[Archetype] = []
    for own in group((one.agent, one) for one in drop_failed(episodes)).values():
        best = max(own, key=lambda one: (one.final, -len(one.turns)))
        worst = min(own, key=lambda one: (one.final, len(one.turns)))
        found.append(_describe_archetype(best, "best"))
        found += [_describe_archetype(worst, "worst")] if worst is not best else []
    return found


def _describe_archetype(episode: Episode, which: Literal["best", "worst"]) -> Archetype:
    lines = [episode.opening, *(turn.reply for turn in episode.turns)]
    moved = [at for at, turn in enumerate(episode.turns) if turn.appraisal.change]
    strongest = sorted(moved, key=lambda at: -abs(episode.turns[at].appraisal.change))[:DECISIVE]
    return Archetype(
        episode.agent,
        which,
        "/".join(map(str, episode.key)),
        episode.start,
        episode.final,
        str(episode.outcome),
        tuple(
            _describe_decisive_turn(at + 1, episode.turns[at], lines[at])
            for at in sorted(strongest)
        ),
    )


def _describe_decisive_turn(number: int, turn: Turn, after: str) -> DecisiveTurn:
    change, reasons = turn.appraisal.change, turn.appraisal.reasons
    causes = [one for one in reasons if one.points * change > 0 and one.code not in _NO_CAUSE]
    told = sorted(causes, key=lambda one: -abs(one.points))[:DECISIVE]
    return DecisiveTurn(number, change, tuple(one.note for one in told), after, turn.utterance)


def render_archetypes_as_markdown(found: Sequence[Archetype], page: str, run: str) -> Iterator[str]:
    """An item each, what agents and people wrote escaped; links lead into the report's `page`."""
    for one in found:
        link = f"{quote(page)}#/dialogue?{urlencode({'run': run, 'id': one.key})}"
        key, agent = map(escape_markdown, (one.key, one.agent))
        emotion = f"{one.start} → {one.final} ({one.outcome.replace('_', ' ')})"
        yield f"- {one.which} of **{agent}**: [{key}]({link}), {emotion}"
        for turn, change, reasons, *quoted in one.moments:
            why = escape_markdown("; ".join(reasons)) or "no reason named"
            after, said = (escape_markdown(text, max_chars=_MAX_CHARS) for text in quoted)
            yield f"    - turn {turn}, {change:+d}: {why}. “{said or '(silence)'}”, after “{after}”"
