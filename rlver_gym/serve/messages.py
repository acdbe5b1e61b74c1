"""Requests and answers as values. Knows no web framework."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rlver_gym.core.cards import EnvCard
from rlver_gym.core.dialogue import clean_utterance
from rlver_gym.core.persona import SplitChoice

MAX_SEED = 2**53 - 1
"""The largest integer that every reader of JSON keeps exact."""


def _check_text(text: Any) -> Any:
    if isinstance(text, str):
        clean_utterance(text, 0, "truncate")
    return text


def _to_integer(number: Any) -> Any:
    return int(number) if isinstance(number, float) and number.is_integer() else number


Seed = Annotated[int, Field(ge=0, le=MAX_SEED), BeforeValidator(_to_integer)]
TurnNumber = Annotated[int, Field(ge=1, le=10_000), BeforeValidator(_to_integer)]
RequestId = Annotated[
    str,
    Field(
        pattern="^[!-~]{1,100}$",
        description="Chosen by the client, new for every request. A repeated request has the same"
        " id, and gets the same answer: nothing is done twice.",
        examples=["7f9c2ba4"],
    ),
]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class EpisodeRequest(_Request):
    """Which episode to begin. Everything may be left out."""

    request_id: RequestId | None = None
    client: RequestId | None = Field(
        None,
        description="A name that the client gives itself, such as a random one: the same request id"
        " of another client, or from another address, is another request.",
        examples=["trainer-3"],
    )
    env: str | None = Field(
        None,
        max_length=80,
        description="The id of an environment; `GET /v1/envs` lists them. By default"
        " RLVER-Empathy-v0, or the first where that is not served.",
        examples=["RLVER-Empathy-v0"],
    )
    persona: str | None = Field(
        None,
        max_length=200,
        description="The id of the person to meet; by default one is drawn from the split.",
        examples=["noor-the-old-dog"],
    )
    split: SplitChoice | None = Field(
        None, description="Whom to draw from; by default the split of the environment's card."
    )
    seed: Seed | None = Field(
        None,
        description="The same seed gives the same episode as"
        " `gym.make(env, split=split, persona=persona).reset(seed=seed)`; by default a random one.",
        examples=[0],
    )
    scene_seed: Seed | None = Field(
        None,
        description="The seed of the scene itself, instead of the one drawn by `seed`: for clients"
        " that draw on their own.",
    )
    user: str | None = Field(
        None,
        max_length=200,
        description="Who plays the person: one of the users that the server offers; by default the"
        " first.",
        examples=["embedded"],
    )


class StepRequest(_Request):
    """What to say."""

    request_id: RequestId
    turn: TurnNumber = Field(description="The number of this turn, from 1.", examples=[1])
    utterance: Annotated[str, BeforeValidator(_check_text)] = Field(
        description="What the agent says. Control characters are not heard, the empty text is"
        " silence. A text longer than the card allows is cut, or refused, as the card says.",
        examples=["That sounds hard. What happened then?"],
    )


class RepliesRequest(_Request):
    """What could be said, all to this moment."""

    request_id: RequestId
    turn: TurnNumber = Field(description="The number of the turn to be taken next.", examples=[1])
    utterances: list[Annotated[str, BeforeValidator(_check_text)]] = Field(
        min_length=1, max_length=64, description="What the agent could say; none of it is said."
    )


class ChoiceRequest(_Request):
    """Which of the replies that were appraised last to say."""

    request_id: RequestId
    turn: TurnNumber = Field(description="The number of this turn, from 1.", examples=[1])
    appraised: RequestId = Field(description="The id of the request that had them appraised.")
    index: Annotated[int, Field(ge=0, lt=64), BeforeValidator(_to_integer)]


class AppraisedReply(BaseModel):
    """What a reply would do to the person."""

    change: int
    thought: str
    reasons: list[tuple[str, float, str]] = Field(description="Code, points and note of each.")
    spread: float | None = None


class RepliesAnswer(BaseModel):
    """What each of the replies would lead to. The episode is where it was."""

    turn: int = Field(description="The turn to be taken next.")
    rewards: list[float] = Field(description="What saying each would earn, as the card says.")
    unclipped: list[float] = Field(description="The same if the scale of emotion had no end.")
    cut_chars: list[int] = Field(description="Characters of each that were not heard.")
    privileged: list[AppraisedReply] | None = Field(
        None, description="Only from a server that was started with --privileged."
    )


class _Standing(BaseModel):
    """Where an episode stands."""

    episode_id: str = Field(examples=["uDPWdVOYBDR_yVyQF7sbgw"])
    turn: int = Field(description="Turns taken so far: 0 after the opening.")
    next_turn: int | None = Field(description="The turn to be taken next; null after the end.")
    terminated: bool = Field(description="Whether the episode has ended.")
    truncated: bool = Field(
        description="Whether it was broken off, since the user failed: it is no score."
    )
    outcome: str | None = Field(
        description="How it ended: content, left, out_of_turns or failed; null while it goes on.",
        examples=[None],
    )
    valid: bool = Field(description="False when the user failed: leave this episode out.")
    privileged: dict[str, Any] | None = Field(
        None,
        description="What a real supporter could not know, such as the emotion and the hidden need;"
        " only from a server that was started with --privileged. Not for the agent.",
    )


class EpisodeAnswer(_Standing):
    """An episode that has begun."""

    env: str = Field(examples=["RLVER-Empathy-v0"])
    persona: str = Field(examples=["noor-the-old-dog"])
    scene_seed: int = Field(description="With it and the persona, the episode can be had again.")
    opening: str = Field(
        description="The person's first words; empty when the user failed.",
        examples=["My dog died ten days ago."],
    )


class StepAnswer(_Standing):
    """What an utterance led to."""

    reply: str = Field(description="What the person answers.", examples=["Thank you for asking."])
    reward: float = Field(
        description="As the card says: by default the change of the emotion, in points, from -10 to"
        " 10.",
        examples=[3.0],
    )
    cut_chars: int = Field(description="Characters of the utterance that were not heard.")


class Line(BaseModel):
    """Something that was said."""

    speaker: Literal["agent", "user"] = Field(description="The user is the simulated person.")
    text: str


class EpisodeState(_Standing):
    """An episode as it stands, with all that was said."""

    env: str
    persona: str
    scene_seed: int
    transcript: list[Line]
    rewards: list[float] = Field(description="One a turn.")


class EnvAnswer(BaseModel):
    """An environment and the people who are met in it."""

    card: EnvCard = Field(description="Every number of its protocol.")
    users: list[str] = Field(description="Who can play the person; the first by default.")
    personas: dict[SplitChoice, list[str]] = Field(description="The people of each split, by id.")


class EnvList(BaseModel):
    """The environments that are served."""

    envs: list[EnvCard]


class Health(BaseModel):
    """The server answers."""

    status: Literal["ok"] = "ok"
    version: str
