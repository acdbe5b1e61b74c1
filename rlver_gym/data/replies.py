"""Rated replies and pairs of replies, read and described: what the factors are fitted to.

Knows nothing of the fit.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Appraisal, Dialogue, Turn
from rlver_gym.core.library import library
from rlver_gym.core.persona import HiddenNeed, Persona
from rlver_gym.core.user import Scene
from rlver_gym.data.corpus import RatedReply
from rlver_gym.data.record_lines import JsonObject, Name, Text
from rlver_gym.data.recordings import read_lines
from rlver_gym.io.errors import RecordingError, UnknownName
from rlver_gym.users import EmbeddedUser
from rlver_gym.users.embedded.english import Described, describe
from rlver_gym.users.embedded.weights import FACTORS


class Place(NamedTuple):
    """Where a reply is given; the dialogue ends with the person's words."""

    persona: Persona
    dialogue: Dialogue


class DescribedReply(NamedTuple):
    """A rated reply, described."""

    described: Described
    place: Place
    supporter: str
    change: float
    ratings: tuple[float, ...]
    """In the order of FACTORS."""

    @property
    def persona(self) -> Persona:
        """Who hears it."""
        return self.place.persona


class DescribedPair(NamedTuple):
    """Two replies, or one reply in two places, of which the first is worth more."""

    better: Described
    worse: Described
    place: Place
    """Of the better one."""
    worse_place: Place
    supporter: str = ""
    """Who said it, if it is a rated reply."""

    @property
    def need(self) -> HiddenNeed:
        """Of the person who hears the better one."""
        return self.place.persona.need

    @property
    def worse_need(self) -> HiddenNeed:
        """Of the person who hears the worse one."""
        return self.worse_place.persona.need


def describe_replies(
    replies: Sequence[RatedReply], on_progress: Callable[[], None] = lambda: None
) -> list[DescribedReply]:
    """Describe every reply."""
    found = []
    for one in replies:
        persona = library().get(one.persona)
        ratings = tuple(one.mean(name) for name in FACTORS)
        place = Place(persona, one.dialogue)
        found.append(
            DescribedReply(describe(*place), place, one.supporter, one.mean("change"), ratings)
        )
        on_progress()
    return found


def describe_pair(place: Place, better: str, worse: str) -> DescribedPair:
    """Two replies in one place."""
    persona, dialogue = place
    first, second = (
        describe(persona, dialogue.with_utterance(better)),
        describe(persona, dialogue.with_utterance(worse)),
    )
    return DescribedPair(first, second, place, place)


class _PairLine(JsonObject):
    persona: Name
    need: Annotated[HiddenNeed | None, Field(strict=False)] = None
    before: tuple[Text, ...] = Field((), strict=False)
    better: Text
    worse: Text
    half: str = "dev"


def read_pairs(path: Path) -> list[DescribedPair]:
    """Pairs from a JSONL file: persona, need (if another than the card's), before (what the agent
    said), better, worse.

    Lines of another "half" than "dev" are kept for measuring. What the person says between is what
    they say to words that change nothing, so that a pair does not depend on weights. RecordingError
    names the line.
    """
    found = []
    for number, value in read_lines(path):
        known = {name: value[name] for name in _PairLine.model_fields if name in value}
        try:
            line = _PairLine.model_validate(known)
            persona = library().get(line.persona)
        except (ValueError, UnknownName) as error:
            raise RecordingError(
                f"{path.name}:{number}: is no pair of replies ({error})."
            ) from None
        if line.half == "dev":
            persona = persona.model_copy(update={"need": line.need}) if line.need else persona
            place = Place(persona, _build_unmoved_dialogue(persona, line.before))
            found.append(describe_pair(place, line.better, line.worse))
    return found


def _build_unmoved_dialogue(persona: Persona, before: Sequence[str]) -> Dialogue:
    """The dialogue in which these words changed nothing."""
    scene, user, nothing = (
        Scene(persona, env_card("SAGE-Sentient-v0"), 0),
        EmbeddedUser(),
        Appraisal(0, "", ()),
    )
    start = scene.card.start
    dialogue = Dialogue(user.open(scene, start))
    for text in before:
        said = dialogue.with_utterance(text)
        reply = user.speak(scene, start, said, nothing)
        dialogue = said.with_turn(Turn(text, nothing, start, 0.0, None, reply))
    return dialogue
