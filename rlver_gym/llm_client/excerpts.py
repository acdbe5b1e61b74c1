"""What may be shown of a server's own words: no keys, and nothing that it repeats of the request
but the ordinary words of error messages.
"""

import html
import re
from collections.abc import Collection, Sequence

from rlver_gym.io.terminal import one_line

EXCERPT = 200
"""Most characters shown of what a server says."""
_LOOKED_AT = 1_000
_SHORTEST_OF_KEY = 12
_SHORTEST_OF_WORDS = 16
"""Runs of so many characters are masked where a key, or what was said, holds them."""
_LEAST_SECRET = 5
"""A shorter key or password is too ordinary to be looked for ("none")."""
_KEYS = re.compile(
    r"(?:Bearer|Basic)\s+\S+|\b(?:sk|pk|rk|hf|gsk|xai|key|AIza)[-_]?[\w*.-]{8,}|[A-Za-z0-9_-]{28,}",
    re.IGNORECASE,
)
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})|\\[nrt]")
_WORD = re.compile(r"[^\W\d_]+|\d+")
_HAN = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff]+")
_SEVERAL = re.compile(r"\[…\](?:\W{0,3}\[…\])+")
_ORDINARY = frozenset(
    """a about above accept accepted access account again all allow allowed already also an and
    another answer any api are argument array as asked at attempt authentication
    authorization available backend bad be because been before begin below between body
    bytes busy but by call calls can cannot change character characters chat check choices
    client code com completion completions concurrent connection contact contain contains
    content context correct could credit current currently data day did different do does
    domain down due during each either empty end engine ensure enough entity error errors
    every exceed exceeded exceeds expected expired failed failure few field fields file
    first for forbidden format found free from gateway generate get given go greater grammar
    had has have header headers help here host hour how however http https if in incorrect
    info information input instead internal into invalid is it its json key keys kind last
    later least length less like limit limited limits list load loaded loading long longer
    made make many match maximum memory message messages method milliseconds minimum minute
    minutes missing model models more most must name named need never new no none not
    nothing now null number object of off ok on once one only or org organization other our
    out output over overloaded own page parameter parameters parse path pay payment per
    perhaps permission plan please policy port possible prompt property proxy provide
    provided query queue quota range rate read reached reason reduce refused rejected remove
    request requested requests required requires reset resource response result retry
    retrying role roles root run running same schema second seconds see seed sent server
    service set should shorter size so some something specified start status still stop
    string such supported system temperature text than that the their them then there these
    they this those time timeout times to token tokens too top total try type unable
    unavailable under unexpected unknown unless unsupported until up upgrade upstream url
    use used user using valid value values version very wait was we were what when where
    which while with within without words work would write wrong yet you your zero""".split()
)
"""What error messages are made of: such words give nothing away when a request happens to hold them
too. No names of people are among them.
"""


def mask(text: str, secrets: Sequence[str], request_texts: Sequence[str]) -> str:
    """One line of at most `EXCERPT` characters, without keys and without what it repeats of the
    request, also where that is short: a name, an age.
    """
    text = one_line(html.unescape(_ESCAPED.sub(_unescape, text[:_LOOKED_AT])))
    for secret in secrets:
        if len(secret) >= _LEAST_SECRET:
            text = _mask_runs(text, secret, min(_SHORTEST_OF_KEY, len(secret)), "***")
    text = _KEYS.sub("***", text)
    text = hide_repeated(text, request_texts)
    repeated = "\n".join(request_texts)
    words = {word.casefold() for word in _WORD.findall(repeated)} - _ORDINARY
    text = _HAN.sub(lambda run: _mask_runs(run[0], repeated, 2, "[…]"), text)
    text = _WORD.sub(
        lambda word: "[…]" if _is_telling(word[0]) and word[0].casefold() in words else word[0],
        text,
    )
    return one_line(_SEVERAL.sub("[…]", text), max_chars=EXCERPT)


def hide_repeated(text: str, request_texts: Collection[str]) -> str:
    """The text without the runs that it repeats of the request."""
    repeated = "\n".join(" ".join(one.split()) for one in request_texts)
    return _mask_runs(" ".join(text.split()), repeated, _SHORTEST_OF_WORDS, "[…]")


def _unescape(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 16)) if escaped[1] else " "


def _is_telling(word: str) -> bool:
    return len(word) > 1 or word.isdigit()


def _mask_runs(text: str, source: str, shortest: int, mark: str) -> str:
    """The text with every run of at least `shortest` characters that `source` holds too, in
    capitals or not, replaced by the mark.
    """
    low, source = _lower(text), _lower(source)
    kept, at = [], 0
    while at < len(text):
        length = shortest
        if len(text) - at < shortest or low[at : at + length] not in source:
            kept.append(text[at])
            at += 1
            continue
        while at + length < len(text) and low[at : at + length + 1] in source:
            length += 1
        kept.append(mark)
        at += length
    return "".join(kept)


def _lower(text: str) -> str:
    """In small letters, as many characters as before."""
    return "".join(char.lower() if char.isascii() else char for char in text)
