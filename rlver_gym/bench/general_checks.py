"""Whether an answer is right, by the item's own rule. Pure."""

import json
import re
from typing import Any

_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")
_MARKS = " \t\n`'\"“”*.!"


def is_answer_correct(answer: str, item: dict[str, Any]) -> bool:
    """Whether an answer fits `is`, `number`, `says` or `rule`; see general.yaml. ValueError for an
    item that has none of them.
    """
    text = answer.strip()
    if "is" in item:
        return text.strip(_MARKS) == item["is"]
    if "number" in item:
        found = _NUMBER.findall(text)
        return bool(found) and found[-1].replace(",", "") == str(item["number"])
    if "says" in item:
        first = re.split(r"[.!?\n]", text.lower(), maxsplit=1)[0]
        others = {"yes": "no", "no": "yes"}
        words = re.findall(r"[a-z]+", first)
        return item["says"] in words and others.get(item["says"]) not in words
    if "rule" in item:
        return all(_RULES[name](text, wanted) for name, wanted in item["rule"].items())
    raise ValueError(f"the item has no check: {item}")


def _is_json(text: str, wanted: Any) -> bool:
    try:
        return json.loads(text.strip("`").removeprefix("json")) == wanted
    except ValueError:
        return False


_RULES: dict[str, Any] = {
    "exactly": lambda text, wanted: text == wanted,
    "words": lambda text, wanted: len(text.split()) == wanted,
    "most_words": lambda text, wanted: 0 < len(text.split()) <= wanted,
    "without": lambda text, wanted: bool(text) and wanted not in text.lower(),
    "capitals": lambda text, _: text.isupper(),
    "begins": lambda text, wanted: text.lower().startswith(wanted),
    "ends": lambda text, wanted: (
        text.lower().rstrip(". \n\"'" if wanted != "?" else " \n").endswith(wanted)
    ),
    "lines": lambda text, wanted: (
        len([line for line in text.splitlines() if line.strip()]) == wanted
    ),
    "json": _is_json,
    "sentences": lambda text, wanted: len(re.findall(r"[.!?](?:\s|$)", text)) == wanted,
    "has": lambda text, wanted: all(word in text.lower() for word in wanted),
}
