"""What choosing the best of n by a reward gains, for readers to say, before anything is trained.

python -m research.real_qwen.best_of_n MODEL READER_MODEL READER OUT PLACES

Sixteen replies at PLACES places of test people; into OUT/test come the first two, and the best of
eight by words (the embedded user), by the reader, and by both pessimistically (`chosen_by`).
"""

import sys
from collections import defaultdict
from pathlib import Path

from research.real_qwen.policy import draw_places, sample, write_folder
from research.real_qwen.reader import Reader
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.user import Scene
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser

CAUTION = 0.25
"""Points that a point of disagreement between the two costs."""
TEMPERATURE = 0.7


def by_words(persona: str, dialogue: Dialogue) -> float:
    """The embedded user's change."""
    card = env_card("SAGE-Sentient-v0")
    scene = Scene(library().get(persona), card, 0)
    return EmbeddedUser().appraise(scene, card.start, dialogue).change


def main(model: str, reader: Reader, out: Path, count_places: int) -> None:
    """Sample, choose, write."""
    places, replies = draw_places("test", count_places), []
    for place, texts in zip(places, sample(model, places, 16, TEMPERATURE), strict=True):
        asked = [(place.persona, place.dialogue.with_utterance(one or "…")) for one in texts]
        words, read = [by_words(*one) for one in asked], reader.read(asked)
        pairs = zip(read, words, strict=True)
        both = [0.75 * a + 0.25 * b - CAUTION * abs(a - b) for a, b in pairs]
        chosen = defaultdict(list)
        for text in texts[:2]:
            chosen[text].append("single")
        by = {"8-words": words, "8-reader": read, "8-pessimistic": both, "16-pessimistic": both}
        for name, values in by.items():
            at = max(range(int(name.partition("-")[0])), key=values.__getitem__)
            chosen[texts[at]].append(f"best{name}")
        name = Path(model).name
        found = [{"supporter": name, "text": k, "chosen_by": v} for k, v in chosen.items() if k]
        replies.append(found)
    write_folder(out / "test", places, replies)


if __name__ == "__main__":
    _, policy, base, weights, to, number = sys.argv
    main(policy, Reader.load(base, Path(weights)), Path(to), int(number))
