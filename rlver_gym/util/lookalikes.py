"""What can be seen of a text: signs without a shape left out, letters that look alike made one."""

import html
import re
import unicodedata
from functools import lru_cache

_LOOKALIKES = str.maketrans(
    "авекмнорстухіјѕԁһɡԛԝґπαβεηικνορτυχωωϲ", "abekmhopctyxijsdhgqwrnabeniknoptuxwwc"
)
_SAME_STROKES = str.maketrans("01i|", "olll")
_UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_JOINERS = ("\u200c", "\u200d")
_AS_PICTURE = "\ufe0f"
_JOINING = re.compile("[\u200c\u200d\ufe0f]")
_REGIONAL_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007f]+")
_TAG = re.compile("[\U000e0020-\U000e007e]")


@lru_cache(maxsize=4_096)
def strip_invisible(text: str) -> str:
    """What can be seen of a text: signs without a shape are left out, but a joiner between two
    letters or pictures, and what makes a picture of a sign.
    """
    text = _TAG.sub("", _REGIONAL_FLAG.sub("\U0001f3f4", text))
    return "".join(
        char
        for before, char, after in zip("\0" + text, text, text[1:] + "\0", strict=False)
        if _is_seen(before, char, after)
    )


def _is_seen(before: str, char: str, after: str) -> bool:
    if char in _JOINERS:
        return _takes_joiners(before) and _takes_joiners(after)
    if char == _AS_PICTURE:
        return unicodedata.category(before) in ("So", "Sm", "Po") and before > "\x7f"
    return not _UNSEEN.match(char) and unicodedata.category(char) != "Cf"


def _takes_joiners(char: str) -> bool:
    """Whether it is a letter of a script that joins, or (part of) a picture."""
    return char == _AS_PICTURE or (
        char >= "\u0600"
        and not "\u2e80" <= char <= "\ud7ff"
        and unicodedata.category(char) in ("Lo", "Mn", "Mc", "So", "Sk")
    )


def normalise(text: str) -> str:
    """Lower case, nothing unseen, no accents, look-alikes of other scripts as Latin letters."""
    text = _TAG.sub(lambda tag: chr(ord(tag.group()) - 0xE0000), _REGIONAL_FLAG.sub("", text))
    seen = _JOINING.sub("", strip_invisible(text))
    text = unicodedata.normalize("NFKD", html.unescape(seen)).casefold().translate(_LOOKALIKES)
    text = "".join(char for char in text if not unicodedata.combining(char))
    return re.sub(r"[^\S\n]+", " ", text.translate(str.maketrans("−–—’‘", "---''"))).strip()


def look_alike(name: str, other: str) -> bool:
    """Whether a reader may take one name for the other."""
    return normalise(name).translate(_SAME_STROKES) == normalise(other).translate(_SAME_STROKES)
