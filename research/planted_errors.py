"""Whether planted errors are noticed and true restatements let be.

python research/planted_errors.py [--people held-out|all] [--show KIND]

True sentences are those of supporters in the train split of the corpus that name a person, a
number, a date, a relation or a role which the person had told, and `right` sentences of the cards'
facts about what was told. Each error exchanges one such thing in one of them. People are held out:
thresholds were set on the others.
"""

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rlver_gym.users.embedded.speech.claims import check_claims

from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Appraisal, Dialogue, Turn
from rlver_gym.core.library import library
from rlver_gym.core.persona import Persona
from rlver_gym.core.user import Scene
from rlver_gym.core.words import split_sentences, split_words

HELD_OUT = frozenset({"grace", "joon", "marcus", "nadia", "petra", "samuel", "tomasz"})
MOMENTS = Path("recordings/en/train/moments.jsonl")
NAMES = (
    "Diane Brenda Colin Marek Sylvia Yvonne Trevor Lena Oskar Fatima Pavel Ruth Gareth Imogen"
    " Stella Dominik Agnes Boris Carla Derek Edith Felix Gloria Hugo Irene Jasper Katrin Louise"
    " Miles Naomi Otto Pia Quentin Rosa Simon Tessa Ulrich Vincent Wendy Xenia Yusra Zelda"
).split()
_NUMBERS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
)
_NUMBER = re.compile(
    rf"(?<![-\w])({'|'.join(_NUMBERS)}|twenty|thirty|forty|fifty|\d{{1,3}})\b(?= \w)", re.I
)
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MONTHS = (
    "January February March April June July August September October November December".split()
)
_DATE = re.compile(rf"\b({'|'.join(_DAYS + _MONTHS)})\b")
_KIN = (
    "mother|mum|father|dad|sister|brother|son|daughter|aunt|uncle|grandmother|gran|grandfather"
    "|husband|wife|boyfriend|girlfriend|cousin|boss|neighbour|flatmate|landlord|teacher|friend"
).split("|")
_RELATION = re.compile(rf"(?<=\byour )({'|'.join(_KIN)})\b(?! and| or)")
_ROLES = "nurse teacher plumber lawyer cook driver dentist carpenter baker accountant".split()
_ROLE = re.compile(r"(?<=\byou're a )(?=student|nurse|waiter|teacher|cook|carer)\w+")


class Item(NamedTuple):
    """A sentence said to a person after what they told."""

    persona: Persona
    told: tuple[str, ...]
    text: str
    kind: str
    """What was exchanged; "true" when nothing was."""
    is_natural: bool
    wrong: str = ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", choices=["held-out", "fitted", "all"], default="held-out")
    parser.add_argument("--show", default="")
    parser.add_argument("--most", type=int, default=400)
    given = parser.parse_args()
    every = [
        item
        for item in items()
        if given.people == "all"
        or (item.persona.person.id in HELD_OUT) == (given.people == "held-out")
    ]
    rng = random.Random(7)
    rng.shuffle(every)
    for is_natural in (True, False):
        count: Counter[tuple[str, bool]] = Counter()
        denied: Counter[str] = Counter()
        plain: Counter[bool] = Counter()
        chosen = [i for i in every if i.is_natural == is_natural and i.kind == "true"][: given.most]
        chosen += [i for i in every if i.is_natural == is_natural and i.kind != "true"][
            : given.most
        ]
        for item in chosen:
            claims = [
                one
                for one in check_claims(item.persona, dialogue_of(item))
                if one.verdict == "false"
            ]
            noticed = bool(claims)
            count[item.kind, noticed] += 1
            is_denied = any(one.is_sure for one in claims)
            denied[item.kind] += is_denied
            if item.kind != "true" and _is_plain(item):
                plain[is_denied] += 1
            if given.show == item.kind or (given.show == "alarms" and item.kind == "true"):
                if noticed == (item.kind == "true"):
                    print(
                        f"[{item.persona.id}] {item.kind} {item.wrong}: {item.text}\n     {claims}\n     {item.told[-2:]}"
                    )
        print("natural prose" if is_natural else "card sentences")
        print(
            f"  asserted plainly {sum(plain.values())}: put right {plain[True] / max(1, sum(plain.values())):.0%}"
        )
        kinds = sorted({kind for kind, _ in count} - {"true"})
        for kind in [*kinds, "true"]:
            total = count[kind, True] + count[kind, False]
            if total:
                print(
                    f"  {kind:9} {total:4}: noticed {count[kind, True] / total:.0%},"
                    f" denied {denied[kind] / total:.1%}"
                )
        total = sum(number for (kind, _), number in count.items() if kind != "true")
        noticed = sum(count[kind, True] for kind in kinds)
        if total:
            print(
                f"  all errors {total}: noticed {noticed / total:.0%}, denied {sum(denied[k] for k in kinds) / total:.0%}"
            )


def _is_plain(item: Item) -> bool:
    """Whether the error stands in a statement: no question, nothing proposed."""
    new = item.wrong.split(" -> ")[1]
    sentence = next(
        (one for one in split_sentences(item.text) if new.casefold() in one.casefold()), ""
    )
    words = set(split_words(sentence))
    return not sentence.endswith("?") and not words & {
        "if",
        "could",
        "should",
        "imagine",
        "maybe",
        "perhaps",
    }


def dialogue_of(item: Item) -> Dialogue:
    """The dialogue in which it is said."""
    nothing = Appraisal(0, "", ())
    turns = tuple(Turn("Hm.", nothing, 40, 0.0, None, line) for line in item.told[1:])
    return Dialogue(item.told[0], turns, item.text)


def items() -> Iterator[Item]:
    """True sentences and errors made of them."""
    rng = random.Random(3)
    for line in MOMENTS.read_text(encoding="utf-8").splitlines():
        moment = json.loads(line)
        persona = library().get(moment["persona"])
        told = (moment["opening"], *[turn["user"] for turn in moment["turns"]])
        for reply in moment["replies"]:
            if reply["supporter"] in ("confused", "absent", "flip"):
                continue  # they mix things up themselves
            yield from made_of(persona, told, reply["text"], True, rng)
    for persona in {line: library().get(line) for line in _personas()}.values():
        for fact in persona.situation.facts:
            if fact.depth == 1:
                told = (persona.situation.openings.normal, fact.answers[0])
                for text in fact.right:
                    yield from made_of(persona, told, text, False, rng)


def _personas() -> list[str]:
    return sorted(
        {json.loads(line)["persona"] for line in MOMENTS.read_text(encoding="utf-8").splitlines()}
    )


def made_of(
    persona: Persona, told: tuple[str, ...], text: str, natural: bool, rng: random.Random
) -> Iterator[Item]:
    """A text as it is, when it holds something told, and with each such thing exchanged."""
    if len(text) > 400:
        return
    heard = " ".join(told)
    found: list[Item] = []

    def exchange(kind: str, at: re.Match[str], new: str) -> None:
        if at.group()[0].isupper():
            new = new[0].upper() + new[1:]
        wrong = text[: at.start()] + new + text[at.end() :]
        found.append(Item(persona, told, wrong, kind, natural, f"{at.group()} -> {new}"))

    for other in persona.situation.people:
        for at in re.finditer(rf"\b{re.escape(other.name)}\b", text):
            if other.name in heard:
                exchange("name", at, rng.choice(NAMES))
                near = [n for n in NAMES if n[0] == other.name[0] and n != other.name]
                if near:
                    exchange("near name", at, near[0])
                others = [
                    o.name
                    for o in persona.situation.people
                    if o.name != other.name and o.name in heard
                ]
                if others:
                    exchange("doer", at, rng.choice(others))
                break
    for at in _NUMBER.finditer(text):
        if re.search(
            rf"\b{re.escape(at.group())} {re.escape(text[at.end() + 1 :].split()[0].strip('.,!?;:'))}",
            heard,
            re.I,
        ):
            exchange(
                "number",
                at,
                rng.choice(
                    [
                        n
                        for n in [*_NUMBERS, "twenty", "thirty"]
                        if abs(_value(n) - _value(at.group().lower()))
                        >= max(1, 0.35 * _value(at.group().lower()))
                    ]
                ),
            )
            break
    for at in _DATE.finditer(text):
        if at.group() in heard:
            exchange(
                "date",
                at,
                rng.choice(
                    [d for d in (_DAYS if at.group() in _DAYS else _MONTHS) if d not in heard]
                ),
            )
            break
    for at in _RELATION.finditer(text):
        if re.search(rf"\b{at.group()}\b", heard, re.I):
            exchange(
                "relation",
                at,
                rng.choice([k for k in _KIN if not _same(k, at.group()) and k not in heard]),
            )
            break
    for at in _ROLE.finditer(text):
        exchange("role", at, rng.choice(_ROLES))
    if found:
        yield Item(persona, told, text, "true", natural)
        yield from found


_SAME = [{"mother", "mum"}, {"father", "dad"}, {"grandmother", "gran"}]


def _same(one: str, other: str) -> bool:
    return one == other or any({one, other} <= group for group in _SAME)


def _value(word: str) -> int:
    table = {n: i + 2 for i, n in enumerate(_NUMBERS)} | {
        "twenty": 20,
        "thirty": 30,
        "forty": 40,
        "fifty": 50,
    }
    return table.get(word) or (int(word) if word.isdigit() else 0)


_ = (env_card, Scene)
if __name__ == "__main__":
    main()
