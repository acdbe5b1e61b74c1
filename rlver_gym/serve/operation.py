"""What an operator decides and sees: settings, the token, and counts for Prometheus."""

import ipaddress
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from rlver_gym.core.cards import shipped_env_ids
from rlver_gym.io.errors import CardError
from rlver_gym.io.files import read_text
from rlver_gym.io.frozen import Frozen

TOKEN_VARIABLE = "RLVER_GYM_TOKEN"
MIN_TOKEN_CHARS = 16
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends of the histogram of turns, in seconds: 1 ms is the embedded user, seconds a model."""
_MAKE_ONE = "Make one with: openssl rand -hex 32"


class ServeSettings(Frozen):
    """The limits of a server and what it offers."""

    envs: tuple[str, ...] = ()
    """Ids or paths of environment cards; empty for all shipped ones."""
    personas: str | None = None
    """A folder of persona cards; None for the shipped ones."""
    max_episodes: int = Field(default=1_000, ge=1)
    """Episodes that are open at once."""
    max_in_flight: int = Field(default=64, ge=1)
    """Turns that are worked on at once."""
    max_requests_per_s: float = Field(default=1_000.0, ge=0)
    """From one address, after a burst of as many; 0 for any number."""
    max_connections: int = Field(default=1_024, ge=1)
    """From one address at once; the oldest that has sent no request makes room for another one."""
    header_timeout_s: float = Field(default=10.0, gt=0)
    """How long the head of a request may take to arrive."""
    idle_s: float = Field(default=900.0, gt=0)
    """An episode that nobody asked about for so long is dropped."""
    max_body_bytes: int = Field(default=262_144, ge=1_024)
    body_timeout_s: float = Field(default=30.0, gt=0)
    """How long the body of a request may take to arrive."""
    privileged: bool = False
    """Whether answers hold what a real supporter could not know."""

    @property
    def served_envs(self) -> tuple[str, ...]:
        """Ids or paths of environment cards."""
        return self.envs or shipped_env_ids()


def read_token(file: Path | None) -> str | None:
    """The token in a file or RLVER_GYM_TOKEN, or None. CardError for an unfit one, unrepeated."""
    if file:
        token, source = read_text(file, max_bytes=4_096, error=CardError).strip(), str(file)
    else:
        token, source = os.environ.get(TOKEN_VARIABLE, "").strip(), TOKEN_VARIABLE
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
            f" {TOKEN_VARIABLE}, or give --token-file, or say --insecure. {_MAKE_ONE}"
        )


class Metrics:
    """What happened since the server started. For one event loop."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.episodes = 0
        """Episodes that have begun."""
        self.open_sockets = 0
        """WebSockets that are connected."""
        self.responses: Counter[int] = Counter()
        """HTTP responses by status; refused handshakes of WebSockets are among them."""
        self.socket_problems: Counter[int] = Counter()
        """Problems sent over WebSockets, by status."""
        self._buckets = [0] * (len(BUCKETS_S) + 1)
        self._steps_s = 0.0

    @property
    def steps(self) -> int:
        """Turns that were taken."""
        return sum(self._buckets)

    def observe_step(self, seconds: float) -> None:
        """A turn was taken, and took so long."""
        self._buckets[bisect_left(BUCKETS_S, seconds)] += 1
        self._steps_s += seconds

    def render(self, open_episodes: int, under_way: int) -> str:
        """The page that Prometheus reads."""
        name = "rlver_gym"
        lines = [
            *_metric(f"{name}_open_episodes", "gauge", "Episodes that go on.", open_episodes),
            *_metric(f"{name}_turns_under_way", "gauge", "Turns being worked on.", under_way),
            *_metric(f"{name}_open_websockets", "gauge", "WebSockets.", self.open_sockets),
            *_metric(f"{name}_episodes_total", "counter", "Episodes begun.", self.episodes),
            *_metric(f"{name}_steps_total", "counter", "Turns taken.", self.steps),
            *_by_status(f"{name}_http_responses_total", "HTTP responses.", self.responses),
            *_by_status(
                f"{name}_websocket_problems_total", "Problems by WebSocket.", self.socket_problems
            ),
            *self._histogram(f"{name}_step_seconds"),
        ]
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str) -> Iterator[str]:
        yield from (f"# HELP {name} Time to take a turn.", f"# TYPE {name} histogram")
        total = 0
        for end, count in zip((*BUCKETS_S, "+Inf"), self._buckets, strict=True):
            total += count
            yield f'{name}_bucket{{le="{end}"}} {total}'
        yield from (f"{name}_sum {self._steps_s}", f"{name}_count {total}")


def _metric(name: str, kind: str, text: str, value: int) -> Iterator[str]:
    yield from (f"# HELP {name} {text}", f"# TYPE {name} {kind}", f"{name} {value}")


def _by_status(name: str, text: str, counts: Counter[int]) -> Iterator[str]:
    yield from (f"# HELP {name} {text}", f"# TYPE {name} counter")
    for status, count in sorted(counts.items()):
        yield f'{name}{{status="{status}"}} {count}'
