"""How the embedded user answers questions, claims and remarks that were written by others: right,
wrong, refused; corrected, wrongly corrected.

python benchmarks/questions.py [seen|unseen] [--show]

Beside them four groups that are made of the same people and questions: what they want of the talk,
what or whom they meant, two questions in one, the same question again.

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

from rlver_gym.core.cards import env_card
from rlver_gym.core.persona import Persona
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.environment.session import EmpathySession
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.users.embedded.compile import compile_card
from rlver_gym.users.embedded.english import LEXICON
from rlver_gym.users.embedded.speak import PHRASES

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
    reply = session.reply(item["utterance"]).reply.casefold()
    for other in persona.situation.people:
        if other.introduction:
            reply = reply.replace(other.introduction.casefold(), other.name.casefold())
    return reply


def _holds(reply: str, lines: tuple[str, ...]) -> bool:
    return any(line.rstrip(".!?").casefold() in reply for line in lines)


def _texts(persona: Persona, ids: list[str]) -> tuple[str, ...]:
    """The sentences of some entries of the card, as the person says them."""
    situation = persona.situation
    facts = (*situation.facts, *persona.person.facts)
    lines = [
        line
        for fact in facts
        if fact.id in ids
        for line in (*fact.answers, fact.high, fact.low, fact.correction)
        if line
    ]
    lines += [
        line
        for item in situation.disclosures
        if item.id in ids
        for line in (item.high, item.normal, item.low)
    ]
    lines += [one.what for at, one in enumerate(situation.timeline) if f"timeline.{at}" in ids] + [
        one for at, one in enumerate(situation.tried) if f"tried.{at}" in ids
    ]
    return tuple(sentence for line in lines for sentence in split_sentences(line))


_PREFERENCES = (
    "Would you like advice, or should I just listen?",
    "Do you want some ideas, or would you rather just be heard?",
    "What would you like from me right now?",
    "Should I just listen, or do you want my opinion?",
)
_MEANINGS = ("What do you mean by that?", "Sorry, what do you mean?", "I don't quite follow.")
_WHOM = ("Sorry, who do you mean?", "Who is that?", "Who are you talking about?")


def groups(half: str) -> dict[str, list[tuple[str, str]]]:
    """Of each group, the replies with what became of them."""
    each = [item for item in items(half) if item["kind"] == "question" and item["accept"]]
    found: dict[str, list[tuple[str, str]]] = {}

    def add(group: str, is_right: bool, words: str, reply: str) -> None:
        found.setdefault(group, []).append(
            ("right" if is_right else "wrong", f"{words!r} {reply!r}")
        )

    for at, item in enumerate(each):
        persona = library().get(item["persona"])
        if at % 4 == 0:
            words = _PREFERENCES[at // 4 % len(_PREFERENCES)]
            reply = reply_to({**item, "before": [], "utterance": words})
            wanted = (
                *PHRASES["preference"][persona.need],
                *PHRASES["preference_veiled"][persona.need],
            )
            add("preference", _holds(reply, wanted), words, reply)
        words = _MEANINGS[at % len(_MEANINGS)]
        before = [*item["before"], item["utterance"]]
        last = reply_to(item)
        reply = reply_to({**item, "before": before, "utterance": words})
        add("what do you mean", _explains(persona, last, reply), words, f"{last} -> {reply}")
        words = _WHOM[at % len(_WHOM)]
        reply = reply_to({**item, "before": before, "utterance": words})
        names = [word for one in persona.situation.people for word in (one.name, one.who)]
        if any(one.name.casefold() in last for one in persona.situation.people):
            add(
                "who do you mean",
                any(name.casefold() in reply for name in names),
                words,
                f"{last} -> {reply}",
            )
        again = reply_to({**item, "before": before})
        accepted = _texts(persona, item["accept"])
        if _holds(last, accepted):
            new = [one for one in split_sentences(again) if one not in last]
            add(
                "asked again",
                _holds(again, accepted) and bool(new),
                item["utterance"],
                f"{last} -> {again}",
            )
        other = each[at - 1]
        if other["persona"] == item["persona"] and not item["before"] and not other["before"]:
            words = f"{other['utterance'].rstrip('?.! ')}? {item['utterance']}"
            reply = reply_to({**item, "utterance": words})
            both = _holds(reply, accepted) and _holds(reply, _texts(persona, other["accept"]))
            alone = _holds(last, accepted) and _holds(
                reply_to(other), _texts(persona, other["accept"])
            )
            if alone:
                add("two in one", both, words, reply)
    return found


def _explains(persona: Persona, last: str, reply: str) -> bool:
    """Whether a reply is about what was said last: words in common, or the same topic of the
    card.
    """
    card = compile_card(persona)
    tokens = [{LEXICON[word].token for word in split_words(text)} - {0} for text in (last, reply)]
    same = any(
        any(
            one.casefold().rstrip(".!?") in text
            for line in topic.lines
            for one in split_sentences(line)
        )
        and any(
            one.casefold().rstrip(".!?") in reply
            for line in topic.lines
            for one in split_sentences(line)
        )
        for topic in card.topics
        for text in (last,)
    )
    refused = _holds(reply, persona.person.manner.unknown + persona.person.manner.unsure)
    shared = sum(card.weight.get(token, 2.5) for token in tokens[0] & tokens[1])
    return not refused and (same or shared >= 4.0)


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
    for group, outcomes in groups(given.half).items():
        good = sum(outcome == "right" for outcome, _ in outcomes)
        print(f"{group:16} {len(outcomes):4}: right {good / len(outcomes):.0%}")
        if given.show and given.half == "seen":
            for outcome, text in outcomes:
                if outcome == "wrong":
                    print(f"    {group}: {text}")


_BAD = {
    ("question", "wrong"),
    ("question", "refused"),
    ("error", "let pass"),
    ("true", "corrected"),
    ("remark", "other"),
}


if __name__ == "__main__":
    main()
