"""A studio on a real port, and a client that has its cookie."""

import json
from contextlib import closing
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from rlver_gym.util.errors import MissingExtra, needs_extra


class Kind:
    """An agent of somebody's own, which may support a person in need."""

    def reply(self, messages):
        return "I hear you."


KIND = "studios:Kind"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


def read_answer(response):
    text = response.read().decode()
    headers = {name.lower(): value for name, value in response.getheaders()}
    is_json = text and "json" in headers.get("content-type", "")
    return Answer(response.status, headers, json.loads(text) if is_json else text)


class Client:
    def __init__(self, server, folder, out):
        self.server, self.folder, self.out = server, folder, out
        self.run = folder.name
        self.cookie = f"studio_{server.port}={server.token}"

    def ask(self, method, path, body=None, headers=None):
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        with closing(connection):
            connection.request(method, path, body, headers or {})
            return read_answer(connection.getresponse())

    def get(self, name, /, **fields):
        return self.call("GET", f"/api/{name}?{urlencode(fields)}").body

    def post(self, name, /, **fields):
        return self.call("POST", f"/api/{name}", json.dumps(fields)).body

    def call(self, method, path, body=None):
        answer = self.ask(method, path, body, {"cookie": self.cookie})
        assert answer.status == 200, answer
        return answer

    def refusal(self, name, /, **fields):
        answer = self.ask("POST", f"/api/{name}", json.dumps(fields), {"cookie": self.cookie})
        assert answer.status in (400, 422), answer
        return answer.body["problem"]


def start_studio(folders, out, personas=None, agents=(KIND,)):
    """Not entered yet; skips where the extra is missing."""
    try:
        with needs_extra("studio"):
            from rlver_gym.studio.server import StudioServer
            from rlver_gym.studio.speakers import Speakers
    except MissingExtra as missing:
        pytest.skip(str(missing))
    return StudioServer(folders, out, personas, speakers=Speakers(agents, timeout_s=30))
