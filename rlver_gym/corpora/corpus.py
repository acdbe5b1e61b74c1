"""The corpus of rated replies: what supporters said to the shipped people, and what readers in the
person's place made of it.

A corpus is a folder: `dialogues.jsonl` and `moments.jsonl` hold the replies, `ratings.jsonl` what
they were worth, `supporters.json` who spoke. research/corpus.md is its datasheet.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, StringConstraints

from rlver_gym.core.capabilities import FACTORS, Factors
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.corpora.recordings import read_lines
from rlver_gym.util.errors import RecordingError
from rlver_gym.util.field_errors import explain_invalid
from rlver_gym.util.files import read_text
from rlver_gym.util.frozen import JsonObject, Name, Text
from rlver_gym.util.json_lines import append_lines
from rlver_gym.util.json_text import parse_json

MAX_THOUGHT_CHARS = 400
ENV = "SAGE-Sentient-v0"
"""Where its dialogues were held, and whose rules end one by readers' changes."""
SUPPORTERS, DIALOGUES, MOMENTS = "supporters.json", "dialogues.jsonl", "moments.jsonl"
RATINGS = "ratings.jsonl"
CORPUS_FILES = (SUPPORTERS, DIALOGUES, MOMENTS, RATINGS)
_START = 40
"""The emotion with which every rated dialogue began."""
_MAX_BYTES = 1 << 20
"""Of the list of supporters."""

Split = Literal["train", "test"]
Thought = Annotated[str, StringConstraints(min_length=1, max_length=MAX_THOUGHT_CHARS)]
Change = Annotated[int, Field(ge=-10, le=10)]
Kind = TypeVar("Kind", bound=JsonObject)


class Supporter(JsonObject):
    """Who spoke: a language model in a role, or a machine of this package."""

    name: Name
    split: Split
    kind: Literal["role", "machine"]
    brief: Annotated[str, StringConstraints(max_length=2_000)]


class DialogueTurn(JsonObject):
    """One turn of a dialogue: the supporter, then the person."""

    agent: Text
    user: Text
    id: Name | None = None
    """The reply's, when it was rated."""


class DialogueLine(JsonObject):
    """A whole dialogue of one supporter with one person."""

    id: Name
    supporter: Name
    persona: Name
    seed: int
    opening: Text
    turns: list[DialogueTurn]


class Candidate(JsonObject):
    """One of several replies to a moment."""

    id: Name
    supporter: Name
    text: Text


class MomentLine(JsonObject):
    """A dialogue up to some point, and what several supporters said then, each as if it alone came
    next.
    """

    id: Name
    source: Name
    """Where the turns come from: "opening", a dialogue's id, a machine's name, or "an earlier
    dialogue" that is not in the corpus.
    """
    persona: Name
    seed: int
    opening: Text
    turns: list[DialogueTurn]
    replies: list[Candidate]


class UserRating(JsonObject):
    """What a user in the person's place made of one reply; it is asked for no factor."""

    reply: Name
    reader: Name
    """The user and its version."""
    thought: Thought | None = None
    change: Change


class Rating(Factors):
    """What one reader made of one reply, the thought first."""

    reply: Name
    reader: Name
    """One sitting."""
    thought: Thought
    words: Annotated[str, StringConstraints(max_length=1_000)]
    """The false words; empty without any."""
    change: Change

    def of(self, name: str) -> int:
        """One factor, or the change."""
        return getattr(self, name)


@dataclass(frozen=True, slots=True)
class RatedReply:
    """A reply in its place, with its ratings."""

    id: str
    supporter: str
    kind: Literal["role", "machine"]
    """What the supporter is."""
    persona: str
    """Its id in the library."""
    place: str
    """Of the dialogue or the moment."""
    dialogue: Dialogue
    """Up to and with the reply."""
    ratings: tuple[Rating | UserRating, ...]

    @property
    def text(self) -> str:
        return self.dialogue.utterance or ""

    def mean(self, name: str) -> float:
        """The change over all, or a factor over the readers; RecordingError where only users, who
        give none, rated it.
        """
        if name == "change":
            return fmean(rating.change for rating in self.ratings)
        given = [rating.of(name) for rating in self.ratings if isinstance(rating, Rating)]
        if not given:
            raise RecordingError(
                f"{self.id}: nobody gave it {name!r}, for which users are not asked. Let readers"
                " rate it: rlver-gym sheets."
            )
        return fmean(given)


class Corpus:
    """A split of the corpus."""

    def __init__(self, folder: Path) -> None:
        """Read a folder; RecordingError names file and line."""
        self.supporters = {who.name: who for who in _read_supporters(folder / SUPPORTERS)}
        self.dialogues = tuple(_parse_lines(folder / DIALOGUES, lambda _: DialogueLine))
        self.moments = tuple(_parse_lines(folder / MOMENTS, lambda _: MomentLine))
        self.ratings = tuple(_parse_lines(folder / RATINGS, _choose_kind_of_rating))

    def rated_replies(self) -> list[RatedReply]:
        """Every reply that was rated, in the order of the files."""
        return [reply for reply in self.replies() if reply.ratings]

    def replies(self) -> Iterator[RatedReply]:
        """Every reply in its place, also those without a rating."""
        ratings: dict[str, list[Rating | UserRating]] = defaultdict(list)
        for rating in self.ratings:
            ratings[rating.reply].append(rating)

        def reply(
            name: str, supporter: str, place: DialogueLine | MomentLine, dialogue: Dialogue
        ) -> RatedReply:
            kind = self.supporters[supporter].kind if supporter in self.supporters else "role"
            given = tuple(ratings.get(name, ()))
            return RatedReply(name, supporter, kind, place.persona, place.id, dialogue, given)

        for whole in self.dialogues:
            dialogue = Dialogue(whole.opening)
            for turn, said in zip(whole.turns, make_dialogue(whole).turns, strict=True):
                current = dialogue.with_utterance(turn.agent)
                if turn.id is not None:
                    yield reply(turn.id, whole.supporter, whole, current)
                dialogue = current.with_turn(said)
        for moment in self.moments:
            dialogue = make_dialogue(moment)
            for other in moment.replies:
                current = dialogue.with_utterance(other.text)
                yield reply(other.id, other.supporter, moment, current)


def make_dialogue(line: DialogueLine | MomentLine) -> Dialogue:
    """All turns of a line, which nobody has appraised."""
    said = ((turn.agent, turn.user) for turn in line.turns)
    return Dialogue.of_words(line.opening, said, _START)


def append_ratings(folder: Path, ratings: Iterable[Rating | UserRating]) -> None:
    """Add ratings to a corpus: all or, with a RecordingError, none."""
    lines = (rating.model_dump_json(exclude_none=True) for rating in ratings)
    append_lines(folder / RATINGS, lines, RecordingError)


def _choose_kind_of_rating(value: Mapping[str, Any]) -> type[Rating] | type[UserRating]:
    return UserRating if value.keys().isdisjoint(FACTORS) else Rating


def _parse_lines(path: Path, choose: Callable[[Mapping[str, Any]], type[Kind]]) -> Iterator[Kind]:
    for number, value in read_lines(path):
        begin = f"{path.name}:{number}: is no line of a corpus ("
        with explain_invalid(RecordingError, begin, "the whole line", ")."):
            line = choose(value).model_validate(value)
        yield line


def _read_supporters(path: Path) -> Sequence[Supporter]:
    text = read_text(
        path, max_bytes=_MAX_BYTES, error=RecordingError, hint="A corpus says in it who spoke."
    )
    begin = f"{path.name}: is no list of supporters ("
    with explain_invalid(RecordingError, begin, "an entry", ")."):
        values = parse_json(text)
        if not isinstance(values, list):
            raise ValueError(f"it holds {type(values).__name__}")
        return list(map(Supporter.model_validate, values))
