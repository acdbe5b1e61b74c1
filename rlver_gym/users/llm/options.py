"""What can be chosen about an LLM user beside the model, told apart from where its server is."""

from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from rlver_gym.core.languages import Language
from rlver_gym.llm_client.body_fields import BodyFields
from rlver_gym.llm_client.settings import ChatSettings, locate_server
from rlver_gym.util.errors import CardError, check_known
from rlver_gym.util.frozen import explain_problems

Settings = TypeVar("Settings", bound=BaseModel)


class LLMOptions(BodyFields):
    """Everything that changes what an LLM user feels and says.

    Unknown fields are an error; the hash of all is part of the user's version. Those of BodyFields
    go with every request, of both steps.
    """

    calls: Literal[1, 2] = 2
    """Requests a turn: appraise and then speak, or both in one, which is cheaper and less careful.
    """
    samples: int = Field(default=1, ge=1, le=25)
    """How many times each utterance is appraised; the median change counts, the lower of the two
    middle ones when `samples` is even.
    """
    prompt: Literal["long", "short"] = "long"
    """How the appraisal is asked for: in full, with all that is true of the person; or briefly,
    with what they have told and one example a step of the scale, for models of a few billion
    weights.
    """
    orders: Literal[1, 2] = 1
    """In how many orders several replies to one moment are shown: one, or also its reverse, of
    which the mean counts.
    """
    speaker: Literal["model", "embedded"] = "model"
    """Who says the person's words: the model; or the embedded user, at the emotion that the model's
    appraisals have led to, which costs no request.
    """
    speak_model: str | None = Field(default=None, min_length=1)
    """The model that speaks; None for the one that appraises."""
    temperature: float = Field(default=0.5, ge=0, le=2)
    """Of the appraisal."""
    speak_temperature: float | None = Field(default=None, ge=0, le=2)
    """Of the answer; None for that of the appraisal."""
    max_tokens: int | None = Field(default=2_000, ge=16)
    """The longest answer, thoughts of a reasoning model included; None for the server's own limit.
    """
    max_field_chars: int | None = Field(default=None, ge=20)
    """The longest text of one field, as `maxLength` of the schema, which then bounds the change
    too: keeps small models from going on for ever. None: none, since OpenAI's own server takes no
    such limits.
    """
    opening: Literal["model", "card"] = "model"
    """Who begins: the model, which says the card's opening in the person's own voice, or the card's
    own words, which cost no request.
    """
    language: Language | None = None
    """In which language the user is prompted and speaks; None for the persona's."""
    structured: bool = True
    """Ask for JSON by a schema. False asks for labelled lines, for servers that cannot."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.calls == 1 and (self.speak_model is not None or self.speak_temperature is not None):
            raise ValueError(
                "calls=1 asks once for both steps. Leave speak_model and speak_temperature out, or"
                " use calls=2"
            )
        if self.speaker == "embedded":
            for name, others in _IGNORED_BY_EMBEDDED.items():
                if getattr(self, name) not in others:
                    raise ValueError(
                        f"{name} would be ignored: with speaker=embedded the model only appraises"
                        " English people. Leave it out"
                    )
        if self.samples > 1 and self.temperature == 0:
            raise ValueError(
                "samples at temperature 0 are all alike. Raise temperature, or use samples=1"
            )
        return self


_IGNORED_BY_EMBEDDED: dict[str, tuple[object, ...]] = {
    "calls": (2,),
    "speak_model": (None,),
    "speak_temperature": (None,),
    "opening": ("model",),
    "language": (None, "en"),
}
"""Options of how the model speaks, with the values that ask for nothing."""


def sort_options(model: str, options: dict[str, Any]) -> tuple[LLMOptions, ChatSettings]:
    """Which of them say how that model is asked, and which where its server is.

    Raises UnknownName for an option that there is not, CardError for one that cannot be used.
    """
    known = (*LLMOptions.model_fields, *ChatSettings.model_fields)
    for name in options:
        check_known(f"option of openai:{model}", name, known)
    asked = _validate_options(LLMOptions, model, options)
    settings = _validate_options(ChatSettings, model, options)
    located = locate_server(f"openai:{model}", settings)
    if settings.api_key is not None:  # given beside this very name, not for all servers of a run
        located = located.model_copy(update={"api_key": settings.api_key})
    return asked, located


def _validate_options(kind: type[Settings], model: str, options: dict[str, Any]) -> Settings:
    try:
        return kind(**{name: value for name, value in options.items() if name in kind.model_fields})
    except ValidationError as error:
        raise CardError(f"openai:{model}: {explain_problems(error, 'options')}") from None
