"""What may be shown of a server's own words: no keys, and nothing said in the request."""

import html
import re
from collections.abc import Collection, Sequence
from functools import cache
from importlib.resources import files

from rlver_gym.util.secret_words import hide_keys
from rlver_gym.util.terminal import one_line

EXCERPT = 200
_LOOKED_AT = 1_000
_SHORTEST_OF_KEY, _SHORTEST_OF_WORDS = 12, 16
"""Runs of so many characters are masked where a key, or what was said, holds them."""
_LEAST_SECRET = 5
"""A shorter key or password is too ordinary to be looked for ("none")."""
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})|\\[nrt]")
_WORD = re.compile(r"[^\W\d_]+|\d+")
_HAN = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff]+")
_SEVERAL = re.compile(r"\[…\](?:\W{0,3}\[…\])+")


@cache
def _ordinary_words() -> frozenset[str]:
    """What error messages are made of, no names among them: such words are shown."""
    text = (files("rlver_gym.llm_client") / "ordinary_words.txt").read_text(encoding="utf-8")
    return frozenset(text.split())


def mask(text: str, secrets: Sequence[str], request_texts: Sequence[str]) -> str:
    """At most `EXCERPT` characters, without keys and without what it repeats of the request."""
    unescaped = _ESCAPED.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else " ", text[:_LOOKED_AT]
    )
    text = one_line(html.unescape(unescaped))
    for secret in secrets:
        if len(secret) >= _LEAST_SECRET:
            text = _mask_runs(text, secret, min(_SHORTEST_OF_KEY, len(secret)), "***")
    text = hide_repeated(hide_keys(text), request_texts)
    repeated = "\n".join(request_texts)
    words = {word.casefold() for word in _WORD.findall(repeated)} - _ordinary_words()
    words = {word for word in words if len(word) > 1 or word.isdigit()}
    text = _HAN.sub(lambda run: _mask_runs(run[0], repeated, 2, "[…]"), text)
    text = _WORD.sub(lambda word: "[…]" if word[0].casefold() in words else word[0], text)
    return one_line(_SEVERAL.sub("[…]", text), max_chars=EXCERPT)


def hide_repeated(text: str, request_texts: Collection[str]) -> str:
    repeated = "\n".join(" ".join(text.split()) for text in request_texts)
    return _mask_runs(" ".join(text.split()), repeated, _SHORTEST_OF_WORDS, "[…]")


def _mask_runs(text: str, source: str, shortest: int, mark: str) -> str:
    low, source = _lower(text), _lower(source)
    kept, at = [], 0
    while at < len(text):
        end = at + shortest
        if end > len(text) or low[at:end] not in source:
            kept.append(text[at])
            at += 1
            continue
        while end < len(text) and low[at : end + 1] in source:
            end += 1
        kept.append(mark)
        at = end
    return "".join(kept)


def _lower(text: str) -> str:
    return "".join(char.lower() if char.isascii() else char for char in text)
