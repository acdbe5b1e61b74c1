"""The person's own words, turned round: what an echo says."""

import re

from rlver_gym.core.words import FUNCTION_WORDS

_FLIPS = {
    "i": "you", "me": "you", "my": "your", "mine": "yours", "myself": "yourself", "i'm": "you're", "i've": "you've", "i'd": "you'd",
    "i'll": "you'll", "am": "are", "we": "you", "us": "you", "our": "your", "ours": "yours", "ourselves": "yourselves", "we're": "you're", "we've": "you've",
    "we'd": "you'd", "we'll": "you'll", "you": "one", "your": "one's",
}  # fmt: skip
_NUMERALS = frozenset("half both three four five six seven eight nine ten eleven twelve".split())
_WORD = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)?")
_LEAD = re.compile(r"^(?:well|so|and|but|oh|hm|look|i mean|i suppose|anyway|honestly|you know)[,\s]+", re.IGNORECASE)


def turn_round(sentence: str) -> str:
    """A sentence turned to the one who said it: "I held his head." becomes "you held his head"."""

    def flip(found: re.Match[str]) -> str:
        word = found.group()
        return _FLIPS.get(word.lower().replace("’", "'"), word)

    turned = _WORD.sub(flip, _LEAD.sub("", sentence.strip()))
    turned = re.sub(r"\b([Yy]ou) was(n['’]t)?\b", r"\1 were\2", turned).rstrip(".!?… ")
    first = re.split(r"[ '’]", turned, maxsplit=1)[0].lower()
    return turned[:1].lower() + turned[1:] if first in FUNCTION_WORDS or first in _NUMERALS else turned
