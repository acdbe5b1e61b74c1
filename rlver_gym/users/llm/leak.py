"""What a person never says: their hidden need by its name, and anything about the machinery.

Finds it, and cuts it out.
"""

import re
import unicodedata
from functools import lru_cache

from rlver_gym.core.persona import HiddenNeed
from rlver_gym.users.llm.prompts import LANGUAGES, words

_SENTENCE = re.compile(r"[^.!?…。！？\n]+[.!?…。！？]*[\"'”’」)]*")


def leaks(reply: str, need: HiddenNeed) -> bool:
    """Whether the reply names the need or the machinery, in any of our languages."""
    return bool(_compile_forbidden(need).search(_normalise(reply)))


def remove_leaks(reply: str, need: HiddenNeed) -> str:
    """The reply without the sentences that do; empty when nothing is left."""
    kept = [sentence for sentence in _SENTENCE.findall(reply) if not leaks(sentence, need)]
    rest = "".join(kept).strip()
    return "" if leaks(rest, need) else rest


def _normalise(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@lru_cache(maxsize=16)
def _compile_forbidden(need: HiddenNeed) -> re.Pattern[str]:
    phrases = {need.value, need.value.replace("_", " ")} - _SINGLE
    for language in LANGUAGES:
        said = words(language)
        phrases |= {said.needs[need], *said.named[need], *said.never_said}
    found = sorted((re.escape(_normalise(phrase)) for phrase in phrases), key=len, reverse=True)
    return re.compile("|".join(rf"(?<![a-z]){phrase}(?![a-z])" for phrase in found))


_SINGLE = frozenset({"listening", "reflection", "motives"})
"""Labels that are everyday words. People may say them; the phrases in which they would name the
need are listed with the prompts.
"""
