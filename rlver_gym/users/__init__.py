"""Sentient users: who can be talked to. `make_user` turns a name into one."""

from rlver_gym.errors import UnknownName
from rlver_gym.users.base import Scene, SentientUser
from rlver_gym.users.embedded import EmbeddedUser

__all__ = ["EmbeddedUser", "Scene", "SentientUser", "make_user"]


def make_user(user: str | SentientUser) -> SentientUser:
    """The user of that name ("embedded"), or the user itself."""
    if not isinstance(user, str):
        return user
    if user == "embedded":
        return EmbeddedUser()
    raise UnknownName.of("user", user, ["embedded"], 'user="embedded", or an object with open, appraise and speak')
