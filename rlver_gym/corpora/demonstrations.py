"""Demonstrations: dialogues to learn from as they were said, read from a file."""

from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from rlver_gym.corpora.recordings import read_lines
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.field_errors import explain_invalid
from rlver_gym.util.frozen import JsonObject, Text

_REMEDY = "). Write the file with: rlver-gym export … --to sft, or --to openai"


class Demonstration(NamedTuple):
    """What was said in a dialogue, line by line: the person begins, the agent ends."""

    users: tuple[str, ...]
    replies: tuple[str, ...]
    plans: tuple[str, ...]
    """What the agent may have thought before each reply; only a policy that thinks learns it."""
    only_last: bool = False
    """Only the last reply is to be learned: the others are somebody else's."""
    who: str = ""
    """The persona that it was held with; empty where the data does not say."""


class _ChatLine(JsonObject):
    role: Literal["system", "user", "assistant"]
    content: Text


class _Metadata(JsonObject):
    persona: Text = ""


class _Row(JsonObject):
    metadata: _Metadata = _Metadata()
    messages: list[_ChatLine] | None = None
    prompt: list[_ChatLine] = Field(default_factory=list)
    completion: list[_ChatLine] = Field(default_factory=list)

    def to_demonstration(self) -> Demonstration:
        """What was said, without system messages. ValueError when it does not go in turn."""
        told = self.messages or [*self.prompt, *self.completion]
        lines = [line for line in told if line.role != "system"]
        is_in_turn = all(
            line.role == ("user", "assistant")[at % 2] for at, line in enumerate(lines)
        )
        if not lines or len(lines) % 2 or not is_in_turn:
            raise ValueError("it must go user, assistant, user, …, and end with the assistant")
        users = tuple(line.content for line in lines[::2])
        replies = tuple(line.content for line in lines[1::2])
        plans, who = ("",) * len(replies), self.metadata.persona
        return Demonstration(users, replies, plans, self.messages is None, who)


def read_demonstrations(path: Path) -> list[Demonstration]:
    """Those of a JSONL file as `rlver-gym export` writes it: rows of "messages" (--to openai), or
    of "prompt" and "completion" (--to sft).

    System messages are left out: the policy is given a prompt of its own. TrainingError names file
    and line, RecordingError one that is no JSON object.
    """
    demonstrations = []
    for number, value in read_lines(path):
        begin = f"{path}:{number}: is no demonstration ("
        with explain_invalid(TrainingError, begin, "the whole line", _REMEDY):
            demonstrations.append(_Row.model_validate(value).to_demonstration())
    if not demonstrations:
        raise TrainingError(f"{path}: holds no demonstrations.")
    return demonstrations
