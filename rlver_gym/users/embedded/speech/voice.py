"""Voice: a person's verbal habits before and behind what they tell."""

from rlver_gym.core.words import FUNCTION_WORDS, split_words
from rlver_gym.users.embedded.speech.moment import Moment

_OFTEN = 0.35
"""How often a text is coloured."""
_SHORT = 4
"""Words of a text that is left as it is."""


def coloured(moment: Moment, text: str) -> str:
    """The text with one of their habits before or behind it, now and then."""
    chance = moment.chance("colour")
    if chance >= _OFTEN or len(split_words(text)) < _SHORT:
        return text
    spoken = "\n".join(moment.dialogue.user_lines).casefold()
    before = [one for one in moment.manner.openers if one.casefold() not in spoken]
    after = [one for one in moment.manner.tags if one.casefold() not in spoken]
    if before and chance < 0.5 * _OFTEN:
        opener = moment.choose("opener", before)
        return f"{opener} {text if opener.endswith('.') else _lowered(text)}"
    return f"{text} {moment.choose('tag', after)}" if after and text.endswith(".") else text


def _lowered(text: str) -> str:
    """The text as it goes on behind a comma: small, where it does not begin with a name or I."""
    first = text.split(" ", 1)[0].rstrip(",.'").casefold().partition("'")[0]
    return text[0].lower() + text[1:] if first in FUNCTION_WORDS and first != "i" else text
