"""More people and stories of a library, written by a language model: each is checked as a card,
against all that are there, and asked for once more with what is wrong.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from rlver_gym.answers.reading import read_answer
from rlver_gym.core.ledger import KIND_IN_WORDS
from rlver_gym.core.persona import HiddenNeed, Split
from rlver_gym.library.lean import MEETS, LibraryPerson, Story
from rlver_gym.llm_client.values import Chat, ChatMessage, ChatRequest
from rlver_gym.people.library_check import find_new_card_problems
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import STOPPING, CardError, ChatError
from rlver_gym.util.event_loop import wait_for
from rlver_gym.util.field_errors import parse_card
from rlver_gym.util.files import make_file_name, read_lines
from rlver_gym.util.json_lines import append_lines
from rlver_gym.util.json_text import parse_json
from rlver_gym.util.yaml_file import Prompts, load_yaml

_PROMPTS = Prompts(load_yaml("rlver_gym.people", "generate.yaml"))

Kind = Literal["story", "person"]
FOLDERS: dict[Kind, str] = {"story": "stories", "person": "people"}
_DONE = "generated.tsv"
"""Of a library: the topics that were written."""
_TRIES = 3
_MOST_PROBLEMS = 12
_SLUG_WORDS = 6


class Written(NamedTuple):
    """What came of one topic."""

    topic: str
    path: Path | None
    problem: str = ""


@dataclass(frozen=True)
class Writer:
    """A model that writes cards into a library's folder."""

    chat: Chat
    model: str
    folder: Path
    split: Split
    temperature: float = 0.9
    max_tokens: int = 4000

    def write(self, kind: Kind, topics: Sequence[str]) -> Iterator[Written]:
        """A card for each topic that has none, each checked against those before. Raises what stops
        a run.
        """
        missing = self.list_missing(kind, topics)
        for number, topic in enumerate(topics):
            if topic not in missing:
                continue
            try:
                yield wait_for(self._write_one(kind, topic, number))
            except STOPPING:
                raise
            except ChatError as error:
                yield Written(topic, None, str(error))

    def list_missing(self, kind: Kind, topics: Sequence[str]) -> list[str]:
        path = self.folder / _DONE
        lines = read_lines(path, error=CardError) if path.exists() else ()
        done = {_make_key(line.rpartition("\t")[0]) for _, line in lines}
        return [topic for topic in topics if _make_key(f"{kind} {topic}") not in done]

    async def _write_one(self, kind: Kind, topic: str, number: int) -> Written:
        messages = (ChatMessage("user", _build_prompt(kind, topic, number)),)
        problems: list[str] = []
        for sample in range(_TRIES):
            how = {"temperature": self.temperature, "max_tokens": self.max_tokens}
            request = ChatRequest(self.model, messages, sample=sample, **how)
            words = read_answer((await self.chat.complete(request)).text).words
            try:
                card, fields = self._read(kind, words)
            except CardError as error:
                problems = str(error).splitlines()
            else:
                problems = list(find_new_card_problems(self.folder, card))
                if not problems:
                    return Written(topic, self._save(kind, topic, card, fields))
            told = _PROMPTS.fill("again", problems="\n".join(problems[:_MOST_PROBLEMS]))
            messages = (*messages, ChatMessage("assistant", words), ChatMessage("user", told))
        return Written(topic, None, f"{self.model} was asked {_TRIES} times: {problems[0]}")

    def _read(self, kind: Kind, words: str) -> tuple[Story | LibraryPerson, dict[str, Any]]:
        begin, end = words.find("{"), words.rfind("}")
        try:
            written = parse_json(words[begin : end + 1]) if begin >= 0 else None
        except ValueError as error:
            raise CardError(f"it is no JSON object ({error})") from error
        if not isinstance(written, dict):
            raise CardError("it is no JSON object")
        fields = {**written, "split": self.split}
        return parse_card(Story if kind == "story" else LibraryPerson, fields, "the card"), fields

    def _save(
        self, kind: Kind, topic: str, card: Story | LibraryPerson, fields: dict[str, Any]
    ) -> Path:
        name = card.title if isinstance(card, Story) else card.name
        slug = make_file_name(" ".join(name.replace("'", "").split()[:_SLUG_WORDS])) or kind
        folder = self.folder / FOLDERS[kind]
        folder.mkdir(parents=True, exist_ok=True)
        path, count = folder / f"{slug}.yaml", 1
        while path.exists():
            count += 1
            path = folder / f"{slug}-{count}.yaml"
        text = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=160)
        write_atomically(path, f"# Written by {self.model}.\n{text}", CardError)
        line = f"{_make_key(f'{kind} {topic}')}\t{path.name}"
        append_lines(self.folder / _DONE, [line], CardError, is_complete=_names_card)
        return path


def _make_key(topic: str) -> str:
    """A topic with single spaces, so that it stands in one line, before the tab."""
    return " ".join(topic.split())


def _names_card(line: bytes) -> bool:
    return line.endswith(b".yaml")


def _build_prompt(kind: Kind, topic: str, number: int) -> str:
    if kind == "person":
        return _PROMPTS.fill("person", topic=topic)
    needs = [list(HiddenNeed)[(number + step) % len(HiddenNeed)] for step in (0, 3)]
    meets = "; ".join(f"for {need} what {KIND_IN_WORDS[MEETS[need]]}" for need in needs)
    return _PROMPTS.fill("story", topic=topic, needs=", ".join(needs), meets=meets)
