"""The core that every integration stands on."""

from collections.abc import Sequence

from rlver_gym.integrations.episodes import EpisodeHost, EpisodeSpec


def play(persona: str, seed: int, utterances: Sequence[str]) -> list[float]:
    """The rewards of an episode, until it ends or nothing is left to say."""
    episode = EpisodeHost().episode(EpisodeSpec(persona, seed))
    episode.begin()
    for utterance in utterances:
        if episode.say(utterance).done:
            break
    return episode.rewards
