"""A server on loopback that answers chat requests in over two hundred harmful ways."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from rlver_gym.testing.http import Listener
from rlver_gym.util.errors import UnknownName

_MOST_SENT = 64 << 20
"""Bytes that an endless answer ends after."""
_READ_S = 0.01
"""Time for the client to read what there is: a reset throws away what it has not read."""
_PROFILE = re.compile(r'"name": "([^"]+)", "age": (\d+)')


class Send(NamedTuple):
    """These bytes, with what stands in angle brackets filled in (see `HostileServer`)."""

    data: bytes


class Answer(NamedTuple):
    """A whole answer, filled in as with `Send`, and the Content-Length that fits."""

    body: bytes | Callable[[], bytes]
    """A function for a body that is large to make."""
    status: str = "200 OK"
    headers: tuple[str, ...] = ("Content-Type: application/json",)


class Flood(NamedTuple):
    """These bytes again and again, `every_s` seconds, until the client is gone."""

    data: bytes
    every_s: float = 0.0


class Hang(NamedTuple):
    """Nothing more, until the client is gone."""


class Close(NamedTuple):
    """The end of the connection."""


class Reset(NamedTuple):
    """A TCP reset."""


Step = Send | Answer | Flood | Hang | Close | Reset


class Mode(NamedTuple):
    """One way to answer, as data."""

    name: str
    """`GROUP.VARIANT`."""
    turns: tuple[tuple[Step, ...], ...]
    """What is done for the first request, for the second, and so on; then the first again."""

    @property
    def group(self):
        """What it is an example of."""
        return self.name.partition(".")[0]


class HostileServer:
    """Serves all modes at once, each at an address of its own, from construction until `stop` or
    the end of its `with`.

        with HostileServer(MODES) as server:
            client = openai.OpenAI(base_url=server.base_url("redirects.other_port_307"),
            api_key="any")

    In what a mode sends, `<KEY>` stands for the key of the request, `<KEY_TAIL>`, `<KEY_MIDDLE>`
    and `<KEY_BACKWARDS>` for parts of it and the whole from its end, `<PROMPT>` for all that its
    messages say, `<NAME_AND_AGE>` for the person that they describe, `<HERE>` for the address of
    the mode, and `<TRAP>` for another server where nobody should ever come.
    """

    def __init__(self, modes):
        """Begin to serve these modes. Raises OSError when there is no free port."""
        self.requests = Counter()
        """How many requests came for each mode."""
        self.strays = []
        """Requests that came where nobody should: their method, path and, if they have one, cookie.
        """
        self._modes = {mode.name: mode for mode in modes}
        self._groups = {}
        for mode in modes:
            self._groups.setdefault(mode.group, []).append(mode)
        self._of_group = Counter()
        self._trap = Listener(self._record_stray)
        self._listener = Listener(self._handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def base_url(self, name):
        """Where a mode is served, or a group, whose modes take turns. UnknownName for neither."""
        if name not in self._modes and name not in self._groups:
            raise UnknownName.of(
                "mode", name, [*self._modes, *self._groups], "hostile_bodies.MODES"
            )
        return f"http://127.0.0.1:{self._listener.port}/{name}/v1"

    def stop(self):
        """Break off what is under way and free the ports. A second time does nothing."""
        self._listener.stop()
        self._trap.stop()

    async def _record_stray(self, request, connection):
        self.strays.append(
            f"{request.method} {request.path} {request.headers.get('cookie', '')}".strip()
        )
        connection.send(200, {"choices": [{"message": {"content": "You should not be here."}}]})

    async def _handle(self, request, connection):
        _, name, *rest = [*request.path.split("/"), ""]
        mode = self._select_mode(name)
        if mode is None or rest[:3] != ["v1", "chat", "completions"] or "cookie" in request.headers:
            await self._record_stray(request, connection)
            return
        turn = self.requests[mode.name] % len(mode.turns)
        self.requests[mode.name] += 1
        fill = _filler(request, self.base_url(name), f"http://127.0.0.1:{self._trap.port}")
        for step in mode.turns[turn]:
            await _run_step(step, connection, fill)

    def _select_mode(self, name):
        if name in self._modes:
            return self._modes[name]
        group = self._groups.get(name)
        if group is None:
            return None
        self._of_group[name] += 1
        return group[(self._of_group[name] - 1) % len(group)]


async def _drain(connection):
    """Wait until most of what was written is sent, so that an endless answer takes no memory."""
    while connection._transport.get_write_buffer_size() > 1 << 18:
        await asyncio.sleep(0.005)


async def _run_step(step, connection, fill):
    match step:
        case Send(data):
            connection.write(fill(data))
        case Answer(body, status, headers):
            content = fill(body() if callable(body) else body)
            head = "\r\n".join(
                [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(content)}", "", ""]
            )
            connection.write(fill(head.encode("latin-1")) + content)
        case Flood(data, every_s):
            for _ in range(_MOST_SENT // len(data)):
                connection.write(data)
                await _drain(connection)
                await asyncio.sleep(every_s)
        case Hang():
            await asyncio.get_running_loop().create_future()
        case Close():
            connection.close()
        case Reset():
            await asyncio.sleep(_READ_S)
            connection.reset()


def _filler(request, here, trap):
    """What fills in the marks of a mode for this request."""
    marks = {"<HERE>": here, "<TRAP>": trap, **_of_key(request.headers), **_of_words(request.body)}
    return lambda data: _fill_marks(data, marks) if b"<" in data[:_LARGEST_FILLED] else data


_LARGEST_FILLED = 1 << 16


def _fill_marks(data, marks):
    for mark, text in marks.items():
        data = data.replace(mark.encode(), text.encode())
    return data


def _of_key(headers):
    key = headers.get("authorization", "").removeprefix("Bearer ") or "none"
    return {
        "<KEY>": key,
        "<KEY_TAIL>": key[3:],
        "<KEY_MIDDLE>": key[4:-4],
        "<KEY_BACKWARDS>": key[::-1],
    }


def _of_words(body):
    """The request's words, fit to stand in a JSON string."""
    messages = json.loads(body)["messages"]
    said = "\n".join(str(message["content"]) for message in messages)
    person = _PROFILE.search(said)
    return {
        "<PROMPT>": json.dumps(said, ensure_ascii=False)[1:-1],
        "<PROMPT_ESCAPED>": json.dumps(said)[1:-1].replace("\\", "\\\\"),
        "<NAME_AND_AGE>": f"{person[1]}, {person[2]}" if person else said.partition(" ")[0],
    }
