"""One reading of a model's answer: from what a server or a model on this machine gave to words, or
a named reason why there are none. Every supporter, every LLM user, every integration and the
learner's renderer read by it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from rlver_gym.answers.markup import split_thoughts
from rlver_gym.util.yaml_file import load_yaml

Ending = Literal["finished", "cut", "withheld", "broken"]
"""How an answer ended: by itself; at the limit of tokens; by a filter; by a failure."""
Silence = Literal["empty", "thoughts", "thoughts_cut", "withheld", "broken"]
_ENDINGS: dict[str, Ending] = {
    name: ending
    for ending, names in load_yaml("rlver_gym.answers", "endings.yaml").items()
    for name in names
}
SILENCES: dict[Silence, str] = {
    "empty": "it holds no text",
    "thoughts": "it holds thoughts and no words",
    "thoughts_cut": "its thoughts took all the tokens that it may have",
    "withheld": "a content filter of the server withheld it",
    "broken": "the server broke it off",
}
_MAX_PARTS = 1_000
_THOUGHT_PARTS = ("thinking", "redacted_thinking", "reasoning", "reasoning_text", "thought")
_THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking", "thought")


class Answer(NamedTuple):
    """An answer, read."""

    words: str
    """What is heard; empty when `silence` says why."""
    thought: str
    ending: Ending
    silence: Silence | None


class Content(NamedTuple):
    """What a message holds: text, with whatever markup stands in it, and thoughts told apart."""

    text: str
    thought: str
    refusal: str


def read_answer(text: str, finish_reason: str | None = None, *, opened: str = "") -> Answer:
    """The words of a model's text: without thoughts, channels and ends of turns, halves of
    characters made whole. `opened`: the tag with which the prompt began a thought.

    Words that were cut at the limit of tokens are words: they are what the model said until then.
    Whoever asked for a form must look at `ending`.
    """
    split = split_thoughts(mend_surrogates(text), opened)
    ending = classify_ending(finish_reason)
    silence = None if split.words else _classify_silence(split.thought, ending, split.is_open)
    return Answer(split.words, split.thought, ending, silence)


def read_words(text: str) -> str:
    """The words alone, "" where there are none. Halves of characters stay, to be refused."""
    return split_thoughts(text).words


def explain_missing_words(
    silence: Silence | None, option: str = "max_tokens", switch: str = ""
) -> str:
    """Why there are no words, and what to do; `option`: of the limit of tokens by its name."""
    off = "switch the model's thinking off" + (f" ({switch})" if switch else "")
    if silence == "thoughts_cut":
        return f"{SILENCES[silence]}. Raise {option}, or {off}"
    if silence == "thoughts":
        return f"{SILENCES[silence]}. {off[0].upper()}{off[1:]}, or the server's parser of thoughts"
    return SILENCES[silence or "empty"]


def classify_ending(finish_reason: str | None) -> Ending:
    """How an answer ended, by what the server says of it. Unknown words mean that it is whole."""
    name = (finish_reason or "").strip().lower().replace("-", "_").replace(" ", "_")
    return _ENDINGS.get(name.rpartition(".")[2], "finished")


def read_content(message: Mapping[str, Any]) -> Content:
    """The content of a message: a text, one part or a list of parts, with fields of thoughts and a
    refusal beside it, which count where they are texts. TypeError for a content that is none of
    these.
    """
    content = message.get("content")
    if not isinstance(content, str | list | dict | None):
        raise TypeError("a content that is no text")
    texts, thoughts = [], []
    refusals = [text for _, text in _iterate_parts(message.get("refusal"))]
    for kind, text in _iterate_parts(content):
        {"text": texts, "thought": thoughts, "refusal": refusals}[kind].append(text)
    for field in _THOUGHT_FIELDS:
        thoughts += [text for _, text in _iterate_parts(message.get(field))]
    return Content("".join(texts), "".join(thoughts), "".join(refusals))


def explain_silence(content: Content, ending: Ending) -> Silence | None:
    """Why a message holds nothing that could be read; None when it does."""
    if mend_surrogates(content.text).strip(" \t\r\n\ufffd"):
        return None
    return _classify_silence(content.thought, ending, is_open=False)


def mend_surrogates(text: str) -> str:
    """The text with halves of characters, which no file can hold, made whole or replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _classify_silence(thought: str, ending: Ending, is_open: bool) -> Silence:
    if ending in ("withheld", "broken"):
        return ending
    if ending == "cut" or (thought.strip() and is_open):
        return "thoughts_cut" if thought.strip() or ending == "cut" else "empty"
    return "thoughts" if thought.strip() else "empty"


def _iterate_parts(content: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """What the parts of a content are, `text`, `thought` or `refusal`, and what they say."""
    if isinstance(content, str):
        yield "text", content
    elif isinstance(content, list):
        for part in content[:_MAX_PARTS]:
            yield from _iterate_parts(part, depth)
    elif isinstance(content, dict) and depth < 4:
        kind = content.get("type")
        is_thought = kind in _THOUGHT_PARTS or content.get("thought") is True
        named = [content.get(field) for field in ("text", "value", "content", "refusal", "parts")]
        if is_thought:
            named += [content.get(field) for field in (*_THOUGHT_FIELDS, "summary")]
        for value in named:
            for inner, text in _iterate_parts(value, depth + 1):
                kept = "refusal" if kind == "refusal" else inner
                yield ("thought" if is_thought else kept), text
