"""Sentient users: who can be talked to. `make_user` turns a name into one."""

import os
import sys
from importlib import import_module

from rlver_gym.errors import UnknownName
from rlver_gym.users.base import Scene, SentientUser
from rlver_gym.users.embedded import EmbeddedUser

__all__ = ["EmbeddedUser", "Scene", "SentientUser", "make_user"]

_SEE = "embedded, embedded:PRESET, embedded:WEIGHTS.json, MODULE:NAME, or an object with open, appraise and speak"


def make_user(user: str | SentientUser) -> SentientUser:
    """The user of that name, or the user itself.

    "embedded"; "embedded:gpt-4o" for another preset of the shipped Chinese weights; "embedded:weights.json" for your own weights; "module:Name" for
    a class of your own, made without arguments. UnknownName when there is no such user, CardError when weights cannot be used.
    """
    if not isinstance(user, str):
        return user
    kind, _, rest = user.partition(":")
    if kind == "embedded":
        return EmbeddedUser(weights=rest) if rest.endswith(".json") else EmbeddedUser(preset=rest or None)
    if rest.isidentifier() and all(part.isidentifier() for part in kind.split(".")):
        return _own(kind, rest, user)
    raise UnknownName.of("user", user, ["embedded"], _SEE)


def _own(module: str, name: str, user: str) -> SentientUser:
    """A user of one's own; the current directory counts as a place to import from."""
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.insert(0, os.getcwd())
    try:
        made = getattr(import_module(module), name)()
    except Exception as error:  # anybody's code
        raise UnknownName(f"the user {user} cannot be made ({type(error).__name__}: {error}). {_SEE}.") from error
    if not isinstance(made, SentientUser):
        raise UnknownName(f"the user {user} lacks kind, version, open, appraise or speak. See SentientUser.")
    return made
