"""The replies that `rlver-gym calibrate` has a model judge: drawn from the train split of the corpus,
each rated by two readers.

python research/calibration.py        (writes rlver_gym/bench/calibration.json)
"""

import json
from collections import defaultdict
from itertools import chain, zip_longest
from pathlib import Path
from random import Random

from rlver_gym.corpora.corpus import Corpus, RatedReply

HERE = Path(__file__).parent
OUT = HERE.parent / "rlver_gym" / "bench" / "calibration.json"
DIALOGUES, MOMENTS, REPLIES = 14, 16, 6
"""How many whole dialogues, how many moments, and how many replies to each of these."""
_MIN_TURNS = 6


def main() -> None:
    """Draw by a fixed seed, a supporter and a person once, and write one place a line, a dialogue and a moment in
    turn."""
    corpus, rng = Corpus(HERE.parent / "recordings" / "en" / "train"), Random(48)
    places: dict[str, list[RatedReply]] = defaultdict(list)
    for reply in corpus.rated_replies():
        if len(reply.ratings) > 1:
            places[reply.place].append(reply)
    dialogues = draw_dialogues(corpus, places, rng)
    both = zip_longest(dialogues, draw_moments(corpus, places, rng))
    lines = filter(None, chain.from_iterable(both))
    text = ",\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    OUT.write_text(f"[\n{text}\n]\n", encoding="utf-8")


def draw_dialogues(corpus: Corpus, places: dict[str, list[RatedReply]], rng: Random) -> list[dict]:
    """Whole dialogues, each turn rated."""
    whole = [
        dialogue
        for dialogue in corpus.dialogues
        if _MIN_TURNS <= len(dialogue.turns) == len(places[dialogue.id])
    ]
    rng.shuffle(whole)
    drawn, seen = [], set()
    for dialogue in whole:
        family = dialogue.supporter.rpartition("-r")[0] or dialogue.supporter
        if len(drawn) < DIALOGUES and not seen & {family, dialogue.persona}:
            seen |= {family, dialogue.persona}
            changes = {reply.id: list_changes(reply) for reply in places[dialogue.id]}
            turns = [[turn.agent, changes[turn.id or ""], turn.user] for turn in dialogue.turns]
            drawn.append({**place_of(dialogue), "turns": turns})
    return drawn


def draw_moments(corpus: Corpus, places: dict[str, list[RatedReply]], rng: Random) -> list[dict]:
    """Moments, with replies drawn by lot."""
    moments = [moment for moment in corpus.moments if len(places[moment.id]) >= REPLIES]
    rng.shuffle(moments)
    drawn, seen = [], set()
    for moment in moments:
        if len(drawn) < MOMENTS and moment.persona not in seen:
            seen.add(moment.persona)
            replies = rng.sample(places[moment.id], REPLIES)
            turns = [[turn.agent, [], turn.user] for turn in moment.turns]
            judged = [[reply.text, list_changes(reply)] for reply in replies]
            drawn.append({**place_of(moment), "turns": turns, "replies": judged})
    return drawn


def place_of(place) -> dict:
    """What a line says of the place: whom, and how it began."""
    return {"persona": place.persona, "opening": place.opening}


def list_changes(reply: RatedReply) -> list[int]:
    """Two readers' changes."""
    return [rating.change for rating in reply.ratings[:2]]


if __name__ == "__main__":
    main()
