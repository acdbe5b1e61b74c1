"""From episodes to scores with intervals over personas: dialogues with one are alike."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rlver_gym.agents import PRIVILEGED_AGENTS
from rlver_gym.bench.plan import Planned
from rlver_gym.core.emotion import MIN_EMOTION, Outcome
from rlver_gym.environment.alarms import strip_run_suffix
from rlver_gym.environment.episode import Episode
from rlver_gym.util.groups import group, mean_by
from rlver_gym.util.interval import Interval, bootstrap, mean_or_nan
from rlver_gym.util.json_text import to_plain


class Score(NamedTuple):
    """How one agent did, in points and percent; what failed or is missing, at worst alone."""

    agent: str
    final: Interval
    content: float
    left: float
    turns: float
    needs: dict[str, float]
    to_best: Interval | None
    """Mean difference to the best competitor over people of both; None for that one itself."""
    episodes: int
    failed: int
    failed_by_agent: int
    """Those in which the agent had no word to say; in the others the user failed."""
    missing: int
    at_worst: Interval
    """The bound that ranks: as `final`, with an emotion of 0 for each that failed or is missing."""
    read: Interval | None = None
    """The same by whoever read the dialogues again, whose order is then that of the agents."""

    @property
    def num_ended(self) -> int:
        """How many dialogues have an end that counts."""
        return self.episodes - self.failed

    @property
    def failed_by_user(self) -> int:
        return self.failed - self.failed_by_agent


def score_agents(episodes: Sequence[Episode], planned: Planned | None = None) -> list[Score]:
    """One score an agent, the best at worst first. `planned`: for what is missing."""
    by_agent: dict[str, list[Episode]] = {agent: [] for agent in planned.agents} if planned else {}
    by_agent |= group((episode.agent, episode) for episode in episodes)
    at_worst = {agent: _compute_worst_case_means(own, planned) for agent, own in by_agent.items()}
    finals = {agent: _compute_persona_means(own) for agent, own in by_agent.items()}
    at_worst_mean = {agent: mean_or_nan(means.values()) for agent, means in at_worst.items()}
    ranked = sorted(by_agent, key=lambda agent: (not finals[agent], -at_worst_mean[agent]))
    competitors = [agent for agent in ranked if strip_run_suffix(agent) not in PRIVILEGED_AGENTS]
    best = (competitors or ranked)[0] if ranked else ""
    most = len(planned.personas) * planned.seeds if planned else 0

    def score(agent: str) -> Score:
        episodes, worst = by_agent[agent], at_worst[agent]
        ended = drop_failed(episodes)
        by_need = group((episode.need, episode) for episode in ended)
        means = {
            need: mean_or_nan(_compute_persona_means(by_need[need]).values())
            for need in sorted(by_need)
        }
        to_best = None if agent == best else compute_paired_difference(worst, at_worst[best])
        return Score(
            agent=agent,
            final=bootstrap(finals[agent].values()),
            content=_percent_with_outcome(ended, Outcome.CONTENT),
            left=_percent_with_outcome(ended, Outcome.LEFT),
            turns=sum(len(episode.turns) for episode in ended) / max(1, len(ended)),
            needs=means,
            to_best=to_best,
            episodes=len(episodes),
            failed=len(episodes) - len(ended),
            failed_by_agent=sum(episode.failed_by == "agent" for episode in episodes),
            missing=max(0, most - len(episodes)),
            at_worst=bootstrap(worst.values() or [MIN_EMOTION]),
        )

    return [score(agent) for agent in ranked]


def count_failed_by(episodes: Iterable[Episode]) -> dict[str, dict[str, int]]:
    """By agent, how many dialogues failed by the agent and by the user, where any did."""
    failed = Counter((line.agent, line.failed_by) for line in episodes if line.failed_by)
    return {
        agent: {"agent": failed[agent, "agent"], "user": failed[agent, "user"]}
        for agent in dict.fromkeys(agent for agent, _ in failed)
    }


def count_failures(episodes: Iterable[Episode]) -> dict[str, int]:
    """Why dialogues failed, and how many did so: the most frequent first."""
    failed = (line.turns[-1].appraisal for line in episodes if line.outcome is Outcome.FAILED)
    return dict(
        Counter(reason.note for line in failed for reason in line.reasons[:1]).most_common()
    )


def score_to_json(score: Score) -> dict[str, Any]:
    """For JSON: an interval is a list of mean, low and high."""
    values = {**score._asdict(), "failed_by_user": score.failed_by_user}.items()
    return to_plain({name: list(x) if isinstance(x, Interval) else x for name, x in values})


def compute_paired_difference(ours: dict[str, float], theirs: dict[str, float]) -> Interval:
    return bootstrap(ours[persona] - theirs[persona] for persona in ours if persona in theirs)


def compute_persona_finals(episodes: Sequence[Episode], agent: str) -> dict[str, float]:
    return _compute_persona_means([x for x in episodes if x.agent == agent])


def compute_worst_case_finals(episodes: Sequence[Episode], agent: str) -> dict[str, float]:
    return _compute_worst_case_means([x for x in episodes if x.agent == agent])


def _compute_persona_means(episodes: Sequence[Episode]) -> dict[str, float]:
    return mean_by(sorted((episode.persona, episode.final) for episode in drop_failed(episodes)))


def _compute_worst_case_means(
    episodes: Sequence[Episode], planned: Planned | None = None
) -> dict[str, float]:
    """By persona, with the lowest emotion for what failed or is missing."""
    if not episodes:
        return {}
    finals: dict[str, list[int]] = {persona: [] for persona in planned.personas} if planned else {}
    for episode in episodes:
        final = MIN_EMOTION if episode.failed_by else episode.final
        finals.setdefault(episode.persona, []).append(final)
    count = planned.seeds if planned else 1
    return {
        persona: sum(values) / max(count, len(values)) for persona, values in sorted(finals.items())
    }


def drop_failed(episodes: Sequence[Episode]) -> list[Episode]:
    return [episode for episode in episodes if episode.outcome is not Outcome.FAILED]


def _percent_with_outcome(episodes: Sequence[Episode], outcome: Outcome) -> float:
    return 100 * sum(episode.outcome is outcome for episode in episodes) / max(1, len(episodes))
