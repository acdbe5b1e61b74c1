"""Sentient users: who can be talked to. `make_user` turns a name into one."""

from typing import Any

from rlver_gym.core.user import Scene, SentientUser
from rlver_gym.users.embedded_user import EmbeddedUser
from rlver_gym.util.errors import UnknownName, check_known
from rlver_gym.util.model_names import get_chat_model, uses_server
from rlver_gym.util.user_code import check_name, is_own_name, make_own

__all__ = [
    "EmbeddedUser",
    "Scene",
    "SentientUser",
    "check_user_name",
    "is_shipped_user",
    "make_user",
]

PLAIN_USERS: dict[str, type[SentientUser]] = {"embedded": EmbeddedUser}
"""Users by the names that they are asked for; they are made without options."""
_SHIPPED = (*PLAIN_USERS, "openai", "reader")
_READER_OPTIONS = ("base", "device", "dtype")
_USER_FORMS = (
    f"{', '.join(PLAIN_USERS)}, reader, reader:FILE, openai:MODEL, MODULE:NAME, or an object with"
    " open, appraise and speak"
)


def make_user(user: str | SentientUser, **options: Any) -> SentientUser:
    """The user of that name, or the user itself.

    "reader" for the embedded user mixed with a frozen model's states (extra `reader`; options base,
    device and dtype), "reader:FILE" with a head of your own; "embedded"; "openai:MODEL" for a
    language model, with the options of `LLMOptions` and `ChatSettings`, such as base_url and
    samples; "module:Name" for a class of your own, made with these options. UnknownName when there
    is no such user or option, CardError when options cannot be used.
    """
    if options and (why := explain_no_options(user)):
        raise UnknownName(f"there is no option {next(iter(options))!r}: {why}")
    if not isinstance(user, str):
        return user
    check_user_name(user)
    if model := get_chat_model(user):
        # what asks servers takes half a second to import
        from rlver_gym.llm_client.connect import connect  # noqa: PLC0415
        from rlver_gym.users.llm import LLMUser, sort_options  # noqa: PLC0415

        asked, settings = sort_options(model, options)
        return LLMUser(connect(settings), model, asked)
    if user in PLAIN_USERS:
        return PLAIN_USERS[user]()
    kind, _, rest = user.partition(":")
    if kind == "reader":
        # only who asks for it needs what it imports
        from rlver_gym.users.reader import ReaderUser  # noqa: PLC0415

        for name in options:
            check_known("option of reader", name, _READER_OPTIONS)
        return ReaderUser(**options, **({"head": rest} if rest else {}))
    return _make_own_user(user, options)


def check_user_name(name: str) -> None:
    """UnknownName for what no user is called. Nothing is imported."""
    is_known = is_shipped_user(name) or name.partition(":")[0] == "reader"
    names = (*PLAIN_USERS, "reader", "openai:MODEL")
    check_name("user", name, names, _USER_FORMS, _SHIPPED, is_known=is_known)


def is_own_user(name: str) -> bool:
    """Whether a user of that name is a class of somebody's own: MODULE:NAME."""
    return is_own_name(name, _SHIPPED)


def is_shipped_user(user: str) -> bool:
    """Whether making the user of that name runs nobody's code and opens nobody's file: those
    without options, "reader" and "openai:MODEL".
    """
    return user in (*PLAIN_USERS, "reader") or uses_server(user)


def explain_no_options(user: str | SentientUser) -> str:
    """Why nothing is an option of that user; "" where `make_user` passes options on to it."""
    if isinstance(user, str) and user not in PLAIN_USERS:
        return ""
    name = user if isinstance(user, str) else getattr(user, "kind", "object")
    return (
        f"the user {name!r} takes no options of its own, such as base_url and samples of"
        ' user="openai:MODEL".'
    )


def _make_own_user(user: str, options: dict[str, Any]) -> SentientUser:
    made = make_own("user", user, UnknownName, f"Users are {_USER_FORMS}.", **options)
    if not isinstance(made, SentientUser):
        raise UnknownName(
            f"the user {user} lacks kind, version, open, appraise or speak. See SentientUser."
        )
    return made
