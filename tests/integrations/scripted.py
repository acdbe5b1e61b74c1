"""What tests and drivers say, and what the core alone gives for it."""

import json
import re
from typing import Any

import gymnasium as gym

from rlver_gym import EmpathyEnv
from rlver_gym.integrations.episodes import EpisodeHost, EpisodeSpec

UTTERANCES = ("I'm listening. What happened?", "That sounds exhausting.", "What would help you?")
LONG = (
    "I'm listening. What happened?",
    "That sounds exhausting, and you carried it alone.",
    "What did they say to you then?",
    "Just cheer up.",
    "I am sorry. That was careless of me. What would help you right now?",
    "You did a lot there, and nobody thanked you for it.",
    "What would you want them to understand?",
    "Thank you for telling me all this.",
)
"""For the eight turns of the environment."""
RUDE = "Shut up, you are pathetic. Nobody cares."


def hold_episode(persona, seed, utterances=(), **options):
    """An episode without a framework, until it ends or nothing is left to say."""
    episode = EpisodeHost(**options).episode(EpisodeSpec(persona, seed))
    episode.begin()
    for one in utterances:
        if episode.say(one).done:
            break
    return episode


def find_private(sent, persona, seed, utterances):
    """What only the person knows of what a server sent; AssertionError without the replies."""
    reference = EmpathyEnv(persona=persona, info="privileged")
    infos = [reference.reset(seed=seed)[1], *(reference.step(one)[-1] for one in utterances)]
    scene, turns = reference.session.scene, reference.session.dialogue.turns
    assert all(json.dumps(turn.reply, ensure_ascii=False) in sent for turn in turns)
    person, situation = scene.persona.person, scene.persona.situation
    private = {person.habits, person.way_of_speaking, infos[0]["hidden_need"]}
    private |= {one["thought"] for one in infos}
    private |= {reason["note"] for one in infos for reason in one["reasons"]}
    private |= {anchor.text for anchor in situation.anchors.unspoken}
    assert len(private) > 10
    names = {*EmpathyEnv.privileged_info, "outcome", "persona_card"}
    return {one for one in private if one and one in sent} | (
        names & set(re.findall(r'"(\w+)":', sent))
    )


class SayUtterance(gym.Wrapper[str, Any, str, Any]):
    """Action i says the i-th utterance."""

    def __init__(self, env, utterances):
        super().__init__(env)
        self.utterances = utterances
        self.action_space = gym.spaces.Discrete(len(utterances))

    def step(self, action):
        return self.env.step(self.utterances[int(action)])
