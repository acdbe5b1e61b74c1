"""What came of training on the strategy view: the learner beside those that do not learn, on people it has never met. Knows no learning library."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from rlver_gym.bench.discrete_policies import Chooser, fixed_choosers, held
from rlver_gym.bench.score import Score, paired, persona_finals, scores
from rlver_gym.environment.episode import Episode
from rlver_gym.io.interval import Interval

Algo = Literal["ppo", "recurrent-ppo"]
RANDOM = "random"


class Trial(NamedTuple):
    """Test dialogues of a learner and of everybody that it has to beat."""

    learner: str
    episodes: tuple[Episode, ...]
    scores: tuple[Score, ...]
    """The best first."""

    @property
    def best_fixed(self) -> str:
        """The strategy that does best all the time: chosen on the test people, so a harder measure than a learner could be asked for."""
        return next(score.agent for score in self.scores if score.agent not in (self.learner, RANDOM))

    def level(self, name: str) -> float:
        """The mean final emotion that somebody reaches."""
        return next(score.final.mean for score in self.scores if score.agent == name)

    def minus(self, name: str) -> Interval:
        """The learner's final emotion minus somebody's, by persona."""
        return paired(persona_finals(self.episodes, self.learner), persona_finals(self.episodes, name))

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "minus": {name: self.minus(name)._asdict() for name in (RANDOM, self.best_fixed)},
            "scores": [
                score._asdict() | {"final": score.final._asdict(), "to_best": score.to_best and score.to_best._asdict()}
                for score in self.scores
            ],
        }


def tried(
    learner: str,
    chooser: Chooser,
    personas: Sequence[str],
    seeds: int,
    finished: Callable[[int], object] = lambda dialogues: None,
) -> Trial:
    """Hold dialogues of the learner, random choice and every fixed strategy with each persona; `finished` is told how many are done."""
    episodes: list[Episode] = []
    for name, one in {learner: chooser, **fixed_choosers()}.items():
        for episode in held(name, one, personas, seeds):
            episodes.append(episode)
            finished(len(episodes))
    return Trial(learner, tuple(episodes), tuple(scores(episodes)))
