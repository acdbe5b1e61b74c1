"""Text to tokens and back. The only file that knows a chat template.

A dialogue grows by exact ids: `opening`, then what was sampled, then `between`, and so on. Sampled
ids are never tokenized again. What stands around a message is read off the template by rendering
marked messages, so that families that write a dialogue differently once it goes on (Qwen3 drops
thoughts, and shows an empty one only before the newest reply) still give sequences that the policy
really saw.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from rlver_gym.answers.markup import (
    CLOSE,
    OPEN,
    carries_structure,
    close_thought,
    find_open_thought,
)
from rlver_gym.answers.reading import read_answer
from rlver_gym.core.agent import Style
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.user_code import CodeFailed, CodeRunner, CodeTimeout

_FORM = re.compile(r"\s*<think>((?!</?think>).)*</think>((?!</?think>).)*", re.DOTALL)
"""What is asked for in the style "think"."""
_MARKS = ("SYSTEM·MARK", "USER·MARK·1", "AGENT·MARK", "USER·MARK·2")
_RENDER_TIMEOUT_S = 20.0
"""A template is somebody's program, and may loop for ever."""


class ParsedReply(NamedTuple):
    """A reply, taken apart."""

    text: str
    """What the user hears."""
    thought: str
    """What the policy kept to itself."""
    format_error: bool
    """No whole thought first, or no words after it. Never true for direct replies."""


class _TemplateParts(NamedTuple):
    """The text that a template puts around messages."""

    head: str
    """Before the first user message, the system prompt included."""
    cue: str
    """From the end of the newest user message to where the reply begins."""
    answered: str
    """The same, once the dialogue has gone on."""
    tail: str
    """From the end of a reply to the next user message."""


class Renderer:
    """One tokenizer, one system prompt, one style of replying."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, system: str, style: Style = "direct"
    ) -> None:
        """TrainingError without a chat template, or with one that cannot hold such a dialogue."""
        self.tokenizer = tokenizer
        self.style: Style = style
        self._specials = _compile_special_token_pattern(tokenizer)
        self._parts = self._read_template(system)
        self._trims = self._render_marks(user_2=f" {_MARKS[3]} ") == self._render_marks()
        self._opened = find_open_thought(self._parts.cue)
        self.end_of_turn, self._after = self._split_tail()

    @property
    def stop_ids(self) -> frozenset[int]:
        eos = self.tokenizer.eos_token_id
        return frozenset({self.end_of_turn} | ({eos} if isinstance(eos, int) else set()))

    @cached_property
    def note(self) -> str:
        """What the template rewrites, and what is done about it; empty when it rewrites nothing."""
        changes = []
        if self._parts.cue != self._parts.answered:
            changes.append(
                f"begins the newest reply with {self._parts.cue!r}, earlier ones with"
                f" {self._parts.answered!r}"
            )
        if "THOUGHT·MARK" not in self._render_marks(
            agent=f"{OPEN}\nTHOUGHT·MARK\n{CLOSE}\n\n{_MARKS[2]}"
        ):
            changes.append("drops the thoughts of earlier replies")
        if not changes:
            return ""
        kept = (
            "each turn is learned with the prompt it was sampled from"
            if self.style == "think"
            else "the ids that were sampled are kept as they were"
        )
        return (
            f"The chat template rewrites history: it {' and '.join(changes)}. Nothing is rendered"
            f" again; {kept}."
        )

    def opening(self, user: str) -> list[int]:
        return self._ids(self._parts.head + self._format_message(user) + self._parts.cue)

    def between(self, user: str, last_id: int) -> list[int]:
        """What follows a reply that ended in `last_id`, up to where the next one begins."""
        ended = [] if last_id == self.end_of_turn else [self.end_of_turn]
        return ended + self._ids(self._after + self._format_message(user) + self._parts.cue)

    def next_prompt(
        self, ids: list[int], users: Sequence[str], replies: Sequence[str]
    ) -> list[int]:
        """The prompt after the sequence `ids`, empty at first; who thinks begins another one."""
        if self.style == "think":
            return self.prompt(users, replies)
        return ids + self.between(users[-1], ids[-1]) if ids else self.opening(users[0])

    def prompt(self, users: Sequence[str], replies: Sequence[str]) -> list[int]:
        """The prompt of a turn whose history holds what was heard; `users` holds one more."""
        parts = self._parts
        text = parts.head + self._format_message(users[0])
        for reply, user in zip(replies, users[1:], strict=True):
            text += (
                parts.answered
                + self._format_message(reply)
                + parts.tail
                + self._format_message(user)
            )
        return self._ids(text + parts.cue)

    def reply(self, text: str, thought: str = "") -> list[int]:
        """The ids of a whole reply, with a thought first for who thinks, to its end of turn."""
        words = self._format_message(text)
        if self.style == "think":
            opening = "" if self._opened else OPEN
            words = f"{opening}{self._break_specials(thought)}{CLOSE}{words}"
        return [*self._ids(words), self.end_of_turn]

    def parse(self, ids: Sequence[int]) -> ParsedReply:
        """The sampled ids of one reply as text; what may be a thought is not heard."""
        silent = self._silent_ids
        text: str = self.tokenizer.decode(
            [one for one in ids if one not in silent], skip_special_tokens=False
        )  # pyright: ignore[reportAssignmentType]
        return split_thought(self._opened + text, self.style)

    @cached_property
    def _silent_ids(self) -> frozenset[int]:
        """Ids that stand for no words; what tells thoughts from words is none of them."""
        silent = (*self.tokenizer.all_special_ids, self.end_of_turn)
        texts = self.tokenizer.convert_ids_to_tokens(list(silent))
        return frozenset(
            one for one, text in zip(silent, texts, strict=True) if not carries_structure(text)
        )

    def _read_template(self, system: str) -> _TemplateParts:
        if not self.tokenizer.chat_template:
            raise TrainingError(
                f"the tokenizer of {self.tokenizer.name_or_path!r} has no chat template. Take the"
                " model's chat version (its name often ends in -Instruct), or put a"
                " chat_template.jinja into its folder."
            )
        first, whole = self._render_marks(turns=1), self._render_marks()
        if any(whole.count(mark) != 1 for mark in _MARKS):
            raise TrainingError(
                f"the chat template of {self.tokenizer.name_or_path!r} does not show each of a"
                " system prompt, two user messages and a reply once. Mend its chat_template.jinja."
            )
        head, _, rest = whole.partition(_MARKS[1])
        answered, _, rest = rest.partition(_MARKS[2])
        tail, _, cue = rest.partition(_MARKS[3])
        if first != head + _MARKS[1] + cue:
            raise TrainingError(
                f"the chat template of {self.tokenizer.name_or_path!r} renders the first turn"
                " otherwise than later ones; such a family is not supported. Choose another model."
            )
        head = head.replace(_MARKS[0], self._break_specials(system))
        return _TemplateParts(head, self._close_cue(cue), answered, tail)

    def _close_cue(self, cue: str) -> str:
        """Where a reply begins; a thought that it opens is closed for direct replies."""
        closed = cue if self.style == "think" else close_thought(cue)
        if closed is None:
            raise TrainingError(
                f"the chat template of {self.tokenizer.name_or_path!r} opens a thought before each"
                f" reply ({find_open_thought(cue)!r}), so that direct replies would be thoughts."
                " Choose --style think, or take the thought out of its chat_template.jinja."
            )
        return closed

    def _render_marks(self, turns: int = 2, agent: str = _MARKS[2], user_2: str = _MARKS[3]) -> str:
        dialogue: list[dict[str, Any]] = [
            {"role": "system", "content": _MARKS[0]},
            {"role": "user", "content": _MARKS[1]},
        ]
        if turns == 2:
            dialogue += [
                {"role": "assistant", "content": agent},
                {"role": "user", "content": user_2},
            ]
        try:
            return CodeRunner(_RENDER_TIMEOUT_S).call(self._render, dialogue)
        except (CodeFailed, CodeTimeout) as error:
            raise TrainingError(
                f"the chat template of {self.tokenizer.name_or_path!r} cannot render a dialogue"
                f" ({error}). Mend its chat_template.jinja."
            ) from error

    def _render(self, dialogue: list[dict[str, Any]]) -> str:
        rendered = self.tokenizer.apply_chat_template(
            dialogue,
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=self.style == "think",
        )
        assert isinstance(rendered, str)
        return rendered

    def _split_tail(self) -> tuple[int, str]:
        """The id that ends a reply, and the text from there to the next user message."""
        for match in self._specials.finditer(self._parts.tail):
            token_id = self.tokenizer.convert_tokens_to_ids(match.group())
            assert isinstance(token_id, int)
            return token_id, self._parts.tail[match.end() :]
        raise TrainingError(
            f"the chat template of {self.tokenizer.name_or_path!r} does not end a reply with a"
            f" special token, but with {self._parts.tail!r}. Choose a chat model."
        )

    def _format_message(self, text: str) -> str:
        """The words as the template writes them; special tokens among them are broken."""
        plain = self._break_specials(text)
        return plain.strip() if self._trims else plain

    def _break_specials(self, text: str) -> str:
        return self._specials.sub(lambda match: f"{match.group()[:1]} {match.group()[1:]}", text)

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]  # pyright: ignore[reportReturnType]


def split_thought(text: str, style: Style) -> ParsedReply:
    """A reply taken apart; an unfinished thought leaves silence."""
    answer = read_answer(text)
    whole = bool(answer.words) and _FORM.fullmatch(text) is not None
    return ParsedReply(answer.words, answer.thought, style == "think" and not whole)


def _compile_special_token_pattern(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str]:
    names = {
        token.content for token in tokenizer.added_tokens_decoder.values() if token.special
    } | set(tokenizer.all_special_tokens)
    return re.compile(
        "|".join(re.escape(name) for name in sorted(names - {OPEN, CLOSE}, key=len, reverse=True))
        or r"(?!)"
    )
