"""Make the word vectors of English: what a sentence encoder makes of each word alone, in few
dimensions and whole numbers.

python research/word_vectors.py [FOLDER]

Words: those of supporters' sentences and of the train and validation cards, and the encoder's own.
A word weighs the less the oftener supporters say it. The encoder is all-MiniLM-L6-v2 (Apache-2.0),
from a folder or the hub.
"""

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import yaml
from transformers import AutoModel, AutoTokenizer

from rlver_gym.core.persona import Fact
from rlver_gym.core.words import split_words
from rlver_gym.library.personas import library

SIZE = 64
TARGET = Path("rlver_gym/users/embedded/vectors.npz")
_COMMON = 1e-3
"""The share of all words from which a word weighs half."""


def count_words() -> Counter[str]:
    """How often each word is said."""
    found: Counter[str] = Counter()
    for path in sorted(Path("benchmarks/recogniser").glob("*.tsv")):
        for line in path.read_text(encoding="utf-8").splitlines():
            found.update(split_words(line.partition("\t")[2]))
    train = Path("recordings/en/train")
    for line in (train / "moments.jsonl").read_text(encoding="utf-8").splitlines():
        for reply in json.loads(line)["replies"]:
            found.update(split_words(reply["text"]))
    for line in (train / "dialogues.jsonl").read_text(encoding="utf-8").splitlines():
        for turn in json.loads(line)["turns"]:
            found.update(split_words(turn["agent"]))
    index = yaml.safe_load(Path("personas/en/index.yaml").read_text(encoding="utf-8"))
    for one in index["personas"]:
        if one["split"] != "test":
            for kind in ("people", "situations"):
                name = one["person" if kind == "people" else "situation"]
                for path in sorted(Path("personas/en", kind).glob(f"{name}*/*.yaml")) + sorted(
                    Path("personas/en", kind).glob(f"{name}.yaml")
                ):
                    for word in set(split_words(path.read_text(encoding="utf-8"))):
                        found[word] += 0 if word in found else 1
    return found


_SMALL = re.compile(r"(?<![\w'-])[a-z][a-z]+(?![\w'-])")


def common_words() -> set[str]:
    """The words that are written small somewhere: no names."""
    texts = [
        line.partition("\t")[2]
        for path in sorted(Path("benchmarks/recogniser").glob("*.tsv"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if not line.partition("\t")[2].islower()  # who writes all of it small writes names so too
    ]
    for line in Path("recordings/en/train/moments.jsonl").read_text(encoding="utf-8").splitlines():
        moment = json.loads(line)
        texts += [one["text"] for one in moment["replies"] if one["text"] != one["text"].lower()]
    texts += [one.answers[0] for one in _facts()]
    found = Counter(word for text in texts if text[:1].isupper() for word in _SMALL.findall(text))
    return set(found)


def _facts() -> list[Fact]:
    personas = [library().get(name) for name in library().pairings]
    return [
        fact
        for one in personas
        if one.split != "test"
        for fact in (*one.situation.facts, *one.person.facts)
    ]


def main() -> None:
    """Write the file."""
    torch.set_num_threads(1)
    folder = sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2"
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    count = count_words()
    pieces = [word for word in tokenizer.get_vocab() if re.fullmatch(r"[a-z]{2,}", word)]
    words = sorted({*count, *pieces})
    rows = []
    with torch.no_grad():
        for at in range(0, len(words), 512):
            batch = tokenizer(words[at : at + 512], padding=True, return_tensors="pt")
            mask = batch["attention_mask"][..., None]
            state = model.eval()(**batch).last_hidden_state
            rows.append(((state * mask).sum(1) / mask.sum(1)).numpy())
    states = np.concatenate(rows)
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    states -= states.mean(0)
    _, _, basis = np.linalg.svd(states, full_matrices=False)
    total = sum(count.values())
    weight = np.array([_COMMON / (_COMMON + count[word] / total) for word in words])
    vectors = states @ basis[:SIZE].T * weight[:, None]
    whole = np.rint(vectors / np.abs(vectors).max() * 127).astype(np.int8)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    text = np.frombuffer("\n".join(words).encode(), dtype=np.uint8)
    small = common_words()
    common = np.packbits([word in small for word in words])
    np.savez_compressed(TARGET, words=text, vectors=whole, common=common)
    print(len(words), TARGET.stat().st_size)


if __name__ == "__main__":
    main()
