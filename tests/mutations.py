"""Damage for fuzzers: texts with bytes changed, and plain values with one part replaced by
something hostile.
"""

import copy
from typing import Any

from hostile_cards import ESCAPES, MARKUP
from hypothesis import settings
from hypothesis import strategies as st

from rlver_gym.io.terminal import printable

SHORT = settings(max_examples=40, deadline=None)
"""Of every test run."""
LONG = settings(max_examples=3000, deadline=None, derandomize=False)
"""Of `pytest -m fuzz`: always other examples."""

_PIECES = [
    b"",
    b"\x00",
    b"\xff",
    b"\x1b[2J",
    b"\n",
    b": ",
    b"- ",
    b"&a ",
    b"*a",
    b"!!set ",
    b"<<: ",
    b"{",
    b"[",
    b"}",
    b"]",
    b'"',
    b"'",
    b"|",
    b"%",
    b"---\n",
    b"9" * 30,
    b".inf",
    b"NaN",
    b"1e999",
    b"null",
    b"\\ud800",
    "\u202e".encode(),
    "é".encode(),
    b"\t",
    b"#",
    b"? ",
    b"2026-01-01",
    b"[" * 40,
]

HOSTILE_VALUES = st.one_of(
    st.sampled_from(
        [
            None,
            True,
            0,
            -1,
            101,
            10**17,
            10**30,
            0.5,
            float("nan"),
            float("inf"),
            -1e308,
            "",
            " ",
            "x",
            "x" * 5000,
            ESCAPES,
            MARKUP,
            "\ud800",
            "../../etc/passwd",
            [],
            {},
            [[]],
            {"a": 1},
            [None] * 300,
            ["x"] * 300,
            [[[[[[[[[]]]]]]]]],
            "no_such_thing",
            "praise",
            "en",
            "zh",
        ]
    ),
    st.text(max_size=20),
    st.integers(-200, 200),
    st.floats(),
)


def assert_clear(error: Exception, begins: str = "", max_chars: int = 3000) -> None:
    """An error's message is short, fit for a terminal, and begins with what it is about."""
    message = str(error)
    assert message.startswith(begins)
    assert printable(message) == message
    assert 20 < len(message) < max_chars


@st.composite
def damaged_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """The data with one to three pieces cut out, doubled, or replaced."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.sampled_from([0, 1, 2, 10, 300, len(data)])))
        piece = draw(
            st.one_of(st.sampled_from([*_PIECES, data[at:end] * 2]), st.binary(max_size=5))
        )
        data = data[:at] + piece + data[end:]
    return data


@st.composite
def damaged_value(draw: st.DrawFn, value: Any) -> Any:
    """A copy of a plain value in which one to three parts, anywhere, are gone, doubled, renamed or
    something else.
    """
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        inner, parts = value, []
        while isinstance(inner, dict | list) and inner and (not parts or draw(st.integers(0, 4))):
            key = (
                draw(st.sampled_from(sorted(inner)))
                if isinstance(inner, dict)
                else draw(st.integers(0, len(inner) - 1))
            )
            parts.append((inner, key))
            inner = inner[key]
        if not parts:
            return copy.deepcopy(draw(HOSTILE_VALUES))
        _damage(draw, *parts[-1])
    return value


def _damage(draw: st.DrawFn, inner: Any, key: Any) -> None:
    match draw(st.sampled_from(["replace", "replace", "remove", "double", "rename"])):
        case "replace":
            inner[key] = copy.deepcopy(draw(HOSTILE_VALUES))
        case "remove":
            del inner[key]
        case "double" if isinstance(inner, list):
            inner.append(copy.deepcopy(inner[key]))
        case _ if isinstance(inner, dict):
            inner[draw(st.sampled_from([ESCAPES, "x" * 500, "name", "id"]))] = inner.pop(key)
