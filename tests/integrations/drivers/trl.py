"""TRL: a `rollout_func` of its GRPOTrainer, with a sampler that says the utterances in tokens."""

import warnings
from pathlib import Path

from integrations.drivers import Played
from tiny_trainer import Reciting, make_trainer, tiny_model

from rlver_gym.integrations.trl import Rollout, prompt_rows


def play(persona, seed, utterances, user="embedded"):
    rollout = Rollout(sampler=Reciting(utterances), user=user)
    rows = prompt_rows([persona], [seed])
    with warnings.catch_warnings():  # TRL and transformers warn of each other
        warnings.simplefilter("ignore")
        trainer = make_trainer(Path(tiny_model()) / "runs", rows=rows, rollout=rollout)
    columns = rollout([rows[0]["prompt"]] * 2, trainer)
    rewards, second = columns["turn_rewards"]
    assert rewards == second, "the members of a group"
    failed = columns["emotion"][0] is None
    if failed:
        assert not any(map(any, columns["env_mask"])), "nothing to learn from"
        rewards = rewards[:-1]
    texts = [one["content"] for one in columns["dialogue"][0] if one["role"] == "user"]
    return Played(rewards, texts, failed)
