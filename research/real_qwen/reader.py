"""A language model that reads what a reply does to the person: adapters and a linear head.

python -m research.real_qwen.reader MODEL OUT EPOCHS FOLDER...

Fitted to level and to differences within a place, on the rated replies to train people in FOLDERs.
"""

import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rlver_gym.core.capabilities import FACTORS
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.persona import NEEDS_IN_WORDS, Persona
from rlver_gym.corpora.corpus import Corpus, RatedReply
from rlver_gym.library.personas import library
from rlver_gym.policy.models.model import find_causal_lm, load_model, load_tokenizer

OUTPUTS = ("change", *FACTORS)
MEAN = (-1.0, 1.2, 1.7, 0.7, 1.6, 0.9, 0.2)
SCALE = (4.5, 1.2, 1.2, 1.2, 1.3, 1.0, 0.4)
LR, RANK = 3e-4, 8


class Reader(nn.Module):
    """Change and factors from the state of the last token."""

    def __init__(self, model: str) -> None:
        """`model`: a folder; the head begins at nearly nothing."""
        super().__init__()
        self.lm = load_model(model, use_bf16=torch.cuda.is_available(), lora=RANK)
        self.tokenizer = load_tokenizer(model)
        self.device = next(self.lm.parameters()).device
        self.head = nn.Linear(self.lm.config.hidden_size, len(OUTPUTS)).to(self.device)
        nn.init.normal_(self.head.weight, std=0.01)

    def forward(self, rows: Sequence[list[int]]) -> Tensor:
        """Of each row the outputs, standardized."""
        id_BT = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
        for at, row in enumerate(rows):
            id_BT[at, : len(row)] = torch.tensor(row)
        with torch.autocast(self.device.type, torch.bfloat16, self.device.type == "cuda"):
            trunk = find_causal_lm(self.lm).base_model
            hidden_BTD = trunk(input_ids=id_BT.to(self.device), use_cache=False).last_hidden_state
        last_B = torch.tensor([len(row) - 1 for row in rows], device=self.device)
        at_B = torch.arange(len(rows), device=self.device)
        return self.head(hidden_BTD[at_B, last_B].float())

    def lay_out(self, persona: Persona, dialogue: Dialogue) -> list[int]:
        """At most 750 ids: the person and their need, the last turns, the reply."""
        person, situation, need = persona.person, persona.situation, persona.need.value
        traits = f"{person.disposition} ({', '.join(person.traits)})"
        head = f"You are {person.name}, {person.age}, {person.work}, {traits}.\n{situation.cause}\n"
        head += "".join(f"- {one.when}: {one.what}\n" for one in situation.timeline)
        head += f"Now: {situation.now}\nWhat you need: {need}: {NEEDS_IN_WORDS[persona.need]}\n\nSo far:\n"
        lines, said = dialogue.user_lines, dialogue.earlier_utterances
        pairs = list(zip(lines, said, strict=False))[-3:]
        told = "".join(f"PERSON: {user}\nSUPPORTER: {agent}\n" for user, agent in pairs)

        def ids(text: str) -> list[int]:
            return self.tokenizer(text, add_special_tokens=False)["input_ids"]

        reply = ids(f"Now the supporter says: {(dialogue.utterance or '').strip()}")[:130]
        told_ids = ids(f"{told}PERSON: {lines[-1]}\n")[-220:]
        return ids(head)[:400] + told_ids + reply + ids("\nHow it moves you:")

    @torch.no_grad()
    def read(self, asked: Sequence[tuple[str, Dialogue]]) -> list[float]:
        """Points of emotion, for personas and dialogues that end with a reply."""
        rows, found = [self.lay_out(library().get(who), said) for who, said in asked], []
        for at in range(0, len(rows), 64):
            found += self.eval()(rows[at : at + 64])[:, 0].tolist()
        return [max(-10.0, min(10.0, value * SCALE[0] + MEAN[0])) for value in found]

    def learned(self) -> dict[str, Tensor]:
        """What the fit changes, by name."""
        return {k: v for k, v in self.named_parameters() if v.requires_grad}

    @classmethod
    def load(cls, model: str, path: Path) -> "Reader":
        """As it was fitted."""
        reader = cls(model)
        reader.load_state_dict(load_file(path), strict=False)
        return reader


def loss_of(found_BO: Tensor, target_BO: Tensor, places: Sequence[str]) -> Tensor:
    """Squared errors of level, and of differences within a place."""
    weight_O = torch.tensor([1.0] + [0.15] * len(FACTORS), device=found_BO.device)
    loss = (((found_BO - target_BO) ** 2) * weight_O).sum(1).mean()
    at = [(i, j) for i, a in enumerate(places) for j, b in enumerate(places) if i < j and a == b]
    if at:
        i, j = map(list, zip(*at, strict=True))
        error_B = found_BO[:, 0] - target_BO[:, 0]
        loss = loss + 0.6 * ((error_B[i] - error_B[j]) ** 2).mean()
    return loss


def fit(reader: Reader, rated: Sequence[RatedReply], epochs: int) -> None:
    """Batches of whole places, at most eight replies of each."""
    chance, params = random.Random(0), list(reader.learned().values())
    optimizer, by_place = torch.optim.AdamW(params, lr=LR, weight_decay=0.01), defaultdict(list)
    for one in rated:
        by_place[one.place].append(one)
    for epoch in range(epochs):
        groups = [some[at : at + 8] for some in by_place.values() for at in range(0, len(some), 8)]
        chance.shuffle(groups)
        steps = [list(chain(*groups[at : at + 5])) for at in range(0, len(groups), 5)]
        for step, part in enumerate(steps):
            optimizer.param_groups[0]["lr"] = LR * (1 - (epoch + step / len(steps)) / epochs)
            rows = [reader.lay_out(library().get(x.persona), x.dialogue) for x in part]
            wanted = torch.tensor([[x.mean(name) for name in OUTPUTS] for x in part])
            target = ((wanted - torch.tensor(MEAN)) / torch.tensor(SCALE)).to(reader.device)
            loss = loss_of(reader.train()(rows), target, [x.place for x in part])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            if step % 40 == 0:
                print(f"epoch {epoch + 1} step {step} of {len(steps)}: {loss:.3f}", flush=True)


def main(model: str, out: Path, epochs: int, folders: list[Path]) -> None:
    """Fit and save what the fit changed."""
    people = set(library().ids("train"))
    rated = [one for folder in folders for one in Corpus(folder).rated_replies()]
    torch.manual_seed(0)
    reader = Reader(model)
    fit(reader, [one for one in rated if one.persona in people], epochs)
    save_file({k: v.detach().cpu() for k, v in reader.learned().items()}, out)


if __name__ == "__main__":
    _, base, to, passes, *given = sys.argv
    main(base, Path(to), int(passes), [Path(one) for one in given])
