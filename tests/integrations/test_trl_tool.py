"""TRL's environment_factory: the dialogue as a tool that a policy calls, through TRL's own loop."""

import json
from functools import partial

import torch
from tiny_trainer import TOOL_TEMPLATE, TRL_MARKS, batch_of, make_trainer

from rlver_gym.integrations.trl_tool import EmpathyTool

pytestmark = TRL_MARKS


def test_trl_lets_a_policy_speak_through_the_tool(tmp_path):
    trainer = make_trainer(
        tmp_path,
        rewards=[],
        factory=partial(EmpathyTool, user="embedded"),
        chat_template=TOOL_TEMPLATE,
        max_tool_calling_iterations=3,
    )
    utterances = ["You sat with him all night.", "What was he like?"]
    trainer.model.generate = Calling(trainer.processing_class, utterances)
    rows = batch_of(trainer)
    scored = trainer._generate_and_score_completions(rows)

    tool = EmpathyTool()
    for number, row in enumerate(rows):
        heard = [tool.reset(prompt=row["prompt"]), *map(tool.say, utterances)]
        ids = [*scored["prompt_ids"][number].tolist(), *scored["completion_ids"][number].tolist()]
        text = trainer.processing_class.decode(ids)
        assert all(words in text for words in heard)
        assert trainer.environments[number].get_reward() == tool.get_reward()
    assert "EmpathyTool" in trainer.reward_func_names


class Calling:
    """In place of a model: calls the tool with one utterance after the other, then says goodbye."""

    def __init__(self, tokenizer, utterances):
        self.tokenizer = tokenizer
        self.calls = [
            json.dumps({"name": "say", "arguments": {"message": one}}) for one in utterances
        ]

    def __call__(self, input_ids, **rest):
        text = f"<tool_call>\n{self.calls.pop(0)}\n</tool_call>" if self.calls else "Goodbye."
        new = torch.tensor(self.tokenizer(f"{text}<|im_end|>")["input_ids"])
        return torch.cat([input_ids, new.expand(len(input_ids), -1)], dim=1)
