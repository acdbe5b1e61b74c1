"""Hear Chinese: acts by phrase, what a text is about by pairs of characters, and whether it is
Chinese at all. A pure function of the text.
"""

import re
from functools import lru_cache
from itertools import pairwise
from typing import Any

from rlver_gym.io.files import load_json
from rlver_gym.text.lexicon import load_data

_HAN = re.compile(r"[\u3400-\u9fff]+")
_ANY = re.compile(r"\S")
_NEGATION = (
    r"(?<!不)(?<!别)(?<!没)(?<!不要)(?<!不是)(?<!没有)"
    r"(?<!不会)(?<!不用)(?<!不必)(?<!不该)(?<!并非)(?<!不需要)(?<!难)"
)
_SENTENCE = re.compile(r"[^。！？!?…\n]+[。！？!?…]*[”’」』）)]*")
_CLAUSE = re.compile(r"[^\s，。！？、：；,.!?:;“”‘’（）()…—《》「」]+")
_NAME = re.compile(
    r"(?<![一每几两这那])张[\u4e00-\u9fff]|[王李刘陈赵吴徐孙郭][\u4e00-\u9fff]|小[王李张刘陈赵吴徐孙郭明红丽芳强伟华军]"
)
"""Surnames that hardly ever begin another word."""
_GAP = "[^。！？!?\n]{0,8}?"


def pattern(phrases: list[str], negatable: bool) -> re.Pattern[str]:
    """Phrases of the lexicon as one pattern; see the file's "about" for their syntax."""
    rows = "|".join("".join(map(_token, phrase.split())) for phrase in phrases)
    return re.compile(f"{_NEGATION if negatable else ''}(?:{rows})")


def _token(token: str) -> str:
    if token == "*":
        return _GAP
    words = "|".join(map(re.escape, token.removeprefix("~").split("|")))
    return f"(?!{words})" if token.startswith("~") else f"(?:{words})"


@lru_cache(maxsize=1)
def acts() -> dict[str, re.Pattern[str]]:
    """The shipped lexicon, compiled."""
    data = load_data("lexicon_zh.json")
    return {
        act: pattern(phrases, act in data["negatable"]) for act, phrases in data["acts"].items()
    }


@lru_cache(maxsize=1)
def load_everyday() -> tuple[frozenset[str], frozenset[str]]:
    """Characters and words that are at home in any talk."""
    data: dict[str, Any] = load_json("rlver_gym.users.embedded", "everyday_zh.json")
    return frozenset("".join(data["characters"])), frozenset(" ".join(data["words"]).split())


@lru_cache(maxsize=8_192)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, blanks left out."""
    return tuple(part for part in (found.strip() for found in _SENTENCE.findall(text)) if part)


@lru_cache(maxsize=16_384)
def content(text: str) -> frozenset[str]:
    """What a text is about: the pairs of neighbouring characters that are neither everyday words
    nor made of everyday characters.
    """
    characters, words = load_everyday()
    return frozenset(
        pair
        for run in _HAN.findall(text)
        for pair in map("".join, pairwise(run))
        if pair not in words and not (pair[0] in characters and pair[1] in characters)
    )


@lru_cache(maxsize=16_384)
def grams(text: str, size: int = 6) -> frozenset[str]:
    """All runs of `size` characters, without blanks and punctuation, 'I' and 'you' folded."""
    run = "".join(_HAN.findall(text)).replace("我", "你")
    return frozenset(run[at : at + size] for at in range(len(run) - size + 1))


def han_share(text: str) -> float:
    """The share of a text's characters that are Chinese or Chinese punctuation, in [0, 1]."""
    count = len(_ANY.findall(text))
    return (
        (
            sum(map(len, _HAN.findall(text)))
            + len(re.findall(r"[，。！？、：；“”‘’（）…—《》\d]", text))
        )
        / count
        if count
        else 0.0
    )


def everyday_share(text: str) -> float:
    """The share of everyday characters among Chinese ones, in [0, 1]: about 0.5 in talk, near 0 in
    a row of keywords.
    """
    characters, _ = load_everyday()
    run = "".join(_HAN.findall(text))
    return sum(char in characters for char in run) / len(run) if run else 0.0


def is_talk(sentence: str, everyday_from: float, clause_from: float, variety_from: float) -> bool:
    """Whether somebody would say that: everyday characters in it, clauses of some length, not the
    same frame over and over; a row of keywords is none.
    """
    clauses = [clause for clause in _CLAUSE.findall(sentence) if _HAN.search(clause)]
    run = "".join(_HAN.findall(sentence))
    threes = [run[at : at + 3] for at in range(len(run) - 2)]
    return (
        bool(clauses)
        and everyday_share(sentence) >= everyday_from
        and sum(map(len, clauses)) >= clause_from * len(clauses)
        and len(set(threes)) >= variety_from * len(threes)
    )


def names(text: str) -> frozenset[str]:
    """The first two characters of what must be somebody's name."""
    return frozenset(_NAME.findall(text))
