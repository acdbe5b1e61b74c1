"""A corpus rated by a user in the person's place: every reply that nobody has rated yet."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rlver_gym.bench.appraise import Excerpt, Failure, appraise_excerpts
from rlver_gym.core.cards import env_card
from rlver_gym.core.user import Scene, SentientUser
from rlver_gym.corpora.corpus import (
    ENV,
    MAX_THOUGHT_CHARS,
    Corpus,
    DialogueLine,
    MomentLine,
    UserRating,
    make_dialogue,
)
from rlver_gym.library.personas import library
from rlver_gym.util.errors import RecordingError
from rlver_gym.util.terminal import one_line

_MAX_KIND_CHARS = 150
"""Of a user's name, which with its version is a reader's."""


class UnratedPlace(NamedTuple):
    """A dialogue or a moment of a corpus with replies that nobody has rated."""

    id: str
    excerpt: Excerpt
    replies: tuple[str | None, ...]
    """The id of each of its replies; None for one that is rated, or is context alone."""


class RatedPlace(NamedTuple):
    """The ratings of a place, or why there are none."""

    id: str
    ratings: tuple[UserRating, ...]
    failure: str = ""


def list_unrated_places(corpus: Corpus) -> list[UnratedPlace]:
    """In the order of the files. RecordingError when every reply is rated."""
    rated = {rating.reply for rating in corpus.ratings}
    people, card = library(), env_card(ENV)

    def make_excerpt(line: DialogueLine | MomentLine, texts: tuple[str, ...] | None) -> Excerpt:
        return Excerpt(Scene(people.get(line.persona), card, line.seed), make_dialogue(line), texts)

    places = []
    for line in corpus.dialogues:
        ids = tuple(None if turn.id in rated else turn.id for turn in line.turns)
        if any(ids):
            places.append(UnratedPlace(line.id, make_excerpt(line, None), ids))
    for line in corpus.moments:
        unrated = {reply.id: reply.text for reply in line.replies if reply.id not in rated}
        if unrated:
            excerpt = make_excerpt(line, tuple(unrated.values()))
            places.append(UnratedPlace(line.id, excerpt, tuple(unrated)))
    if not places:
        raise RecordingError("every reply of this corpus is rated. Draw others: rlver-gym sample.")
    return places


def rate_places(user: SentientUser, places: Sequence[UnratedPlace]) -> Iterator[RatedPlace]:
    """Each place by the user, unclipped, in their order. Raises the ChatErrors that stop a run."""
    reader = f"{user.kind[:_MAX_KIND_CHARS]} {user.version}"
    answers = appraise_excerpts(user, [place.excerpt for place in places])
    for place, felt in zip(places, answers, strict=True):
        if isinstance(felt, Failure):
            yield RatedPlace(place.id, (), felt.why)
            continue
        ratings = (
            UserRating(
                reply=reply,
                reader=reader,
                thought=one_line(appraisal.thought, max_chars=MAX_THOUGHT_CHARS) or None,
                change=appraisal.unclipped_change,
            )
            for reply, appraisal in zip(place.replies, felt, strict=True)
            if reply is not None
        )
        yield RatedPlace(place.id, tuple(ratings))
