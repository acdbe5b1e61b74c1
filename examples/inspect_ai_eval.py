"""An eval of inspect_ai, offline: the listener of the benchmark as its model, with the demo
personas; the score of each, and the transcript of the best.

python examples/inspect_ai_eval.py [LOG_DIR]     (needs: pip install '.[inspect-ai]')
With a model of yours: inspect eval rlver_gym/rlver_empathy --model openai/MODEL -T split=test
"""

# pyright: reportMissingImports=false
import sys
from tempfile import TemporaryDirectory
from typing import Any

from inspect_ai import eval as run_eval
from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model

from rlver_gym.agents.baselines import Listener
from rlver_gym.core.dialogue import Message
from rlver_gym.integrations.inspect_ai import DialogueRecord, rlver_empathy


def listen(messages: list[ChatMessage], *_: Any) -> ModelOutput:
    """A scripted model: it sees the messages that a language model would see."""
    dialogue = [
        Message("agent" if one.role == "assistant" else "user", one.text)
        for one in messages
        if one.role != "system"
    ]
    output = ModelOutput.from_content("mockllm", Listener(seed=0).reply(dialogue))
    output.usage = ModelUsage()  # else inspect_ai counts tokens, for which it downloads a table
    return output


def main(log_dir: str) -> None:
    (log,) = run_eval(
        rlver_empathy(split="demo"),
        model=get_model("mockllm/model", custom_outputs=listen),
        log_dir=log_dir,
        display="none",
    )
    assert log.results, log.error
    records = {one.id: one.store_as(DialogueRecord) for one in log.samples or []}
    for name, record in records.items():
        print(f"{name:28s} emotion {record.emotion:3d}  {record.outcome:12s} {record.rewards}")
    metrics = log.results.scores[0].metrics
    print("\n" + "  ".join(f"{name} {metric.value:.3f}" for name, metric in metrics.items()) + "\n")
    best = max(records.values(), key=lambda record: record.emotion or 0)
    for message in best.transcript:
        print(f"{message['role']:10s} {message['content']}")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else folder)
