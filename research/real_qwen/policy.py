"""What the steps share: places of the corpus, replies to them by a model in a folder, and a folder
of the corpus' form for readers.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rlver_gym.corpora.corpus import Corpus, RatedReply
from rlver_gym.policy.models.agent import ReplyConfig
from rlver_gym.policy.models.model import load_model, load_tokenizer
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.models.sampler import ModelSampler, Prompt, Sampling

CORPUS = Path(__file__).parents[2] / "recordings" / "en"
MAX_TOKENS = 96
"""Of a reply."""
_AT_ONCE = 512
"""Replies: so many caches fit beside the model."""


def draw_places(split: str, count: int) -> list[RatedReply]:
    """A rated reply at each of `count` places of the split, evenly over its files."""
    every = list({one.place: one for one in Corpus(CORPUS / split).rated_replies()}.values())
    return every[:: max(1, len(every) // count)][:count]


def sample(
    folder: str, places: Sequence[RatedReply], count: int, temperature: float
) -> list[list[str]]:
    """`count` replies at each place, by what was said before."""
    is_gpu = torch.cuda.is_available()
    told = ReplyConfig.read(Path(folder))
    renderer = Renderer(load_tokenizer(folder), told.system, told.style)
    sampler = ModelSampler(load_model(folder, use_bf16=is_gpu), is_gpu)
    sampling, texts = Sampling(MAX_TOKENS, renderer.stop_ids, temperature), []
    prompts = [
        renderer.prompt(one.dialogue.user_lines, one.dialogue.earlier_utterances)
        for one in places
        for _ in range(count)
    ]
    asked = [Prompt(at, prompt, seed=at) for at, prompt in enumerate(prompts)]
    for at in range(0, len(asked), _AT_ONCE):
        found = sampler.sample(asked[at : at + _AT_ONCE], sampling)
        texts += [renderer.parse(one.ids).text for one in found]
        sampler.forget()
    return [texts[row : row + count] for row in range(0, len(texts), count)]


def write_folder(
    folder: Path, places: Sequence[RatedReply], replies: Sequence[list[dict[str, Any]]]
) -> None:
    """Moments of the corpus' form, each with its replies (`supporter`, `text`), without ratings.
    The split is the folder's name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines, names = [], set()
    for row, (place, said) in enumerate(zip(places, replies, strict=True)):
        users, earlier = place.dialogue.user_lines, place.dialogue.earlier_utterances
        name = f"{folder.name}-{row}"
        line: dict[str, Any] = {"id": name, "source": place.place, "persona": place.persona}
        line |= {"seed": 0, "opening": users[0]}
        line["turns"] = [{"agent": a, "user": u} for a, u in zip(earlier, users[1:], strict=True)]
        said = random.Random(row).sample(said, len(said))  # so that an id does not say who spoke
        line["replies"] = [{"id": f"{name}-{at}", **one} for at, one in enumerate(said)]
        names |= {one["supporter"] for one in said}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    kind = {"split": "test" if folder.name == "test" else "train", "kind": "machine"}
    who = [{"name": one, **kind, "brief": f"the model {one}"} for one in sorted(names)]
    (folder / "supporters.json").write_text(json.dumps(who, indent=1), encoding="utf-8")
    (folder / "moments.jsonl").write_text("".join(lines), encoding="utf-8")
    for empty in ("dialogues.jsonl", "ratings.jsonl"):
        (folder / empty).touch()
    print(f"{folder}: {len(lines)} moments")
