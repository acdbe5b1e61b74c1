"""Checkpoints of a chat model with the 24 test people: the same starts, moods and draws for each,
so that they can be compared person by person.

python benchmarks/held_out.py base=smollm2 sft=runs/sft grpo=runs/grpo/model [--against sft]
    [--reader BASE] [--transcripts FILE.md] [--out DIALOGUES.jsonl]
"""

import argparse
import json
from pathlib import Path
from random import Random
from typing import NamedTuple

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.user import Scene, SentientUser
from rlver_gym.environment.episode import Episode
from rlver_gym.environment.rescore import reappraise
from rlver_gym.library.personas import library
from rlver_gym.policy.evaluate import make_distinct_specs
from rlver_gym.policy.models.agent import ReplyConfig
from rlver_gym.policy.models.model import load_model, load_tokenizer
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.models.rollout import collect_rollouts
from rlver_gym.policy.models.sampler import ModelSampler, Sampling
from rlver_gym.users import make_user
from rlver_gym.util.interval import bootstrap
from rlver_gym.util.terminal import escape_markdown

ENV, MAX_TOKENS, DRAW = "SAGE-Sentient-v0", 2048, 7


class Held(NamedTuple):
    """The dialogues of one checkpoint, in the order of the people, and the share of its replies
    that were cut.
    """

    episodes: list[Episode]
    cut: float


def main() -> None:
    """Hold the dialogues, and print what they come to.

    Intervals are 95 % bootstrap intervals over people.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL")
    parser.add_argument(
        "--against", help="the NAME that the others are compared with; default: the first"
    )
    parser.add_argument("--people", type=int, default=24)
    parser.add_argument("--reply-tokens", type=int, default=80)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument(
        "--reader",
        metavar="BASE",
        help="also score the same dialogues by the reader, with its base",
    )
    parser.add_argument(
        "--transcripts",
        type=Path,
        help="write three people's dialogues, drawn by a seed, to this .md file",
    )
    parser.add_argument("--out", type=Path, help="write all dialogues to this .jsonl file")
    asked = parser.parse_args()
    if wrong := [one for one in asked.models if "=" not in one]:
        parser.error(f"{wrong[0]}: must be NAME=MODEL, such as sft=runs/sft")
    paths = dict(one.split("=", 1) for one in asked.models)
    if asked.against not in (None, *paths):
        parser.error(f"--against {asked.against}: is none of {', '.join(paths)}")
    held = {name: hold(path, asked) for name, path in paths.items()}
    first = asked.against or next(iter(paths))
    scores = {
        "embedded": {
            name: [float(one.final) for one in found.episodes] for name, found in held.items()
        }
    }
    if asked.reader:
        reader = make_user("reader", base=asked.reader)
        scores["reader"] = {
            name: [rescore(one, reader) for one in found.episodes] for name, found in held.items()
        }
    table = Table(
        "checkpoint", "cut", *(f"{user} [95 %], over {first}" for user in scores), box=None
    )
    for name, found in held.items():
        table.add_row(
            name, f"{found.cut:.0%}", *(format_score(by[name], by[first]) for by in scores.values())
        )
    Console(width=140).print(table)
    if asked.transcripts:
        asked.transcripts.write_text(
            transcripts({name: found.episodes for name, found in held.items()}), encoding="utf-8"
        )
    if asked.out:
        rows = [
            {"checkpoint": name, **plain(one)}
            for name, found in held.items()
            for one in found.episodes
        ]
        asked.out.write_text(
            "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8"
        )


def hold(path: str, asked: argparse.Namespace) -> Held:
    """The dialogues of the model in this folder, or of this name."""
    told = ReplyConfig.read(Path(path))
    renderer = Renderer(load_tokenizer(path), told.system, told.style)
    use_bf16 = asked.dtype == "bfloat16"
    sampler = ModelSampler(load_model(path), use_bf16, copied=use_bf16)
    envs = [gym.make(ENV) for _ in range(asked.people)]
    played = collect_rollouts(
        sampler,
        renderer,
        Sampling(asked.reply_tokens, renderer.stop_ids, asked.temperature),
        envs,
        make_distinct_specs(envs[0], len(envs)),
        draw_seed=DRAW,
        max_tokens=MAX_TOKENS,
    )
    cut = np.concatenate([one.cut_N for one in played]).mean()
    return Held([Episode.of(env.unwrapped.session, path) for env in envs], float(cut))  # pyright: ignore[reportAttributeAccessIssue]


def rescore(episode: Episode, user: SentientUser) -> float:
    """The last emotion of the same words with another user, who may be content or gone before they
    end.
    """
    card = env_card(ENV)
    scene = Scene(library().get(episode.persona), card, episode.seed)
    felt = reappraise(user, scene, Dialogue(episode.opening, episode.turns))
    return card.final_emotion(turn.appraisal.change for turn in felt)


def format_score(mine: list[float], others: list[float]) -> str:
    """The mean, and the mean difference person by person, with their intervals."""
    here, gain = bootstrap(np.array(mine)), bootstrap(np.array(mine) - np.array(others))
    over = "" if mine is others else f"  {gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]"
    return f"{here.mean:.1f} [{here.low:.1f}, {here.high:.1f}]{over}"


def transcripts(episodes: dict[str, list[Episode]], people: int = 3) -> str:
    """Whole dialogues with people whom a seed draws."""
    number = len(next(iter(episodes.values())))
    parts = []
    for at in sorted(Random(0).sample(range(number), min(people, number))):
        for name, found in episodes.items():
            one = found[at]
            parts.append(
                f"## {one.persona}: {name}, final emotion {one.final}\n\n**Person:**"
                f" {escape_markdown(one.opening)}"
            )
            parts += [
                f"> {escape_markdown(turn.utterance)}\n\n**Person:** {escape_markdown(turn.reply)}"
                for turn in one.turns
            ]
    return "\n\n".join(parts) + "\n"


def plain(episode: Episode) -> dict[str, object]:
    """What a dialogue was, for other programs."""
    turns = [
        {"agent": turn.utterance, "person": turn.reply, "emotion": turn.emotion}
        for turn in episode.turns
    ]
    return {
        "persona": episode.persona,
        "seed": episode.seed,
        "opening": episode.opening,
        "turns": turns,
    }


if __name__ == "__main__":
    main()
