"""All commands, with a short use of each."""

import typer

from rlver_gym.cli.root import app

PERSONA = "gus-the-flatmate"
USES = {
    "talk": ["--persona", PERSONA],
    "appraise": ["--persona", PERSONA, "You carried it alone."],
    "personas list": ["--split", "demo"],
    "personas show": [PERSONA],
    "personas check": ["none.yaml"],
    "personas new": ["ruth-and-the-choir"],
    "personas pair": ["."],
    "personas import": ["none.jsonl", "cards"],
    "personas generate": ["library", "--from", "none.txt", "--model", "openai:m"],
    "personas schema": ["lean"],
    "envs list": [],
    "envs show": ["RLVER-Empathy-v0"],
    "serve": ["--port", "-1"],
    "bench": ["--persona", PERSONA, "--agent", "human", "--seeds", "1", "--out", "held"],
    "report": ["run"],
    "verify": ["run"],
    "studio": ["none"],
    "export": ["run", "--to", "sft"],
    "rescore": ["run", "--user", "embedded"],
    "judge": ["run", "--judge", "offline"],
    "strategies": ["run"],
    "calibrate": ["--user", "embedded"],
    "cache stats": ["none.sqlite"],
    "cache prune": ["none.sqlite", "--failures"],
    "cache export": ["none.sqlite"],
    "redteam": ["--attack", "none"],
    "sample": ["tiny", "--at", "none", "--out", "drawn"],
    "rate": ["none", "--user", "embedded"],
    "sheets write": ["none", "--recorded", "none", "--out", "sheets"],
    "sheets read": ["none", "none"],
    "sft": ["--model", "tiny", "--data", "none.jsonl"],
    "train": ["--config", "none.yaml"],
}
"""What each command is asked for: the work itself, or in words why it cannot be done."""


def _list_commands(group, path=""):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _list_commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


COMMANDS = dict(_list_commands(typer.main.get_command(app)))
"""All of them by their words."""
