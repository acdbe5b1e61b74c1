"""What an operator decides: settings, the token, and from where the server can be reached."""

import ipaddress
from pathlib import Path

from pydantic import ConfigDict, Field

from rlver_gym.core.cards import shipped_env_ids
from rlver_gym.util.errors import CardError
from rlver_gym.util.files import read_text
from rlver_gym.util.frozen import Frozen
from rlver_gym.util.secret_words import TOKEN, read_variable

MIN_TOKEN_CHARS = 16
_MAKE_ONE = "Make one with: openssl rand -hex 32"


class ServeSettings(Frozen):
    """The limits of a server and what it offers."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    envs: tuple[str, ...] = ()
    """Environment id, or the path of an env card (.yaml); repeat it for more. Default: all shipped
    ones.
    """
    personas: str | None = None
    """A folder of persona cards or a lean card's file instead of the default people, or 'library':
    the shipped library of stories.
    """
    max_episodes: int = Field(default=1_000, ge=1)
    """Most open episodes."""
    max_in_flight: int = Field(default=64, ge=1)
    """Most turns worked on at once."""
    max_connections: int = Field(default=1_024, ge=1)
    """Most connections from one address at once; the oldest that has sent no request makes room for
    another one.
    """
    header_timeout_s: float = Field(default=10.0, gt=0)
    """How long the head of a request may take to arrive."""
    idle_s: float = Field(default=900.0, gt=0)
    """An episode idle for longer is dropped."""
    max_body_bytes: int = Field(default=262_144, ge=1_024)
    body_timeout_s: float = Field(default=30.0, gt=0)
    """How long the body of a request may take to arrive."""
    privileged: bool = False
    """Send emotion, thoughts and the hidden need too, for the log of a trainer."""

    @property
    def served_envs(self) -> tuple[str, ...]:
        return self.envs or shipped_env_ids()


def read_token(file: Path | None) -> str | None:
    """The token in a file or RLVER_GYM_TOKEN, or None. CardError for an unfit one, unrepeated."""
    if file:
        token, source = read_text(file, max_bytes=4_096, error=CardError).strip(), str(file)
    else:
        token, source = read_variable(TOKEN), TOKEN
        if not token:
            return None
    if len(token) < MIN_TOKEN_CHARS or not all("!" <= char <= "~" for char in token):
        raise CardError(
            f"{source}: the token must have {MIN_TOKEN_CHARS} characters or more, all of them"
            f" printable ASCII without blanks. {_MAKE_ONE}"
        )
    return token


def is_loopback(name: str) -> bool:
    """Whether it means this machine, whatever a name server says."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name.rstrip(".") == "localhost"


def check_host(host: str, token: str | None, *, insecure: bool) -> None:
    """CardError for an address that others can reach, without a token; `insecure` allows it."""
    if token is None and not is_loopback(host) and not insecure:
        raise CardError(
            f"--host {host} can be reached from other machines, and there is no token. Set"
            f" {TOKEN}, or give --token-file, or say --insecure. {_MAKE_ONE}"
        )
