"""The core that every integration stands on."""

from integrations.drivers import Played

from rlver_gym.integrations.episodes import EpisodeHost, EpisodeSpec


def play(persona, seed, utterances, user="embedded"):
    episode = EpisodeHost(user).episode(EpisodeSpec(persona, seed))
    episode.begin()
    for utterance in utterances:
        if episode.done or episode.say(utterance).done:
            break
    texts = [one["content"] for one in episode.messages if one["role"] == "user"]
    rewards = episode.rewards if episode.valid else episode.rewards[:-1]
    return Played(rewards, texts, failed=not episode.valid)
