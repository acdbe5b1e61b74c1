"""Damage to bytes and JSON: little in every run of the tests, much with `pytest -m fuzz`."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hostile_cards import ESCAPES, MARKUP
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from rlver_gym.util.terminal import printable

Path = tuple[Any, ...]
"""Where a value stands in a JSON document: keys and indices from the root."""

_PIECES = [
    *b'" { } [ ] , : \\ - . e # | % null true NaN -Infinity 1e999 .inf &a *a !!set <<: ---'.split(),
    *(b"\n", b"\t", b": ", b"- ", b"? ", b"\x00", b"\xff", b"\xc3", b"\x1b[2J", b"\xef\xbb\xbf"),
    *("\u202e".encode(), b'"\\ud800"', b"2026-01-01", b"9" * 5000, b"[" * 3000, b'{"a":' * 2000),
]
_NASTY_TEXT = [
    *"\x00 \x1b[31m \u202e \ud800 [/nope] ../../x /dev/null os:getcwd openai:m".split(" "),
    *"nan inf 1e999 -1 praise zh http://127.0.0.1:9".split(),
    *("", " ", "A" * 5000, ESCAPES, MARKUP),
]


def effort(few, many):
    """Give a test `examples`, for hypothesis: `few`, and with the marker `fuzz` `many` new ones."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    new = settings(
        max_examples=many,
        derandomize=False,
        database=None,
        deadline=None,
        suppress_health_check=checks,
    )
    same = settings(max_examples=few, suppress_health_check=checks)
    long = pytest.param(new, id="many", marks=[pytest.mark.fuzz, pytest.mark.timeout(1200)])
    return pytest.mark.parametrize("examples", [pytest.param(same, id="few"), long])


def json_values():
    """Any JSON value, those that parsers and programs stumble over among them."""
    numbers = (
        st.integers() | st.floats() | st.sampled_from([10**30, -(10**400), 1 << 63, -0.0, 5e-324])
    )
    texts = st.text(max_size=20) | st.sampled_from(_NASTY_TEXT)
    leaves = st.none() | st.booleans() | numbers | texts | st.just(_nest(100))
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    )


def _nest(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


def paths(value, path=()):
    """Where every value of a document stands, the document itself first."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inner, (*path, key))


@st.composite
def damaged_json(draw, whole):
    """The document with one to three values replaced, taken out, doubled, nudged or moved."""
    root = [deepcopy(whole)]
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from([path for path in paths(root) if path]))
        parent = root
        for key in above:
            parent = parent[key]
        kind = draw(st.sampled_from(["replace", "nudge", "move", "remove", "double"]))
        if kind == "replace":
            parent[last] = draw(json_values())
        elif kind == "nudge":
            parent[last] = _nudge(parent[last])
        elif kind == "move":
            parent[last] = deepcopy(draw(st.sampled_from(list(_values(root)))))
        elif kind == "remove" and parent is not root:
            del parent[last]
        elif isinstance(parent, list) and parent is not root:
            parent.insert(last, deepcopy(parent[last]))
        elif isinstance(parent, dict):
            parent[f"{last}2"] = deepcopy(parent[last])
    return root[0]


def _values(value):
    yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _values(inner)


def _nudge(value):
    """A value of the same type beside this one."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str() if value and value[-1] < "\ud000":
            return value[:-1] + chr(ord(value[-1]) ^ 1)
        case str():
            return value + "x"
        case list():
            return value[::-1]
        case dict():
            return dict(reversed(value.items()))
    return 0


@st.composite
def damaged_bytes(draw, whole):
    """The bytes, replaced, inserted, repeated or taken out in one to three places, or cut off."""
    data = whole
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 16)))
        begin = draw(st.integers(0, len(data)))
        new = st.binary(max_size=4) | st.sampled_from(_PIECES) | st.just(data[begin : begin + 200])
        data = data[:at] + draw(new) + data[end:]
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 4)) == 0 else data


def as_json(value):
    """JSON as a careless program writes it: with NaN, infinities and lone surrogates."""
    return json.dumps(value).encode()


def assert_clear(error, begins="", max_chars=3000):
    """An error's message is short, fit for a terminal, and begins with what it is about."""
    message = str(error)
    assert message.startswith(begins)
    assert printable(message) == message
    assert 20 < len(message) < max_chars
