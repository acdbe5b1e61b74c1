"""Replies of a policy to given moments, as a corpus that readers can rate."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from rlver_gym.corpora.corpus import (
    DIALOGUES,
    MOMENTS,
    SUPPORTERS,
    Candidate,
    Corpus,
    DialogueTurn,
    MomentLine,
    RatedReply,
    Supporter,
)
from rlver_gym.policy.models.agent import ReplyConfig
from rlver_gym.policy.models.model import load_model, load_tokenizer, uses_bf16
from rlver_gym.policy.models.precision import Dtype
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.models.sampler import ModelSampler, Prompt, Sampling
from rlver_gym.policy.rated import group_by_moment
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.field_errors import explain_invalid
from rlver_gym.util.folders import is_taken, write_folder

_AT_ONCE = 64
"""Replies that are drawn side by side."""


def choose_moments(corpus: Corpus, people: Sequence[str], count: int) -> list[RatedReply]:
    """A reply at each of `count` moments at most, spread evenly; TrainingError for none, or for
    somebody whom the corpus has none with.
    """
    moments = [replies[0] for replies in group_by_moment(corpus.replies())]
    if unknown := sorted({*people} - {moment.persona for moment in moments}):
        raise TrainingError(f"the corpus holds no moment with {', '.join(unknown)}. Name others.")
    theirs = [moment for moment in moments if not people or moment.persona in people]
    if not theirs:
        raise TrainingError("the corpus holds no moment. Name another with --at.")
    chosen = min(count, len(theirs))
    return [theirs[at * len(theirs) // chosen] for at in range(chosen)]


def write_samples(
    model: str,
    corpus: Corpus,
    moments: Sequence[RatedReply],
    out: Path,
    *,
    name: str,
    replies: int,
    temperature: float,
    max_reply_tokens: int,
    system: str | None = None,
    dtype: Dtype = "auto",
    seed: int = 0,
) -> Iterator[int]:
    """Draw so many replies at each moment and write them as a corpus without ratings; yields how
    many moments are done. TrainingError for a model that cannot be used or a folder that is taken.
    """
    if is_taken(out):
        raise TrainingError(f"{out} is there already. Choose another folder with --out.")
    told = ReplyConfig.read(Path(model).expanduser())
    prompt = told.system if system is None else system
    if not corpus.supporters:
        raise TrainingError(f"{SUPPORTERS} of the corpus is empty. Name there who spoke.")
    split = next(iter(corpus.supporters.values())).split
    brief = f"the model {model}, temperature {temperature:g}, told: {prompt}"[:2_000]
    with explain_invalid(TrainingError, "--name: ", "the supporter", "."):
        who = Supporter(name=name, split=split, kind="machine", brief=brief)
        _make_line(moments[-1], ["..."] * replies, name, len(moments) - 1)  # has the longest ids
    renderer = Renderer(load_tokenizer(model), prompt, told.style)
    use_bf16 = uses_bf16(dtype)
    sampler = ModelSampler(load_model(model, use_bf16=use_bf16, frozen=True), use_bf16)
    sampling = Sampling(max_reply_tokens, renderer.stop_ids, temperature)
    lines: list[MomentLine] = []
    with write_folder(out, TrainingError) as draft:
        step = max(1, _AT_ONCE // replies)
        for first in range(0, len(moments), step):
            part = moments[first : first + step]
            texts = _draw(sampler, renderer, sampling, part, replies, (seed, first))
            for number, (moment, drawn) in enumerate(zip(part, texts, strict=True), first):
                lines.append(_make_line(moment, drawn, name, number))
            yield len(lines)
        files = {
            MOMENTS: "".join(f"{line.model_dump_json()}\n" for line in lines),
            SUPPORTERS: f"[{who.model_dump_json()}]\n",
            DIALOGUES: "",
            "ratings.jsonl": "",
        }
        for file, text in files.items():
            (draft / file).write_text(text, encoding="utf-8")


def _draw(
    sampler: ModelSampler,
    renderer: Renderer,
    sampling: Sampling,
    moments: Sequence[RatedReply],
    replies: int,
    seed: tuple[int, int],
) -> list[list[str]]:
    prompts = [
        renderer.prompt(moment.dialogue.user_lines, moment.dialogue.earlier_utterances)
        for moment in moments
        for _ in range(replies)
    ]
    seeds = np.random.SeedSequence(seed).generate_state(len(prompts))
    asked = [Prompt(at, ids, int(seeds[at])) for at, ids in enumerate(prompts)]
    texts = [renderer.parse(drawn.ids).text for drawn in sampler.sample(asked, sampling)]
    sampler.forget()
    return [texts[at : at + replies] for at in range(0, len(texts), replies)]


def _make_line(moment: RatedReply, drawn: Sequence[str], name: str, number: int) -> MomentLine:
    users, earlier = moment.dialogue.user_lines, moment.dialogue.earlier_utterances
    turns = zip(earlier, users[1:], strict=True)
    place = f"{name}-{number}"
    return MomentLine(
        id=place,
        source=moment.place,
        persona=moment.persona,
        seed=0,
        opening=users[0],
        turns=[DialogueTurn(agent=agent, user=user) for agent, user in turns],
        replies=[
            Candidate(id=f"{place}-{at}", supporter=name, text=text)
            for at, text in enumerate(drawn)
        ],
    )
