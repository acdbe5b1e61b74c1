"""`openai:MODEL` with its options, sorted into those of the user and those of the server."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from rlver_gym.llm_client.connect import connect
from rlver_gym.llm_client.settings import ChatSettings, locate_server
from rlver_gym.users.llm.options import LLMOptions
from rlver_gym.users.llm.user import LLMUser
from rlver_gym.util.errors import CardError, UnknownName
from rlver_gym.util.frozen import explain_problem

Settings = TypeVar("Settings", bound=BaseModel)


def llm_user(model: str, options: dict[str, Any]) -> LLMUser:
    """The user of that model. Raises what `sort_options` raises."""
    asked, settings = sort_options(model, options)
    return LLMUser(connect(locate_server(f"openai:{model}", settings)), model, asked)


def sort_options(model: str, options: dict[str, Any]) -> tuple[LLMOptions, ChatSettings]:
    """Which of them say how that model is asked, and which where its server is.

    Raises UnknownName for an option that there is not, CardError for one that cannot be used.
    """
    known = (*LLMOptions.model_fields, *ChatSettings.model_fields)
    for name in options:
        if name not in known:
            raise UnknownName.of(f"option of openai:{model}", name, known, ", ".join(known))
    asked = _validate_options(LLMOptions, model, options)
    return asked, _validate_options(ChatSettings, model, options)


def _validate_options(kind: type[Settings], model: str, options: dict[str, Any]) -> Settings:
    """Says what is wrong without repeating the value, which may be a key."""
    try:
        return kind(**{name: value for name, value in options.items() if name in kind.model_fields})
    except ValidationError as error:
        wrong = [
            f"{'.'.join(map(str, one['loc'])) or 'options'}: {explain_problem(one)}"
            for one in error.errors()
        ]
        raise CardError(f"openai:{model}: {'; '.join(wrong)}") from None
