"""The score bound: what reference agents reach, and above which mean a run is suspicious."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from statistics import fmean, stdev
from typing import Any, NamedTuple

from rlver_gym.core.emotion import MAX_CHANGE, MAX_EMOTION, Outcome
from rlver_gym.environment.episode import Episode

REFERENCE_AGENTS = ("listener", "adaptive")
"""Agents without privileges, the weaker first: what they reach is what can be reached by talking.
"""
PRIVILEGED_AGENT = "oracle"
"""The agent that was told everything: the theoretical top."""
SCORES_FILE = "ceilings.json"

ReferenceScores = Mapping[str, Mapping[str, float]]
"""Mean final emotion by agent (`PRIVILEGED_AGENT` where it is known) and persona."""


class ScoreBound(NamedTuple):
    """What reference agents reach and above which level is suspicious, in points of emotion."""

    level: float
    """A run without privileges above it is suspicious."""
    strongest: str
    """The honest agent that reaches most."""
    reaches: float
    bound: float
    """The upper end of that agent's 95 % interval over personas."""
    told: float | None
    """What the agent that was told everything reaches."""
    people: int


class AboveBound(NamedTuple):
    """An agent without privileges that scores higher than honest agents do."""

    final: float
    """Its mean final emotion, over the people of the score bound."""
    ceiling: ScoreBound
    read_first: tuple[tuple[str, int, int], ...]
    """Its three highest dialogues, those with the fewest turns first: persona, seed, final emotion.
    """


class EpisodeConditions(NamedTuple):
    """Under which conditions a score was reached; others cannot be compared."""

    env: str
    env_hash: str
    user: str
    user_version: str

    @classmethod
    def of(cls, episode: Episode) -> "EpisodeConditions":
        """The conditions of an episode."""
        return cls(episode.env, episode.env_hash, episode.user, episode.user_version)


def compute_score_bound(reference: ReferenceScores, start: float = 0.0) -> ScoreBound | None:
    """The score bound by what the reference agents reach; None where they do not help anybody (all
    at or below `start`), which says nothing about what can be reached.

    It lies above the upper 95 % bound of the strongest by the step from the weakest to the
    strongest, for an agent that is stronger once more by as much; by 10 points at least, the most
    that a single turn can bring. But no higher than half-way to the agent that was told everything:
    who has to find out what that one knows, and comes nearer, knows how the score is made.
    """
    means = {
        agent: fmean(reference[agent].values())
        for agent in REFERENCE_AGENTS
        if reference.get(agent)
    }
    if len(means) < len(REFERENCE_AGENTS) or max(means.values()) <= start:
        return None
    strongest = max(means, key=lambda agent: means[agent])
    reached = list(reference[strongest].values())
    bound = means[strongest] + (
        1.96 * stdev(reached) / math.sqrt(len(reached)) if len(reached) > 1 else 0.0
    )
    told = fmean(reference[PRIVILEGED_AGENT].values()) if reference.get(PRIVILEGED_AGENT) else None
    top = MAX_EMOTION if told is None else told
    step = means[strongest] - min(means.values())
    level = max(bound, min(bound + max(step, MAX_CHANGE), (bound + top) / 2))
    return ScoreBound(level, strongest, means[strongest], bound, told, len(reached))


def check_score(episodes: Sequence[Episode], limit: ScoreBound) -> AboveBound | None:
    """The evidence that an agent's episodes lie above the score bound; None when they do not."""
    reached = mean_final_by_persona(episodes)
    final = fmean(reached.values()) if reached else 0.0
    if final <= limit.level:
        return None
    valid = [episode for episode in episodes if episode.outcome is not Outcome.FAILED]
    best = sorted(valid, key=lambda episode: (-episode.final, len(episode.turns)))[:3]
    return AboveBound(
        final, limit, tuple((episode.persona, episode.seed, episode.final) for episode in best)
    )


def mean_final_by_persona(episodes: Sequence[Episode]) -> dict[str, float]:
    """Mean final emotion by persona; dialogues that failed have none."""
    reached: dict[str, list[int]] = {}
    for episode in episodes:
        if episode.outcome is not Outcome.FAILED:
            reached.setdefault(episode.persona, []).append(episode.final)
    return {persona: fmean(values) for persona, values in reached.items()}


def collect_reference_scores(
    episodes: Sequence[Episode], along: Mapping[str, Sequence[Episode]]
) -> ReferenceScores:
    """The reference scores of those people of the episodes, all under the same conditions, for whom
    there are any.

    The shipped ones where they know conditions and people by content; else from the honest agents
    that ran along, whose episodes are `along`.
    """
    people = {episode.persona: episode.persona_hash for episode in episodes}
    known = _load_shipped_scores().get(EpisodeConditions.of(episodes[0]), {})
    rungs = {
        persona: known[persona][1]
        for persona, its in people.items()
        if persona in known and known[persona][0] == its
    }
    if rungs:
        return {
            agent: {persona: row[agent] for persona, row in rungs.items()}
            for agent in (*REFERENCE_AGENTS, PRIVILEGED_AGENT)
        }
    reached = {
        agent: mean_final_by_persona(along.get(agent, ()))
        for agent in (*REFERENCE_AGENTS, PRIVILEGED_AGENT)
    }
    shared = [
        persona
        for persona in people
        if all(persona in reached[agent] for agent in REFERENCE_AGENTS)
    ]
    return {
        agent: {persona: of[persona] for persona in shared if persona in of}
        for agent, of in reached.items()
    }


@lru_cache(maxsize=1)
def _load_shipped_scores() -> dict[EpisodeConditions, dict[str, tuple[str, dict[str, float]]]]:
    """By conditions and persona: the persona's hash, and what each agent reaches with it."""
    text = (files("rlver_gym.environment") / SCORES_FILE).read_text(encoding="utf-8")
    plain: dict[str, Any] = json.loads(text)
    return {
        EpisodeConditions(*(world[field] for field in EpisodeConditions._fields)): {
            persona: (row[0], dict(zip(plain["agents"], row[1:], strict=True)))
            for persona, row in world["people"].items()
        }
        for world in plain["worlds"]
    }
