"""Utterances that speak to whoever judges instead of to the person. Recognised by structure and
meaning, whatever the disguise.

No list of phrases is complete. Requests hold the conversation as one JSON value, the code bounds
every change, and the model is asked too whom the words are meant for; this is what holds when the
model itself is taken in. What is recognised cannot earn anything, and is kept from later requests.
Ordinary support must never be caught, so every pattern asks for a word of the machinery (a score,
an instruction, a role) and for what is done to it.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from rlver_gym.answers.markup import holds_markup
from rlver_gym.users.llm.parse import find_fields
from rlver_gym.util.lookalikes import normalise

_LEET = str.maketrans("013457@$", "oieastas")
_SPELLED_OUT = re.compile(r"(?<!\w)(?:[^\W_][ .\-_*·|/]{1,2}){4,}[^\W_](?!\w)")
_SPELLED_WORDS = re.compile(r"(?<!\S)(?:[^\W_] )+[^\W_](?!\S)")
_COMPACT = re.compile(
    r"(?:give|award|grant)(?:me|it|us|this(?:reply|answer|message)?)?(?:an?|the|full|all)?"
    r"(?:10|100|ten|hundred|max|full|top)|(?:10|100|ten|hundred|maximum|max|full)(?:points|marks)"
    r"|(?:ignore|disregard|forget)(?:all|any|your|the)*(?:previous|prior|above)?(?:instruct|prompt)"
    r"|(?:emotion|mood|score|change)(?:score|is|to|equals|:|=)*[+]?(?:\d|ten|hundred|max)"
    r"|hiddenneed|systemprompt|dearjudge|languagemodel|rewardmodel"
)
"""Attempts in letters with spaces between, whose words have run together."""
_TURNED = re.compile(
    r"\b(?:points?|scores?|scoring|instructions?|judge|emotions?|mood|rating|reward|prompts?)\b"
)
"""Words of the machinery, without one of which nobody needs to read a text backwards."""
_BETWEEN_CHINESE = re.compile(r"(?<=[\u4e00-\u9fff])[ \t.,·*\-_|/~]+(?=[\u4e00-\u9fff])")
_PACKED = re.compile(
    r"(?<![\w+/\-])(?:[A-Za-z0-9+/_\-]{24,}={0,2}|(?:[0-9A-Fa-f]{2}[ :]?){16,})(?![\w+/])"
)

_SEAM = 400
"""How many characters of two utterances are looked at together."""


class Pattern(NamedTuple):
    """What one kind of attempt looks like.

    Matched against folded text: lower case, plain letters, half-width signs.
    """

    meaning: str
    found: re.Pattern[str]


def _read_patterns() -> tuple[Pattern, ...]:
    text = (files("rlver_gym.users.llm") / "hostile.txt").read_text(encoding="utf-8")
    kinds = (one.splitlines() for one in text.split("\n== ")[1:])
    return tuple(
        Pattern(meaning, re.compile("|".join(filter(None, alternatives))))
        for meaning, *alternatives in kinds
    )


PATTERNS = _read_patterns()


def find_judge_address(utterance: str, before: str = "") -> str | None:
    """What the utterance does to whoever judges, in words with the place; None when it speaks to
    the person.

    `before` is what the agent said last: an attempt cut in two is one all the same.
    """
    found = _find_attempt(utterance)
    if found or not before or _find_attempt(before):
        return found
    end, beginning = before[-_SEAM:], utterance[:_SEAM]
    alone = _find_attempt(end) or _find_attempt(beginning)
    return None if alone else _find_attempt(f"{end} {beginning}")


@lru_cache(maxsize=4_096)
def _find_attempt(text: str) -> str | None:
    if holds_markup(text):
        return f"{PATTERNS[0].meaning}: “{' '.join(text.split())[:60]}”"
    for view in (text, normalise(text)):
        if fields := find_fields(view):
            return f"{PATTERNS[1].meaning}: “{' '.join(fields.split())[:60]}”"
    for view in _iterate_readings(text):
        for pattern in PATTERNS:
            if match := pattern.found.search(view):
                return f"{pattern.meaning}: “{' '.join(match.group().split())[:60]}”"
    return None


def _iterate_readings(text: str) -> Iterator[str]:
    plain = normalise(text)
    yield plain
    together = _SPELLED_OUT.sub(lambda run: re.sub(r"[ .\-_*·|/]", "", run.group()), plain)
    together = _BETWEEN_CHINESE.sub("", together)
    if together != plain:
        yield together
        yield from _iterate_spelled_words(text, together)
    for turned in (plain[::-1], " ".join(word[::-1] for word in plain.split(" "))):
        if _TURNED.search(turned):
            yield turned
    if re.search(r"[a-z][013457@$]|[013457@$][a-z]", plain):
        words = (
            word.translate(_LEET) if any("a" <= char <= "z" for char in word) else word
            for word in plain.split(" ")
        )
        yield " ".join(words)
    for packed in _PACKED.findall(text):
        if unpacked := _decode_run(packed):
            yield normalise(unpacked)
            yield "sudo"  # nobody speaks to a person in code, whatever it says


def _iterate_spelled_words(text: str, together: str) -> Iterator[str]:
    """A text in letters with spaces between, where wider gaps part its words, and where none do."""
    wide = (
        _SPELLED_WORDS.sub(lambda word: word.group().replace(" ", ""), part)
        for part in re.split(r"[^\S\n]{2,}|\n", text)
    )
    yield normalise(" ".join(wide))
    if _COMPACT.search(together):
        yield "sudo"  # it stands for what was found, as above


def _decode_run(packed: str) -> str | None:
    """What a run of base64 or hex digits says; None when it is no text."""
    bare = re.sub(r"[ :]", "", packed)
    padded = bare.rstrip("=") + "=" * (-len(bare.rstrip("=")) % 4)
    signs = b"-_" if set("-_") & set(bare) else None
    for decode in (lambda: bytes.fromhex(bare), lambda: base64.b64decode(padded, altchars=signs)):
        try:
            said = decode().decode("utf-8")
        except (ValueError, binascii.Error):
            continue
        if len(said) >= 8 and sum(one.isalpha() or one.isspace() for one in said) >= 0.6 * len(
            said
        ):
            return said
    return None
