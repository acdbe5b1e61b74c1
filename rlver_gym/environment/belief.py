"""Belief: the agent says what it takes the person to feel and need, and is told how right."""

import re
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from rlver_gym.core.persona import NEEDS, HiddenNeed
from rlver_gym.environment.spaces import Utterance
from rlver_gym.util.errors import UtteranceError

_TAG = re.compile(r"^\s*\[belief\b([^\]\n]*)\]\s*", re.IGNORECASE)
_EMOTION = re.compile(r"\bemotion\s*[=:]\s*(\d{1,3})\b", re.IGNORECASE)
_NEED = re.compile(r"\b([a-z_]+)\s*(?:[=:]\s*(\d*\.?\d+))?", re.IGNORECASE)
_MOST_WEIGHT = 1e6
FORM = "[belief emotion=35 need=praise:0.7,listening:0.3] What was that like for you?"


class _StatedBelief(NamedTuple):
    """The emotion from 0 to 100, and a probability for each need; None for what was not said."""

    emotion: int | None
    needs: dict[HiddenNeed, float] | None


def split_belief(utterance: str) -> tuple[_StatedBelief, str]:
    """The belief of a tagged utterance (see FORM), and the words that the person hears."""
    tag = _TAG.match(utterance)
    if tag is None:
        return _StatedBelief(None, None), utterance
    inside, words = tag.group(1), utterance[tag.end() :]
    said = _EMOTION.search(inside)
    emotion = min(100, int(said.group(1))) if said else None
    weights: dict[HiddenNeed, float] = {}
    for name, weight in _NEED.findall(inside.lower().partition("need")[2]):
        if name in NEEDS:
            weights[HiddenNeed(name)] = min(_MOST_WEIGHT, float(weight or 1))
    total = sum(weights.values())
    needs = {need: weight / total for need, weight in weights.items()} if total > 0 else None
    return _StatedBelief(emotion, needs), words


def compute_brier_score(needs: dict[HiddenNeed, float], true: HiddenNeed) -> float:
    """Sum of squared errors: 0 for certain and right, 0.875 for an even guess (Brier 1950)."""
    return sum((needs.get(need, 0.0) - (need == true)) ** 2 for need in NEEDS)


class BeliefChannel(gym.Wrapper[str, Any, str, str], RecordConstructorArgs):
    """An `EmpathyEnv` whose agent may state a belief before it speaks.

    The action is text, which may begin with a tag (see `FORM`), or a dict with `utterance`,
    `emotion` (0 to 100, or -1 for none) and `need` (an index of `NEEDS`, or -1). The person hears
    the words alone. info["belief"] then holds what was `stated`, `emotion_error` (points, against
    the emotion before the words) and `brier` and `is_right` of the need; each None where nothing
    was said. With `weight`, `weight * (0.875 - brier)` is added to the reward of a turn with a
    stated need: nothing for an even guess.
    """

    def __init__(self, env: gym.Env[str, str], weight: float = 0.0, as_dict: bool = False) -> None:
        """`weight`: points for a belief, 0 by default. `as_dict`: the action space is a Dict."""
        RecordConstructorArgs.__init__(self, weight=weight, as_dict=as_dict)
        gym.Wrapper.__init__(self, env)
        self.weight = weight
        if as_dict:
            words = self._inner.card.max_utterance_chars
            self.action_space = spaces.Dict(
                {
                    "utterance": Utterance(words),
                    "emotion": spaces.Discrete(102, start=-1),
                    "need": spaces.Discrete(len(NEEDS) + 1, start=-1),
                }
            )

    @property
    def _inner(self) -> Any:
        return self.env.unwrapped

    def step(self, action: Any) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Say something; UtteranceError for a dict without an utterance."""
        stated, words = (
            _parse_dict_action(action) if isinstance(action, dict) else split_belief(action)
        )
        before, true = self._inner.session.emotion, self._inner.session.scene.persona.need
        observation, reward, terminated, truncated, info = self.env.step(words)
        belief = _score_belief(stated, before, true)
        if self.weight and belief["brier"] is not None and not truncated:
            reward = float(reward) + self.weight * (0.875 - belief["brier"])
        return observation, reward, terminated, truncated, {**info, "belief": belief}


def _parse_dict_action(action: dict[str, Any]) -> tuple[_StatedBelief, str]:
    if not isinstance(action.get("utterance"), str):
        raise UtteranceError(
            "a belief's action needs an utterance: {'utterance': 'text', 'emotion': 35, 'need': 3}"
        )
    emotion, need = int(action.get("emotion", -1)), int(action.get("need", -1))
    needs = {NEEDS[need]: 1.0} if 0 <= need < len(NEEDS) else None
    return _StatedBelief(emotion if 0 <= emotion <= 100 else None, needs), action["utterance"]


def _score_belief(stated: _StatedBelief, emotion: int, true: HiddenNeed) -> dict[str, Any]:
    needs = stated.needs
    likeliest = max(needs, key=needs.__getitem__) if needs else None
    return {
        "stated": {"emotion": stated.emotion, "needs": needs},
        "emotion_error": None if stated.emotion is None else abs(stated.emotion - emotion),
        "brier": None if needs is None else compute_brier_score(needs, true),
        "is_right": None if likeliest is None else likeliest == true,
    }
