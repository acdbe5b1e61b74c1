"""verifiers plays dialogues with four people and keeps the traces, as `vf-eval rlver-empathy` does.

python examples/verifiers_eval.py [MODEL BASE_URL]      (needs: pip install '.[verifiers]')
Without a MODEL a test server on this machine answers, as an agent that listens. The same from a
shell: vf-eval rlver-empathy --model MODEL --client.base-url BASE_URL --env.taskset.split demo -n 4
-r 2 --no-push
"""

# pyright: reportMissingImports=false
import asyncio
import sys

from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.configs.cli.eval import EvalConfig

from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers


def evaluate(model: str, base_url: str) -> None:
    config = EvalConfig.model_validate(
        {
            "env": {"taskset": {"id": "rlver-empathy", "split": "demo", "seeds": [0]}},
            "model": model,
            "client": {"base_url": base_url, "api_key_var": "OPENAI_API_KEY"},
            "select": {"limit": 4},
            "num_rollouts": 2,
            "output_dir": "runs/verifiers",
            "push": False,
            "rich": None,
        }
    )
    for episode in asyncio.run(run_eval(config)):
        (trace,) = episode.traces
        score = f"{trace.reward:.2f}" if trace.ok else trace.last_error
        print(f"{trace.task.data.name:32} {score}   {trace.info.get('turn_rewards')}")
    print(f"Traces: {config.output_dir / config.run.dir}")


def main() -> None:
    if len(sys.argv) == 3:
        evaluate(*sys.argv[1:])
        return
    with ChatServer(EmbeddedAnswers()) as server:
        evaluate("listener", server.base_url)


if __name__ == "__main__":
    main()
