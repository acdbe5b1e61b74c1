"""Env cards: every number of an environment's protocol. A new text environment is a new card."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from rlver_gym.core.emotion import MAX_EMOTION, MIN_EMOTION, Outcome
from rlver_gym.core.persona import SplitChoice, check_printable_text
from rlver_gym.core.world import World
from rlver_gym.util import shipped_cards
from rlver_gym.util.errors import CardError, UnknownName
from rlver_gym.util.field_errors import parse_card
from rlver_gym.util.files import stamp_file
from rlver_gym.util.frozen import HashedCard
from rlver_gym.util.yaml_file import read_yaml

DEFAULT_ENV = "RLVER-Empathy-v0"
"""Where one talks, serves and learns unless another is named."""
MAX_TURNS = 20
"""More turns than this and a person would run out of things to say."""
CardText = Annotated[str, StringConstraints(max_length=4000), AfterValidator(check_printable_text)]
STRATEGY_VIEW = "RLVER-Strategy-v0"
"""The registered environment without a card: another's dialogues as numbers."""


class EnvCard(HashedCard):
    """The protocol of one environment. Unknown fields are an error."""

    unhashed: ClassVar[frozenset[str]] = frozenset(
        {"summary", "notes", "shows_emotion", "embedded_user"}
    )

    id: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9]+(-[A-Za-z0-9]+)*-v[0-9]+$", max_length=80)
    ]
    """The Gymnasium id."""
    summary: CardText
    """One sentence: what it is for."""
    notes: CardText = ""
    """Why the numbers are what they are."""
    start: int = Field(ge=1, le=99)
    """Emotion at the start, in points."""
    turns: int = Field(ge=1, le=MAX_TURNS)
    """The horizon: agent utterances that are scored."""
    leave_below: int = Field(ge=0, le=99)
    """The user leaves when the emotion falls below this."""
    content_at: int = Field(ge=1, le=100)
    """The user is content when the emotion reaches this."""
    reward: Literal["delta", "terminal"]
    """A function of `rlver_gym.core.emotion`."""
    split: SplitChoice
    """Which personas `reset` draws from."""
    language: Literal["en"] = "en"
    """Of the card; people speak their own."""
    difficulty: Literal["moderate", "challenging"] = "moderate"
    """How readily the user warms: as in RLVER's main results, or as in its section 3.6."""
    world: World | None = None
    """How the people differ from the usual ones; None: not at all."""
    embedded_user: str = Field(default="", pattern=r"^[0-9]*$")
    """The version of the embedded user for whose rewards and replies this environment stands;
    another one is refused. "" for any. Before 1.0 a new version of the user moves the pin of the
    shipped cards; after it, the number in their ids.
    """
    shows_emotion: bool = False
    """Whether the strategy view may see the emotion score, which no real supporter can."""
    max_utterance_chars: int = Field(default=4000, ge=1, le=1_000_000)
    """The longest utterance that is not cut."""
    overlong: Literal["truncate", "error"] = "truncate"
    """The rest of a longer one goes unheard (info["cut_chars"]), or it is an UtteranceError."""

    @model_validator(mode="after")
    def _start_lies_between_the_ends(self) -> Self:
        if not self.leave_below <= self.start < self.content_at:
            raise ValueError(
                f"start {self.start} must lie from leave_below {self.leave_below} up to, not"
                f" including, content_at {self.content_at}"
            )
        return self

    @property
    def is_chat(self) -> bool:
        """Whether people bring an interest instead of a story."""
        return self.world is not None and self.world.topic == "interests"

    def check_user(self, kind: str, version: str) -> None:
        """CardError for an embedded user of another version than the pinned one."""
        if kind == "embedded" and self.embedded_user not in ("", version.partition("/")[0]):
            raise CardError(
                f"{self.id} is pinned to version {self.embedded_user} of the embedded user, and"
                f" this is version {version}: scores of the two cannot be compared. Take"
                " embedded_user out of a card of your own, or install the rlver-gym of that"
                " version."
            )

    def outcome(self, emotion: float, turn: int) -> Outcome | None:
        """How the dialogue has ended after `turn` turns at this emotion; None when it goes on."""
        if emotion >= self.content_at:
            return Outcome.CONTENT
        if emotion < self.leave_below:
            return Outcome.LEFT
        return Outcome.OUT_OF_TURNS if turn >= self.turns else None

    def is_end(self, emotion: float) -> bool:
        """Whether the user leaves at this emotion, content or not."""
        return self.outcome(emotion, 0) in (Outcome.CONTENT, Outcome.LEFT)

    def final_emotion(self, changes: Iterable[float]) -> float:
        """Where these changes lead, kept on the scale at each step, until the user leaves."""
        emotion = float(self.start)
        for change in changes:
            emotion = min(MAX_EMOTION, max(MIN_EMOTION, emotion + change))
            if self.is_end(emotion):
                break
        return emotion


def shipped_env_ids() -> tuple[str, ...]:
    """The ids of the cards that come with the package, which are their file names."""
    return tuple(
        sorted(
            path.name.removesuffix(".yaml")
            for path in shipped_cards("envs").iterdir()
            if path.name.endswith(".yaml")
        )
    )


@lru_cache(maxsize=64)
def _read_env_card(path: str, _stamp: tuple[Any, ...] = ()) -> EnvCard:
    return parse_card(EnvCard, read_yaml(Path(path)), path)


def is_card_file(name: str) -> bool:
    """Whether it names a file and not an id."""
    return name.endswith((".yaml", ".yml"))


def env_card(card: str | Path | EnvCard) -> EnvCard:
    """The card of that id, of that YAML file, or the card itself."""
    if isinstance(card, EnvCard):
        return card
    if str(card) in shipped_env_ids():
        values = _read_env_card(str(shipped_cards("envs") / f"{card}.yaml"))
        if values.id != str(card):
            raise CardError(f"{card}.yaml: id: is {values.id!r}. It must be the file's name.")
        return values
    if is_card_file(str(card)):
        return _read_env_card(str(card), stamp_file(Path(card)))
    if str(card) == STRATEGY_VIEW:
        raise UnknownName(
            f"{card} is no protocol of its own but the view for learners that know no text:"
            f" gym.make({card!r}). Its dialogues are those of RLVER-Empathy-v0: name"
            " that one. Its strategies are agents there: strategy:NAME."
        )
    raise UnknownName.of(
        "environment",
        card,
        shipped_env_ids(),
        "rlver-gym envs list (or give the path of a .yaml card)",
    )
