"""SAGE's and RLVER's own profiles as lean cards: what a scene tells, sentence by sentence, and in
English with "I" for the person. By rule: nobody looked at what comes out.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import ValidationError

from rlver_gym.core.lean import LeanCard
from rlver_gym.core.library import field_errors
from rlver_gym.core.words import split_sentences
from rlver_gym.data.record_lines import ProfileLine
from rlver_gym.data.sage import disposition_of, need_of, story_of
from rlver_gym.io.errors import CardError

_WHEN = {
    "en": ("at first", "then", "after that", "later", "later still", "in the end"),
    "zh": ("起初", "然后", "之后", "后来", "再后来", "最后"),
}
_NOTHING_SAID = {"en": "Something has been on my mind lately.", "zh": "最近有件事，想找人说说。"}
_PARTS = (
    ("tried", re.compile(r"tried|尝试过", re.IGNORECASE)),
    ("now", re.compile(r"current status|当前状态|现状", re.IGNORECASE)),
    ("facts", re.compile(r"conflict|problem|challenge|cause:|冲突|困难|问题", re.IGNORECASE)),
    ("timeline", re.compile(r"cause of|course|timeline|起因|经过|时间线", re.IGNORECASE)),
)
"""By the heading of a part of a scene, where its sentences belong; what comes first wins."""
_MARKS = re.compile(r"[*#>]+|^\s*(?:-|\d+[.、)])\s*")
_STAGED = re.compile(r"\bNPC\b|\bemotion\b|情绪(?:较|极|高|低|一般|中等|平和)|处于\S{0,4}情绪")
"""How the person will react, which is no part of the story."""
_MOST_HEADING, _MOST, _LEAST_FACTS = 60, 580, 5
_FIELDS = {
    "name": r"(?:Name|姓名)", "age": r"(?:Age|年龄)", "gender": r"(?:Gender|性别)",
    "work": r"(?:Occupation|职业)",
}  # fmt: skip
_STYLE = re.compile(r"(?:Speaking style|说话风格)[：:]")
_OWN = (
    (r"\b(?:himself|herself)\b", "myself"),
    (r"\b(?:[Hh]is|[Hh]er)(?= \w)(?! (?:to|that|and|for|in|at|on|with|about|as)\b)", "my"),
    (r"\b(?:him|her)\b", "me"),
    (r"\b[Ss]he\b|\b[Hh]e\b", "I"),
    (r"\bI (is)\b", "I am"), (r"\bI (has)\b", "I have"), (r"\bI (does)\b", "I do"),
    (r"\bI (doesn[’']t)", "I don't"), (r"\bI (\w*[a-z])ies\b", r"I \1y"),
    (r"\bI (\w+(?:ss|sh|ch|x|z|go))es\b", r"I \1"), (r"\bI (?!was\b|\w+ss\b)(\w+)s\b", r"I \1"),
)  # fmt: skip
"""From somebody told of to somebody who tells; wrong where another "she" is meant."""


def profile_card(profile: Mapping[str, Any]) -> LeanCard:
    """One line of a SAGE or RLVER profile file as a lean card in the profile's language; CardError
    names what is missing.
    """
    try:
        line = ProfileLine.model_validate(profile)
        return LeanCard.model_validate(_fields(line))
    except ValidationError as error:
        raise CardError(
            f"the profile cannot be used ({'; '.join(field_errors(error))}). Give a line of a SAGE"
            " or RLVER profile file."
        ) from None


def _fields(line: ProfileLine) -> dict[str, Any]:
    language = "zh" if re.search(r"[一-鿿]", line.player) else "en"
    about = {field: _read(line.player, name) for field, name in _FIELDS.items()}
    is_female = about["gender"].lower().startswith(("f", "女"))
    parts: dict[str, list[str]] = {"timeline": [], "facts": [], "tried": [], "now": []}
    for part, sentence in _sentences(story_of(line.scene), language):
        own = _as_own(sentence, about["name"]) if language == "en" else sentence
        parts[part].append(own[:_MOST])
    told, times = [*parts["timeline"], *parts["facts"]], _WHEN[language]
    facts = (told[len(times) :] or told)[:100]
    style = _STYLE.split(line.player, maxsplit=1)[-1]
    habits = [one for one in map(_plain, line.player.split("\n")) if len(one) > _MOST_HEADING]
    return {
        "name": about["name"].split(" ")[-1],
        "age": min(99, max(16, int(re.sub(r"\D", "", about["age"]) or 30))),
        "gender": "female" if is_female else "male",
        "work": about["work"],
        "disposition": disposition_of(line.main_cha),
        "traits": [*line.cha_group, *habits][:8],
        "speaks": _plain(style.replace("\n", " "))[:_MOST],
        "title": told[0][:80] if told else "",
        "timeline": dict(zip(times, told, strict=False)),
        "tried": parts["tried"][:20] or facts[:1],
        "now": " ".join(parts["now"])[:_MOST] or (facts or [""])[-1],
        "openings": {"normal": line.first_talk or _NOTHING_SAID[language]},
        "facts": facts if len(facts) >= _LEAST_FACTS else (facts * _LEAST_FACTS)[:_LEAST_FACTS],
        "need": need_of(line.task),
        "language": language,
        "meets": [line.task] * 3,
    }


def _read(player: str, field: str) -> str:
    found = re.search(rf"(?m)^\W*{field}\W*?[：:]\s*([^\n]{{1,200}})", player)
    return found.group(1).strip() if found else ""


def _plain(text: str) -> str:
    return _MARKS.sub("", text).strip()


def _sentences(story: str, language: Literal["en", "zh"]) -> Iterator[tuple[str, str]]:
    """Each sentence of a story with the part of a card that it belongs to."""
    part = "timeline"
    for line in story.split("\n"):
        head, colon, text = _plain(line).replace("：", ":").partition(":")
        is_heading = len(head) <= _MOST_HEADING and (bool(colon) or not head.endswith((".", "。")))
        if is_heading:
            part = next((one for one, words in _PARTS if words.search(head + colon)), part)
        else:
            text = _plain(line)
        found = (
            split_sentences(text) if language == "en" else re.findall(r"[^。！？]+[。！？]?", text)
        )
        yield from (
            (part, one.strip()) for one in found if len(one.strip()) > 3 and not _STAGED.search(one)
        )


def _as_own(sentence: str, name: str) -> str:
    """With "I" for who is called so."""
    names = "|".join(map(re.escape, (name, *name.split(" "))))
    sentence = re.sub(rf"\b(?:{names})[’']s\b", "my", sentence)
    sentence = re.sub(rf"\b(?:{names})\b", "I", sentence)
    for other, own in _OWN:
        sentence = re.sub(other, own, sentence)
    return sentence[:1].upper() + sentence[1:]
