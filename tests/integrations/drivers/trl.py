"""TRL: a `rollout_func` of its GRPOTrainer, with a sampler that says the utterances in tokens."""

import warnings
from collections.abc import Sequence
from pathlib import Path

from tiny_trainer import Reciting, make_trainer, tiny_model

from rlver_gym.integrations.trl import Rollout, prompt_rows


def play(persona: str, seed: int, utterances: Sequence[str]) -> list[float]:
    """The rewards of an episode, until it ends or nothing is left to say."""
    rollout = Rollout(sampler=Reciting(utterances))
    rows = prompt_rows([persona], [seed])
    with warnings.catch_warnings():  # TRL and transformers warn of each other
        warnings.simplefilter("ignore")
        trainer = make_trainer(Path(tiny_model()) / "runs", rows=rows, rollout=rollout)
    columns = rollout([rows[0]["prompt"]] * 2, trainer)
    first, second = columns["turn_rewards"]
    assert first == second, "the members of a group"
    return first
