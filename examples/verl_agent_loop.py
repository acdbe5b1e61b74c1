"""verl's agent loop without a GPU: verl's own worker plays a group of dialogues, with a policy of
stock phrases in place of its LLM server; what its trainer gets, turn by turn.

python examples/verl_agent_loop.py     (needs: pip install '.[verl]')
To train: the rows as parquet, the YAML as below, and verl's `main_ppo` on GPUs.
"""

# pyright: reportMissingImports=false
import asyncio
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hydra import compose, initialize_config_module
from verl import DataProto
from verl.experimental.agent_loop import AgentLoopWorker
from verl.utils.dataset.rl_dataset import collate_fn
from verl.workers.rollout.replica import TokenOutput

from rlver_gym.agents.strategies import PHRASES
from rlver_gym.integrations.episodes import list_specs
from rlver_gym.integrations.verl import dataset_rows
from rlver_gym.policy.models.local_models import find_local_model
from rlver_gym.policy.models.model import load_tokenizer

LOOP = "[{name: rlver_empathy, _target_: rlver_gym.integrations.verl.EmpathyAgentLoop}]"
ROLLOUT = "actor_rollout_ref.rollout"


class StockPhrases:
    async def generate(self, request_id: str, **asked: Any) -> TokenOutput:
        phrase = random.choice((*PHRASES["listening"], *PHRASES["asking"], "Just cheer up."))
        return TokenOutput(token_ids=load_tokenizer("tiny").encode(f"{phrase}<|im_end|>"))


def main(folder: Path, group_size: int = 4) -> None:
    (folder / "agent_loop.yaml").write_text(LOOP)
    settings = [
        f"actor_rollout_ref.model.path={find_local_model('tiny')}",
        f"{ROLLOUT}.name=vllm",
        f"{ROLLOUT}.agent.agent_loop_config_path={folder / 'agent_loop.yaml'}",
        "data.max_response_length=4096",
    ]
    with initialize_config_module("verl.trainer.config", version_base=None):
        worker = AgentLoopWorker(compose("ppo_trainer", settings), StockPhrases())
    (row,) = dataset_rows(list_specs(seeds=[0])[:1])
    group = collate_fn([{**row, "raw_prompt": row.pop("prompt")}] * group_size)
    batch = asyncio.run(worker.generate_sequences(DataProto.from_single_dict(group)))
    turn_scores, masks = batch.non_tensor_batch["turn_scores"], batch.batch["response_mask"]
    for scores, mask in zip(turn_scores, masks, strict=True):
        print(f"turn rewards {scores}, {int(mask.sum())} tokens to learn from")


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        main(Path(place))
