"""inspect_ai: `eval` on one sample, with a mock model that says the utterances."""

import gc
import warnings
from tempfile import TemporaryDirectory

from inspect_ai import eval as run_eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from integrations.drivers import Played

from rlver_gym.integrations.inspect_ai import DialogueRecord, rlver_empathy


def play(persona, seed, utterances, user="embedded"):

    def speak(messages, *_):
        turn = sum(one.role == "assistant" for one in messages)
        output = ModelOutput.from_content("mockllm", utterances[turn])
        output.usage = ModelUsage()  # without it, a table of tokens would be downloaded
        return output

    with TemporaryDirectory() as log_dir, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The 'initial' parameter", DeprecationWarning)
        warnings.filterwarnings("ignore", "Unclosed <MemoryObject", ResourceWarning)
        (log,) = run_eval(
            rlver_empathy(split="all", seeds=[seed], user=user),
            model=get_model("mockllm/model", custom_outputs=speak),
            sample_id=f"{persona}_{seed}",
            turn_limit=len(utterances),
            log_dir=log_dir,
            display="none",
        )
        assert log.status == "success", log.error
        assert log.samples
        record = log.samples[0].store_as(DialogueRecord)
        gc.collect()  # inspect_ai leaves streams open, which warn when they are collected
    failed = record.outcome == "failed"
    texts = [one["content"] for one in record.transcript if one["role"] == "user"]
    return Played(record.rewards[:-1] if failed else record.rewards, texts, failed)
