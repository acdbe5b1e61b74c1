"""How the embedded user answers questions, claims and remarks that were written by others: right,
wrong, refused; corrected, wrongly corrected.

python benchmarks/questions.py [seen|unseen] [--show]

The items (`benchmarks/questions/*.jsonl`) were written by language models in the role of
supporters, who saw a persona's background and what it says in a dialogue, never its facts; a second
one labelled which facts answer each question. "seen" are about train and demo personas, "unseen"
about test personas, which nobody looked at while the answering was written: nothing of their text
is ever printed.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from rlver_gym.conversation.knowledge import knowledge
from rlver_gym.core.cards import env_card
from rlver_gym.core.library import library
from rlver_gym.core.persona import Persona
from rlver_gym.core.words import split_sentences
from rlver_gym.environment.session import EmpathySession
from rlver_gym.text.names import remove_introductions
from rlver_gym.users import EmbeddedUser

FOLDER = Path(__file__).parent / "questions"


def items(half: str) -> list[dict[str, Any]]:
    """The items of one half, each with its label."""
    return [
        json.loads(line)
        for line in (FOLDER / f"{half}.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def reply_to(item: dict[str, Any], seed: int = 0) -> str:
    """What the person says to an item, after what was said before it."""
    persona = library().get(item["persona"])
    session = EmpathySession(EmbeddedUser(), persona, env_card("SAGE-Sentient-v0"), seed)
    session.start()
    for words in item["before"]:
        session.reply(words)
    return remove_introductions(
        persona.situation, session.reply(item["utterance"]).reply
    ).casefold()


def _holds(reply: str, lines: tuple[str, ...]) -> bool:
    return any(line.rstrip(".!?").casefold() in reply for line in lines)


def _texts(persona: Persona, ids: list[str]) -> tuple[str, ...]:
    """The sentences of some entries of the card, as the person says them."""
    known = knowledge(persona)
    return tuple(
        sentence
        for entry in known.entries
        if entry.id in ids
        for text in (*entry.texts, getattr(entry.item, "correction", None) or entry.texts[0])
        for sentence in split_sentences(text)
    )


def outcome_of(item: dict[str, Any], reply: str) -> str:
    """How a reply did: "right", "refused" or "wrong" for a question, "corrected" or "let pass" for
    a claim, "fits" or "other" for a remark.
    """
    persona = library().get(item["persona"])
    manner = persona.person.manner
    refused = _holds(reply, manner.unknown + manner.not_yet + manner.unsure)
    if item["kind"] == "question":
        if _holds(reply, _texts(persona, item["accept"])):
            return "right"
        if refused:
            return "right" if not item["accept"] else "refused"
        return "wrong"
    if item["kind"] in ("error", "true"):
        corrections = [
            text
            for fact in (*persona.situation.facts, *persona.person.facts)
            if (text := fact.correction)
        ]
        return "corrected" if _holds(reply, (*manner.corrects, *corrections)) else "let pass"
    lines = tuple(line for name in item["accept"] for line in getattr(manner, name, ()))
    return "fits" if _holds(reply, lines) else "other"


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("half", nargs="?", choices=["seen", "unseen"], default="seen")
    parser.add_argument("--show", action="store_true", help="print what went wrong (seen only)")
    given = parser.parse_args()
    count: Counter[tuple[str, str]] = Counter()
    for item in items(given.half):
        reply = reply_to(item)
        outcome = outcome_of(item, reply)
        count[item["kind"], outcome] += 1
        if given.show and given.half == "seen" and (item["kind"], outcome) in _BAD:
            print(
                f"{item['kind']} {outcome}: {item['utterance']!r}\n    {reply!r}\n    meant:"
                f" {item['meant']} {item['accept']}"
            )
    for kind in ("question", "error", "true", "remark"):
        total = sum(number for (of, _), number in count.items() if of == kind)
        shares = ", ".join(
            f"{outcome} {number / total:.0%}"
            for (of, outcome), number in sorted(count.items())
            if of == kind
        )
        print(f"{kind:9} {total:4}: {shares}")
    right, wrong = count["question", "right"], count["question", "wrong"]
    print(f"right among what was answered: {right / max(1, right + wrong):.0%}")


_BAD = {
    ("question", "wrong"),
    ("question", "refused"),
    ("error", "let pass"),
    ("true", "corrected"),
    ("remark", "other"),
}


if __name__ == "__main__":
    main()
