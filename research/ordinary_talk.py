"""Ordinary talk: five agents that say the same eight things to everybody, and how far a user's finals
lie from readers'.

python research/ordinary_talk.py hold FOLDER       dialogues with four test people
python research/ordinary_talk.py sheets FOLDER     a blind sheet a person, beside it (FOLDER/sheets)
python research/ordinary_talk.py compare FOLDER [USER [OPTION=VALUE ...]]
    finals of readers and of the embedded user, or of another, such as reader base=MODEL

FOLDER is a corpus (research/corpus.md); a reader's lines (research/rubric.md) go into its
ratings.jsonl, each with `reader`. Nobody leaves early: a final is 40 and the sum of eight changes,
kept within 0 and 100.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
from fidelity import appraise_corpus

from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Dialogue, Turn
from rlver_gym.core.user import Scene, SentientUser
from rlver_gym.corpora.corpus import Corpus
from rlver_gym.corpora.sheet_text import describe_person
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser, make_user

START = 40
PEOPLE = (
    "theo-by-thirty lucia-the-failed-launch paul-they-stop-talking hannah-the-burst-pipe".split()
)
AGENTS = {
    "curious": (
        "What happened then?", "What did they say?", "And what did you do?", "How was that for you?",
        "Who else knows about it?", "What's the worst part of it?", "What would you have wanted?",
        "And how is it tonight?",
    ),
    "guesses": (
        "Did that hurt more than you let on?", "Are you angry about it?",
        "Is it that you feel alone with it?", "Were you ashamed, maybe?",
        "Are you afraid it will happen again?", "Is there some guilt in it too?",
        "Do you miss how it was before?", "Are you just tired of it all by now?",
    ),
    "interviewer": (
        "Let me get the facts first. When did this start, who was there, and what exactly was said?",
        "On a scale from one to ten, how bad is it, and what would make it a seven?",
        "Have you had anything like this before? How did you deal with it?",
        "Who do you live with, and what do they think about it?",
        "What have you tried so far, and which of it worked?",
        "What is your goal here? What would a good outcome look like?",
        "What is stopping you from doing that this week?",
        "Is there anything else that you think is important for me to know?",
    ),
    "vague": (
        "That sounds like a lot.", "These things are never easy, are they.", "I hear you. I really do.",
        "It's okay to feel the way you feel.", "Life can be strange like that sometimes.",
        "You're doing the best you can with it.", "Give it time. Time does help, in the end.",
        "Whatever happens, things have a way of working out.",
    ),
    "own_dog": (
        "My dog died in the spring, so I know. He was called Biscuit and he was fourteen.",
        "When Biscuit got ill I slept on the kitchen floor next to him for two weeks.",
        "The vet said it was his kidneys. I still have his lead on the hook by the door.",
        "It was just like that with Biscuit. Nobody understood how much he meant to me.",
        "I couldn't go past the park for months after that. I took the bus instead.",
        "My sister said I should get a new one, and I didn't speak to her for a week.",
        "I've got a photo of him on my phone that I look at when I can't sleep.",
        "Anyway, that's how it is. I might get a puppy in the summer, a spaniel.",
    ),
}  # fmt: skip


def hold(folder: Path) -> None:
    """Every agent with every person: what is said, without a score."""
    user, card, shelf, rows = EmbeddedUser(), env_card("SAGE-Sentient-v0"), library(), []
    for who in PEOPLE:
        for name, utterances in AGENTS.items():
            scene, emotion, turns = Scene(shelf.get(who), card, 7), START, []
            dialogue = Dialogue(user.open(scene, emotion))
            for utterance in utterances:
                said = dialogue.with_utterance(utterance)
                felt = user.appraise(scene, emotion, said)
                emotion = min(90, max(20, emotion + felt.change))  # nobody leaves
                reply = user.speak(scene, emotion, said, felt)
                dialogue = said.with_turn(Turn(utterance, felt, emotion, 0.0, None, reply))
                identity = f"o{len(rows):02d}{len(turns)}"
                turns.append({"agent": utterance, "user": reply, "id": identity})
            rows.append(
                {"id": f"d-{name}-{who}", "supporter": name, "persona": who, "seed": 7}
                | {"opening": dialogue.opening, "turns": turns}
            )
    write_corpus(folder, rows, {name: " / ".join(lines) for name, lines in AGENTS.items()})


def write_corpus(folder: Path, rows: Sequence[object], briefs: dict[str, str]) -> None:
    """Dialogues without ratings yet, and what each supporter was told, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / "dialogues.jsonl").write_text(text, encoding="utf-8")
    for name in ("moments.jsonl", "ratings.jsonl"):
        (folder / name).touch()
    supporters = [
        {"name": name, "split": "test", "kind": "machine", "brief": brief}
        for name, brief in briefs.items()
    ]
    (folder / "supporters.json").write_text(json.dumps(supporters, indent=1), encoding="utf-8")


def write_sheets(folder: Path) -> None:
    """A sheet a person: who they are, and the dialogues in an order drawn by lot."""
    (folder / "sheets").mkdir(exist_ok=True)
    held = list(Corpus(folder).dialogues)
    Random(0).shuffle(held)
    for who in PEOPLE:
        lines = describe_person(library().get(who))
        for number, dialogue in enumerate([one for one in held if one.persona == who], 1):
            lines += ["", f"## Dialogue {number}", f"PERSON: {dialogue.opening}"]
            for turn in dialogue.turns:
                lines += [f"{turn.id}: {turn.agent}", f"PERSON: {turn.user}"]
        text = "\n".join(lines) + "\n"
        (folder / "sheets" / f"{who}.md").write_text(text, encoding="utf-8")


def compare(folder: Path, user: SentientUser) -> Iterator[str]:
    """Finals of readers and of a user, a supporter a line."""
    replies, felt = appraise_corpus(user, folder)
    yield f"{user.kind} {user.version}; replies as the person answered then"
    changes = np.array(
        [(reply.mean("change"), own) for reply, own in zip(replies, felt, strict=True)]
    )
    places: dict[str, dict[str, list[int]]] = {}
    for at, reply in enumerate(replies):
        places.setdefault(reply.supporter, {}).setdefault(reply.place, []).append(at)
    for name, chosen in places.items():
        readers, user = np.mean([_end(changes[rows]) for rows in chosen.values()], axis=0)
        yield f"{name:20s} readers {readers:3.0f}, user {user:3.0f}, apart {user - readers:+.0f}"


def _end(changes: np.ndarray) -> np.ndarray:
    emotion = np.full(changes.shape[1], float(START))
    for change in changes:
        emotion = np.clip(emotion + change, 0.0, 100.0)
    return emotion


if __name__ == "__main__":
    command, folder = sys.argv[1], Path(sys.argv[2])
    if command == "compare":
        name, *options = sys.argv[3:] or ["embedded"]
        user = make_user(name, **dict(option.split("=", 1) for option in options))
        print("\n".join(compare(folder, user)))
    else:
        {"hold": hold, "sheets": write_sheets}[command](folder)
