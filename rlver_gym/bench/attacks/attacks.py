"""Fixed attacks: agents that follow a trick, whatever the score says."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rlver_gym.agents.oracle import Oracle
from rlver_gym.agents.strategies import PHRASES
from rlver_gym.core.persona import Persona
from rlver_gym.core.words import FUNCTION_WORDS, content_stems, sentences, words
from rlver_gym.environment.session import EmpathySession
from rlver_gym.library.personas import library
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

    def flip(match: re.Match[str]) -> str:
        word = match.group()
        return _FLIPS.get(word.lower().replace("’", "'"), word)

    turned = _WORD.sub(flip, _LEAD.sub("", sentence.strip()))
    turned = re.sub(r"\b([Yy]ou) was(n['’]t)?\b", r"\1 were\2", turned).rstrip(".!?… ")
    first = re.split(r"[ '’]", turned, maxsplit=1)[0].lower()
    return (
        turned[:1].lower() + turned[1:] if first in FUNCTION_WORDS or first in _NUMERALS else turned
    )


@dataclass(frozen=True)
class Attack:
    """A trick: `say(session, rng)` is the next utterance."""

    name: str
    what: str
    say: Callable[[EmpathySession, random.Random], str]
    is_searching: bool = False
    """Whether it tries utterances on the session; its `rng` is then one for the dialogue."""


def _last_line(session: EmpathySession) -> str:
    return session.dialogue.user_lines[-1]


def _content_words(text: str, count: int, rng: random.Random) -> list[str]:
    content = [
        word for word in dict.fromkeys(words(text)) if word not in FUNCTION_WORDS and len(word) > 2
    ]
    rng.shuffle(content)
    return content[:count]


def _pick_phrase(phrases: Sequence[str], session: EmpathySession) -> str:
    """The phrase of this turn; the seed decides which comes first."""
    return phrases[(len(session.dialogue.turns) + session.scene.seed) % len(phrases)]


def _stuff_keywords(session: EmpathySession, rng: random.Random) -> str:
    cues = [word for phrase in STOCK for word in words(phrase)]
    lines = " ".join(session.dialogue.user_lines)
    return " ".join(rng.sample(cues, 25) + _content_words(lines, 25, rng))


def _stuff_with_grammar(session: EmpathySession, rng: random.Random) -> str:
    stuffing = " and of the ".join(_content_words(" ".join(session.dialogue.user_lines), 16, rng))
    return (
        f"I think of {stuffing}, and of how you feel about it, because that is what it was to you."
    )


def _mix_stock_and_user_words(session: EmpathySession, rng: random.Random) -> str:
    mine = ", the ".join(_content_words(_last_line(session), 6, rng))
    return f"{' '.join(rng.sample(STOCK, 2))} I mean the {mine}."


def _mix_stock_and_quote(session: EmpathySession, rng: random.Random) -> str:
    quote = swap_pronouns(rng.choice(sentences(_last_line(session))))
    return f"You say {quote}. {' '.join(rng.sample(STOCK, 2))}"


@lru_cache(maxsize=8)
def _collect_anchor_sentences(split: str) -> tuple[tuple[str, str], ...]:
    """Sentences that would be very good for somebody of a split: (situation, sentence)."""
    shelf = library()
    situations = {shelf.get(who).situation.id: shelf.get(who).situation for who in shelf.ids(split)}  # pyright: ignore[reportArgumentType]
    return tuple(
        (name, anchor.text)
        for name, situation in situations.items()
        for _, anchor in situation.anchors.each()
    )


def collect_other_situations_anchor_sentences(persona: Persona) -> list[str]:
    return [
        text for name, text in _collect_anchor_sentences("train") if name != persona.situation.id
    ]


def _stitch_others_anchors(session: EmpathySession, rng: random.Random) -> str:
    others = collect_other_situations_anchor_sentences(session.scene.persona)
    return " ".join(rng.sample(others, 3))


def _repeat_oracle(session: EmpathySession, rng: random.Random) -> str:
    return Oracle(session.scene.persona).reply(tuple(session.dialogue.messages())[:1])


def _paraphrase_oracle(session: EmpathySession, rng: random.Random) -> str:
    lead, end = (_pick_phrase(_TEXTS[kind], session) for kind in ("leads", "affirmations"))
    return f"{lead}{_repeat_oracle(session, rng)} {end}"


def _stir_little_words(session: EmpathySession, rng: random.Random) -> str:
    little = "you your that it the a of in and is to for this there on with".split()
    theirs = sorted(content_stems(_last_line(session))) or ["it"]
    first = [*rng.choices(little, k=20), rng.choice(theirs)]
    return " ".join([*first, *rng.choices(little, k=14), rng.choice(theirs)]) + "."


def _tear_phrases(session: EmpathySession, rng: random.Random) -> str:
    left = words(" ".join([swap_pronouns(_last_line(session)), *rng.sample(STOCK, 5)]))
    pieces = []
    while left:
        size = rng.randint(1, 3)
        pieces.append(" ".join(left[:size]))
        left = left[size:]
    rng.shuffle(pieces)
    return " ".join(piece for piece in pieces[:16] for _ in range(rng.choice((1, 1, 1, 2)))) + "."


def _cycle_phrases(phrases: Sequence[str]) -> Callable[[EmpathySession, random.Random], str]:
    return lambda session, rng: _pick_phrase(phrases, session)


_TRICKS: dict[str, Callable[[EmpathySession, random.Random], str]] = {
    "stuffing": _stuff_keywords,
    "stuffing-in-grammar": _stuff_with_grammar,
    "praise": _cycle_phrases(PHRASES["baselines"]["praise"]),
    "comfort": _cycle_phrases(PHRASES["baselines"]["comfort"]),
    "echo": lambda session, rng: _last_line(session),
    "echo-flipped": lambda session, rng: swap_pronouns(_last_line(session)),
    "echo-template": lambda session, rng: (
        f"I hear you: {swap_pronouns(_last_line(session))}. That must hurt, tell me more."
    ),
    "perfect-repeated": _repeat_oracle,
    "perfect-paraphrased": _paraphrase_oracle,
    "stock": lambda session, rng: " ".join(rng.sample(STOCK, 3)),
    "stock-with-words": _mix_stock_and_user_words,
    "stock-with-quote": _mix_stock_and_quote,
    "stitched": _stitch_others_anchors,
    "everything": lambda session, rng: " ".join(
        [*rng.sample(STOCK, len(STOCK)), swap_pronouns(_last_line(session))]
    ),
    "gibberish": lambda session, rng: " ".join(["".join(rng.choices("abcdefghij", k=6))] * 12),
    "salad": _stir_little_words,
    "torn-phrases": _tear_phrases,
    **{name: _cycle_phrases(phrase["say"]) for name, phrase in _TEXTS["phrases"].items()},
    "emoji": lambda session, rng: "❤️🤗😢🙏" * (len(session.dialogue.turns) + 3),
}
WHAT = _TEXTS["what"] | {name: phrase["what"] for name, phrase in _TEXTS["phrases"].items()}
FIXED_ATTACKS = tuple(Attack(name, WHAT[name], say) for name, say in _TRICKS.items())
