"""What came of training on the strategy view: the learner beside those that do not learn, on people it has never met. Knows no learning library."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from rlver_gym.bench.discrete_policies import PolicyFactory, make_fixed_policies, run_episodes
from rlver_gym.bench.score import Score, compute_paired_difference, persona_finals, score_agents
from rlver_gym.environment.episode import Episode
from rlver_gym.io.interval import Interval

Algo = Literal["ppo", "recurrent-ppo"]
RANDOM = "random"


class PolicyEvaluation(NamedTuple):
    """Test dialogues of a learner and of everybody that it has to beat."""

    learner: str
    episodes: tuple[Episode, ...]
    scores: tuple[Score, ...]
    """The best first."""

    @property
    def best_fixed_strategy(self) -> str:
        """The strategy that does best all the time: chosen on the test people, so a harder measure than a learner could be asked for."""
        return next(score.agent for score in self.scores if score.agent not in (self.learner, RANDOM))

    def mean_final(self, name: str) -> float:
        """The mean final emotion that somebody reaches."""
        return next(score.final.mean for score in self.scores if score.agent == name)

    def difference_to(self, name: str) -> Interval:
        """The learner's final emotion minus somebody's, by persona."""
        return compute_paired_difference(
            persona_finals(self.episodes, self.learner), persona_finals(self.episodes, name)
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "minus": {name: self.difference_to(name)._asdict() for name in (RANDOM, self.best_fixed_strategy)},
            "scores": [
                score._asdict() | {"final": score.final._asdict(), "to_best": score.to_best and score.to_best._asdict()}
                for score in self.scores
            ],
        }


def evaluate_policy(
    learner: str,
    make_policy: PolicyFactory,
    personas: Sequence[str],
    seeds: int,
    on_progress: Callable[[int], object] = lambda dialogues: None,
) -> PolicyEvaluation:
    """Run dialogues of the learner, random choice and every fixed strategy with each persona; `on_progress` gets the number of dialogues so far."""
    episodes: list[Episode] = []
    for name, one in {learner: make_policy, **make_fixed_policies()}.items():
        for episode in run_episodes(name, one, personas, seeds):
            episodes.append(episode)
            on_progress(len(episodes))
    return PolicyEvaluation(learner, tuple(episodes), tuple(score_agents(episodes)))
