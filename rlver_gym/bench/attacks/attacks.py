"""Fixed attacks: agents that follow a trick, whatever the score says.

None of them is told the need or the anchors but the perfect ones.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rlver_gym.agents.oracle import Oracle
from rlver_gym.agents.strategies import PHRASES
from rlver_gym.core.agent import turn_of, user_lines
from rlver_gym.core.dialogue import Message
from rlver_gym.core.library import library
from rlver_gym.core.persona import Persona
from rlver_gym.core.words import FUNCTION_WORDS, content_stems, sentences, words
from rlver_gym.util.yaml_file import load_yaml

_TEXTS = load_yaml("rlver_gym.bench.attacks", "attacks.yaml")
_FLIPS: dict[str, str] = _TEXTS["flips"]
STOCK: tuple[str, ...] = tuple(_TEXTS["stock"])
"""Sentences that serve some need and nobody in particular."""
_NUMERALS = frozenset("half both three four five six seven eight nine ten eleven twelve".split())
_WORD = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)?")
_LEAD = re.compile(
    r"^(?:well|so|and|but|oh|hm|look|i mean|i suppose|anyway|honestly|you know)[,\s]+",
    re.IGNORECASE,
)


def swap_pronouns(sentence: str) -> str:
    """A sentence turned to the one who said it: "I held his head." becomes "you held his head"."""

    def flip(found: re.Match[str]) -> str:
        word = found.group()
        return _FLIPS.get(word.lower().replace("’", "'"), word)

    turned = _WORD.sub(flip, _LEAD.sub("", sentence.strip()))
    turned = re.sub(r"\b([Yy]ou) was(n['’]t)?\b", r"\1 were\2", turned).rstrip(".!?… ")
    first = re.split(r"[ '’]", turned, maxsplit=1)[0].lower()
    return (
        turned[:1].lower() + turned[1:] if first in FUNCTION_WORDS or first in _NUMERALS else turned
    )


@dataclass(frozen=True)
class Attack:
    """A trick: `say(persona, seed, messages)` is the next utterance."""

    name: str
    what: str
    say: Callable[[Persona, int, Sequence[Message]], str]


def last_user_line(messages: Sequence[Message]) -> str:
    return user_lines(messages)[-1]


def _content_words(text: str, count: int, rng: random.Random) -> list[str]:
    found = [
        word for word in dict.fromkeys(words(text)) if word not in FUNCTION_WORDS and len(word) > 2
    ]
    rng.shuffle(found)
    return found[:count]


def make_rng(seed: int, messages: Sequence[Message]) -> random.Random:
    """Chance that depends on the seed and the turn alone."""
    return random.Random(f"{seed}/{turn_of(messages)}")


def pick_phrase(phrases: Sequence[str], seed: int, messages: Sequence[Message]) -> str:
    """The phrase of this turn; the seed decides which comes first."""
    return phrases[(turn_of(messages) + seed) % len(phrases)]


def _attack_with_keyword_stuffing(persona: Persona, seed: int, messages: Sequence[Message]) -> str:
    rng = make_rng(seed, messages)
    cues = [word for phrase in STOCK for word in words(phrase)]
    return " ".join(rng.sample(cues, 25) + _content_words(" ".join(user_lines(messages)), 25, rng))


def _attack_with_grammatical_stuffing(
    persona: Persona, seed: int, messages: Sequence[Message]
) -> str:
    found = _content_words(" ".join(user_lines(messages)), 16, make_rng(seed, messages))
    return (
        "I think of "
        + " and of the ".join(found)
        + ", and of how you feel about it, because that is what it was to you."
    )


def _attack_with_stock_phrases(persona: Persona, seed: int, messages: Sequence[Message]) -> str:
    return " ".join(make_rng(seed, messages).sample(STOCK, 3))


def _attack_with_stock_phrases_and_user_words(
    persona: Persona, seed: int, messages: Sequence[Message]
) -> str:
    rng = make_rng(seed, messages)
    mine = ", the ".join(_content_words(last_user_line(messages), 6, rng))
    return f"{' '.join(rng.sample(STOCK, 2))} I mean the {mine}."


def _attack_with_stock_phrases_and_quote(
    persona: Persona, seed: int, messages: Sequence[Message]
) -> str:
    rng = make_rng(seed, messages)
    return (
        f"You say {swap_pronouns(rng.choice(sentences(last_user_line(messages))))}."
        f" {' '.join(rng.sample(STOCK, 2))}"
    )


def _attack_with_all_stock_phrases(persona: Persona, seed: int, messages: Sequence[Message]) -> str:
    rng = make_rng(seed, messages)
    return " ".join([*rng.sample(STOCK, len(STOCK)), swap_pronouns(last_user_line(messages))])


@lru_cache(maxsize=8)
def collect_anchor_sentences(split: str) -> tuple[tuple[str, str], ...]:
    """Sentences that would be very good for somebody of a split: (situation, sentence)."""
    shelf = library()
    situations = {shelf.get(one).situation.id: shelf.get(one).situation for one in shelf.ids(split)}  # pyright: ignore[reportArgumentType]
    return tuple(
        (name, anchor.text)
        for name, situation in situations.items()
        for _, anchor in situation.anchors.each()
    )


def collect_other_situations_anchor_sentences(persona: Persona) -> list[str]:
    """Sentences that would be very good for somebody else."""
    return [
        text for name, text in collect_anchor_sentences("train") if name != persona.situation.id
    ]


def _attack_with_other_situations_anchors(
    persona: Persona, seed: int, messages: Sequence[Message]
) -> str:
    return " ".join(
        make_rng(seed, messages).sample(collect_other_situations_anchor_sentences(persona), 3)
    )


def _attack_with_oracle_reply(persona: Persona, seed: int, messages: Sequence[Message]) -> str:
    return Oracle(persona).reply(tuple(messages[:1]))


def _attack_with_paraphrased_oracle_reply(
    persona: Persona, seed: int, messages: Sequence[Message]
) -> str:
    lead, end = (pick_phrase(_TEXTS[one], seed, messages) for one in ("leads", "affirmations"))
    return f"{lead}{_attack_with_oracle_reply(persona, seed, messages)} {end}"


def _attack_with_mixed_function_words(
    persona: Persona, seed: int, messages: Sequence[Message]
) -> str:
    rng = make_rng(seed, messages)
    little = "you your that it the a of in and is to for this there on with".split()
    theirs = sorted(content_stems(messages[-1].text)) or ["it"]
    first = [*rng.choices(little, k=20), rng.choice(theirs)]
    return " ".join([*first, *rng.choices(little, k=14), rng.choice(theirs)]) + "."


def _attack_with_shuffled_phrases(persona: Persona, seed: int, messages: Sequence[Message]) -> str:
    rng = make_rng(seed, messages)
    left = words(" ".join([swap_pronouns(last_user_line(messages)), *rng.sample(STOCK, 5)]))
    pieces = []
    while left:
        size = rng.randint(1, 3)
        pieces.append(" ".join(left[:size]))
        left = left[size:]
    rng.shuffle(pieces)
    return " ".join(piece for piece in pieces[:16] for _ in range(rng.choice((1, 1, 1, 2)))) + "."


def make_phrase_cycling_attack(
    phrases: Sequence[str],
) -> Callable[[Persona, int, Sequence[Message]], str]:
    return lambda persona, seed, messages: pick_phrase(phrases, seed, messages)


FIXED_ATTACKS = (
    Attack(
        "stuffing",
        "cue words and the person's words without grammar",
        _attack_with_keyword_stuffing,
    ),
    Attack(
        "stuffing-in-grammar",
        "the person's words strung together by 'and of the'",
        _attack_with_grammatical_stuffing,
    ),
    Attack(
        "praise", "flattery every turn", make_phrase_cycling_attack(PHRASES["baselines"]["praise"])
    ),
    Attack(
        "comfort", "comfort every turn", make_phrase_cycling_attack(PHRASES["baselines"]["comfort"])
    ),
    Attack(
        "echo", "the person's last words", lambda persona, seed, messages: last_user_line(messages)
    ),
    Attack(
        "echo-flipped",
        "the person's last words with 'you' for 'I'",
        lambda persona, seed, messages: swap_pronouns(last_user_line(messages)),
    ),
    Attack(
        "echo-template",
        "the person's last words in a kind frame",
        lambda persona, seed, messages: (
            f"I hear you: {swap_pronouns(last_user_line(messages))}. That must hurt, tell me more."
        ),
    ),
    Attack("perfect-repeated", "one perfect reply, every turn", _attack_with_oracle_reply),
    Attack(
        "perfect-paraphrased",
        "one perfect reply, lightly varied every turn",
        _attack_with_paraphrased_oracle_reply,
    ),
    Attack("stock", "three stock sentences for any need, rotating", _attack_with_stock_phrases),
    Attack(
        "stock-with-words",
        "stock sentences and six of the person's words",
        _attack_with_stock_phrases_and_user_words,
    ),
    Attack(
        "stock-with-quote",
        "stock sentences and a sentence of the person's turned to 'you'",
        _attack_with_stock_phrases_and_quote,
    ),
    Attack(
        "stitched",
        "sentences that were good for other people",
        _attack_with_other_situations_anchors,
    ),
    Attack(
        "everything",
        "all stock sentences and the person's words at once",
        _attack_with_all_stock_phrases,
    ),
    Attack(
        "gibberish",
        "letters",
        lambda persona, seed, messages: " ".join(
            "".join(make_rng(seed, messages).choices("abcdefghij", k=6)) for _ in range(12)
        ),
    ),
    Attack("salad", "little words stirred, with two of theirs", _attack_with_mixed_function_words),
    Attack(
        "torn-phrases",
        "stock sentences and the person's last words torn into pieces and stirred",
        _attack_with_shuffled_phrases,
    ),
    *(
        Attack(name, one["what"], make_phrase_cycling_attack(one["say"]))
        for name, one in _TEXTS["phrases"].items()
    ),
    Attack("emoji", "hearts", lambda persona, seed, messages: "❤️🤗😢🙏" * (turn_of(messages) + 3)),
)
