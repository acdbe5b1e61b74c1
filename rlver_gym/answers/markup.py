"""What stands around the words of a model's text when nobody took it away: thoughts, channels, ends
of turns. Knows the spellings of model families, and no server.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from rlver_gym.util.json_text import FoundObject, find_objects
from rlver_gym.util.yaml_file import load_yaml

OPEN, CLOSE = "<think>", "</think>"
"""The tags that this package asks a policy for."""
_SPELLINGS: dict[str, list[str]] = load_yaml("rlver_gym.answers", "markup.yaml")


def _any_of(name: str) -> str:
    pattern = "|".join(_SPELLINGS[name])
    return pattern.replace("{B}", r"[ \t]{0,3}").replace("{NAMES}", "|".join(_SPELLINGS["names"]))


_TAG = re.compile(_any_of("thoughts"), re.IGNORECASE)
_CLOSING = frozenset({"/", "\\", "end", "suffix", "5>", "7", "<channel|>"})
_CHANNEL = re.compile(
    r"(?:<\|start\|>[ \t]*assistant[^<\n]{0,80})?"
    r"(?:<\|channel\|>|\A\s*(?=(?:analysis|commentary|final)\s*<\|message\|>))"
    r"\s*(analysis|commentary|final)(?:[^<\n]{0,80}(?:<\|constrain\|>[^<\n]{0,40})?<\|message\|>)?",
    re.IGNORECASE,
)
_BARE_CHANNELS = re.compile(r"\A\s*(?:analysis|commentary)(?=\S).*?assistantfinal", re.DOTALL)
_BARE_ANALYSIS = re.compile(r"\A\s*analysis(?=[A-Z\u4e00-\u9fff])")
_PROSE = re.compile(
    r"\A\s*here(?: is|'s) my thought process:?(.*?)(?:here(?: is|'s) my response:?|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_HEADER = re.compile(rf"\s*(?:{_any_of('headers')})", re.IGNORECASE)
_END = re.compile(_any_of("ends"), re.IGNORECASE)
_TOKEN = re.compile(r"<[|｜][\w▁:-]{1,40}[|｜]>")
"""Any other token of a template: nobody says such a thing."""
_END_OF_STRING = re.compile(r"</s>", re.IGNORECASE)
_WORD = re.compile(r"\S")
_WRAPPER = re.compile(
    r"\A\s*(?:<(answer|response|reply|final|final_answer|output)>|<\|begin_of_solution\|>)",
    re.IGNORECASE,
)
_CLOSED_WRAPPER = re.compile(
    r"</(?:answer|response|reply|final|final_answer|output)>|<\|end_of_solution\|>", re.IGNORECASE
)
_STRUCTURE = re.compile(r"<\|(?:channel|message|start|end|constrain)\|>", re.IGNORECASE)
_QUOTES = "`\"'“”‘’「」"
_NEAR = 120


class Split(NamedTuple):
    """A model's text, taken apart."""

    words: str
    thought: str
    is_open: bool
    """A thought was begun and never ended."""


class _Tag(NamedTuple):
    start: int
    end: int
    name: str
    closes: bool
    is_void: bool
    """It holds nothing, as `<think/>`."""
    is_loud: bool
    """Nobody but a model writes this, closed or not."""


def split_thoughts(text: str, opened: str = "") -> Split:
    """The words that are meant to be heard, and the thoughts. `opened`: the tag with which the
    prompt began a thought.

    A thought is what stands in tags of any family, what stands before a tag that only closes, and
    what stands in a channel other than the final one. Of words that go on after the end of the turn
    only the turn counts. Tags in quotation marks, in the middle of a sentence, or within JSON are
    words.
    """
    text = opened + text
    thoughts: list[str] = []
    words, is_open = _split_channels(text, thoughts)
    words, tag_is_open = _split_tags(words, thoughts)
    words = _cut_after_first_turn(words)
    thought = "\n\n".join(part for part in map(str.strip, thoughts) if part)
    return Split(words, thought, (is_open or tag_is_open))


def find_open_thought(cue: str) -> str:
    """The tag or channel with which a prompt ends when it begins a thought; "" for none."""
    tail = cue.rstrip()
    for tag in _iterate_tags(tail):
        if tag.end == len(tail) and not tag.closes:
            return tail[tag.start :]
    for header in _CHANNEL.finditer(tail):
        if header.end() == len(tail) and header[1].lower() != "final":
            return tail[header.start() :]
    return ""


def close_thought(cue: str) -> str | None:
    """The cue with the thought that it begins ended; None when that has no closing tag."""
    opened = find_open_thought(cue)
    if not opened:
        return cue
    closed = f"{cue}\n{opened[0]}/{opened[1:]}\n\n"
    return None if split_thoughts(closed).is_open else closed


def carries_structure(token: str) -> bool:
    """Whether a special token tells thoughts from words, so that it must not be dropped unread."""
    return bool(_TAG.fullmatch(token) or _STRUCTURE.fullmatch(token))


def holds_markup(text: str) -> bool:
    """Whether anything in the text would be taken for markup of a model."""
    return split_thoughts(text).words != text.strip()


def _split_channels(text: str, thoughts: list[str]) -> tuple[str, bool]:
    """The final channel of a text in channels, and whether it never came."""
    if bare := _BARE_CHANNELS.match(text):
        thoughts.append(bare[0])
        return text[bare.end() :], False
    if bare := _BARE_ANALYSIS.match(text):
        thoughts.append(text[bare.end() :])
        return "", True
    if (prose := _PROSE.match(text)) and prose[1].strip():
        thoughts.append(prose[1])
        return text[prose.end() :], prose.end() == len(text)
    inside = list(find_objects(text))
    headers = [
        header for header in _CHANNEL.finditer(text) if not _is_within(header.start(), inside)
    ]
    if not headers:
        return text, False
    words = text[: headers[0].start()]
    ends = [header.start() for header in headers[1:]] + [len(text)]
    for header, end in zip(headers, ends, strict=True):
        part = text[header.end() : end]
        if header[1].lower() == "final":
            words += part
        else:
            thoughts.append(_cut_after_first_turn(part))
    return words, headers[-1][1].lower() != "final"


def _split_tags(text: str, thoughts: list[str]) -> tuple[str, bool]:
    """The text without what stands in tags, and whether the last of them is never closed."""
    tags = list(_iterate_tags(text))
    closing = _find_closing(tags)
    words, at, had_block = "", 0, False
    for tag, end in zip(tags, closing, strict=True):
        if tag.start < at:
            continue
        words, at = words + text[at : tag.start], tag.end
        if tag.is_void:
            continue
        if tag.closes:  # what stands before it was a thought, unless it is a tag too many
            if _WORD.search(text, at) or not had_block:
                thoughts.append(words)
                words = ""
            had_block = True
        elif end is not None:
            thoughts.append(text[tag.end : end.start])
            words, at, had_block = words + (" " if words.strip() else ""), end.end, True
        elif tag.is_loud:
            thoughts.append(text[tag.end :])
            return words, True
        else:
            words += text[tag.start : tag.end]
    return words + text[at:], False


def _find_closing(tags: list[_Tag]) -> list[_Tag | None]:
    """For each tag the next one that closes it: of its own name, or else of any."""
    closing: list[_Tag | None] = []
    nearest: dict[str, _Tag] = {}
    for tag in reversed(tags):
        closing.append(nearest.get(tag.name) or nearest.get(""))
        if tag.closes:
            nearest[tag.name] = nearest[""] = tag
    return closing[::-1]


def _iterate_tags(text: str) -> Iterator[_Tag]:
    """The tags of thoughts that are no mere mention of one."""
    inside = list(find_objects(text))
    marks = ("slash", "bracket_slash", "edge", "first", "last", "inner", "unused", "pangu", "gemma")
    for tag in _TAG.finditer(text):
        if _is_within(tag.start(), inside) or _is_mention(text, tag):
            continue
        mark = next((tag[group] for group in marks if tag[group]), "").lower()
        name = (tag["name"] or tag["bracket"] or "special").lower()
        is_loud = not tag["bracket"] or tag["bracket"].isupper()
        is_void = bool(tag["void"])
        yield _Tag(tag.start(), tag.end(), name, mark in _CLOSING, is_void, is_loud)


def _is_mention(text: str, match: re.Match[str]) -> bool:
    """Whether somebody speaks of the tag: in quotation marks, or amid a sentence."""
    before = text[max(0, match.start() - _NEAR) : match.start()]
    after = text[match.end() : match.end() + _NEAR]
    if before[-1:] in _QUOTES and after[:1] in _QUOTES and before and after:
        return True
    if not match["name"]:
        return False
    line, rest = before.rpartition("\n")[2], after.partition("\n")[0]
    other = rf"<{'' if match['slash'] else '/'}{re.escape(match['name'])}>"
    if match["slash"]:
        return bool(re.search(rf"\w {other} \w[^<>]* \Z", line) and re.match(r" \w|[.,;!?]", rest))
    return bool(re.search(r"\w \Z", line) and re.match(rf" \w[^<>]* {other}(?: \w|[.,;!?])", rest))


def _is_within(place: int, objects: list[FoundObject]) -> bool:
    return any(span.start <= place < span.end for span in objects)


def _cut_after_first_turn(text: str) -> str:
    """The first turn of the text, without its header, its end and the tags of an answer."""
    text, begin = text.strip(), 0
    while (header := _HEADER.match(text, begin)) or (
        (header := _TOKEN.match(text, begin)) and not _END.match(header[0])
    ):
        begin = header.end()
    text = text[begin:].strip()
    inside, lower = list(find_objects(text)), text.lower()
    endings = [*_END.finditer(text), *_TOKEN.finditer(text)]
    if lower.find("</s>", max(0, lower.find("<s>"))) >= 0 > lower.find("<s>"):
        endings += _END_OF_STRING.finditer(text)  # otherwise it is the end of struck words
    places = [ending.start() for ending in endings if not _is_within(ending.start(), inside)]
    text = text[: min(places, default=len(text))].strip()
    if wrapper := _WRAPPER.match(text):
        text = _CLOSED_WRAPPER.sub("", text[wrapper.end() :]).strip()
    return text
