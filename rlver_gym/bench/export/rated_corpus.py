"""The corpus of rated replies as dialogues to learn from."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlver_gym.bench.export.select_dialogues import Record
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Appraisal, Turn
from rlver_gym.core.emotion import REWARDS, apply_change
from rlver_gym.corpora.corpus import ENV, RATINGS, SUPPORTERS, Corpus, RatedReply
from rlver_gym.environment.episode import Episode
from rlver_gym.library.personas import library

USER, RUBRIC = "readers", "1"
"""Who felt what is exported, and by which version of the rubric."""


def is_corpus(folder: Path) -> bool:
    return (folder / SUPPORTERS).is_file() and (folder / RATINGS).is_file()


def read_dialogues(folder: Path, *, roles: bool = False) -> list[Record]:
    """Its dialogues of which every reply was rated. `roles`: without machines."""
    corpus, replies_of = Corpus(folder), defaultdict(list)
    for reply in corpus.rated_replies():
        if not roles or reply.kind == "role":
            replies_of[reply.place].append(reply)
    return [
        _make_record(folder, line.seed, replies_of[line.id], line.turns[-1].user)
        for line in corpus.dialogues
        if line.turns and len(replies_of[line.id]) == len(line.turns)
    ]


def read_single_replies(folder: Path, *, roles: bool = False) -> Iterator[Record]:
    """Each single reply as the end of a dialogue that nobody rated. `roles`: without machines."""
    corpus = Corpus(folder)
    seeds = {line.id: line.seed for line in corpus.moments}
    for reply in corpus.rated_replies():
        if reply.place in seeds and (not roles or reply.kind == "role"):
            yield _make_record(folder, seeds[reply.place], [reply], "")


def _make_record(
    folder: Path, seed: int, replies: Sequence[RatedReply], last_answer: str
) -> Record:
    """A dialogue that ends with these replies, or where the readers' emotion ends it."""
    card, first, persona = env_card(ENV), replies[0], library().get(replies[0].persona)
    answers = [*(reply.dialogue.turns[-1].reply for reply in replies[1:]), last_answer]
    turns, emotion = list(first.dialogue.turns), card.start
    for reply, answer in zip(replies, answers, strict=True):
        change = round(reply.mean("change"))
        before, emotion = emotion, apply_change(emotion, change)
        outcome = card.outcome(emotion, card.turns if reply is replies[-1] else len(turns) + 1)
        appraisal = Appraisal(change, reply.ratings[0].thought or "", ())
        reward = REWARDS[card.reward](before, emotion, outcome)
        turns.append(Turn(reply.text, appraisal, emotion, reward, outcome, answer))
        if outcome is not None:
            break
    episode = Episode(
        agent=first.supporter,
        env=card.id,
        env_hash=card.hash,
        persona=persona.id,
        persona_hash=persona.hash,
        need=persona.need.value,
        disposition=persona.person.disposition.value,
        user=USER,
        user_version=RUBRIC,
        seed=seed,
        start=card.start,
        opening=first.dialogue.opening,
        turns=tuple(turns),
    )
    return Record(folder.resolve().name, persona.split, episode)
