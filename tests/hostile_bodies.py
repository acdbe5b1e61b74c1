"""Modes of a hostile server in what an answer says: JSON to choke on, echoes, complaints."""

import json
from copy import deepcopy

from hostile_answers import COMPLETION, GOOD, MIB, completion_body, error_body, modes
from hostile_http import HTTP_MODES
from hostile_server import Answer, Mode

_LENGTH = len(GOOD)
_BODIES = {
    "empty": b"",
    "blank": b" \n\t",
    "nothing": b"null",
    "number": b"7",
    "text": b'"hello"',
    "list": b"[1, 2]",
    "half": GOOD[: _LENGTH // 2],
    "twice": GOOD + GOOD,
    "deep_lists": b"[" * 100_000,
    "deep_lists_closed": b"[" * 100_000 + b"]" * 100_000,
    "deep_objects": b'{"a":' * 100_000,
    "deep_objects_closed": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep_choices": b'{"choices": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "same_key_twice": b'{"choices": [], ' + GOOD[1:],
    "same_key_at_last": (
        b"{" + b",".join(b'"%d":0' % number for number in range(80_000)) + b',"79999":0}'
    ),
    "same_key_is_the_key": b'{"<KEY>": 1, "<KEY>": 2}',
    "long_integer": GOOD.replace(b'"created": 0', b'"created": ' + b"9" * 100_000),
    "long_float": GOOD.replace(b'"created": 0', b'"created": 1.' + b"9" * 100_000),
    "large_float": GOOD.replace(b'"created": 0', b'"created": 1e999'),
    "nan": GOOD.replace(b'"created": 0', b'"created": NaN'),
    "infinity": GOOD.replace(b'"created": 0', b'"created": -Infinity'),
    "lone_surrogate": GOOD.replace(b"hear", b"\\ud800"),
    "lone_surrogate_in_a_key": b'{"\\udfff": 1}',
    "half_escape": GOOD.replace(b"hear", b"\\u12"),
    "mark_of_byte_order": b"\xef\xbb\xbf" + GOOD,
    "utf_16": GOOD.decode().encode("utf-16"),
    "utf_32": GOOD.decode().encode("utf-32"),
    "other_bytes": GOOD.replace(b"hear", b"\xff\xfe"),
    "nul": b"\x00" * 5_000,
    "nul_in_text": GOOD.replace(b"hear", b"\\u0000"),
    "nul_as_it_is": GOOD.replace(b"hear", b"\x00"),
    "single_quotes": GOOD.replace(b'"', b"'"),
    "comment": b"// hello\n" + GOOD,
    "many_lists": b"[" + b"[]," * 300_000 + b"[]]",
    "many_objects": b"[" + b"{}," * 300_000 + b"{}]",
    "many_numbers": b"[" + b"1," * 400_000 + b"1]",
    "many_choices": b'{"choices": [' + b"1," * 400_000 + b"1]}",
    "many_errors": b'{"error": [' + b"1," * 400_000 + b"1]}",
    "many_escapes": b'"' + b"\\ud83d\\ude00" * 80_000 + b'"',
    "just_too_large": b" " * (MIB + 1),
    "too_large": b'{"choices": "' + b"x" * (3 * MIB) + b'"}',
    "page": b"<html><head><title>502</title></head><body>Bad Gateway</body></html>",
    "stream": b'data: {"choices": [{"delta": {"content": "hi"}}]}\n\ndata: [DONE]\n\n',
}


def _bodies():
    """What is no JSON, or JSON to choke on, as an answer and as an error."""
    for variant, body in _BODIES.items():
        yield f"{variant}_200", Answer(body)
        yield f"{variant}_400", Answer(body, "400 Bad Request")
    for status in (500, 429, 404, 101, 204, 206, 226, 418, 451, 600):
        yield f"deep_lists_{status}", Answer(b"[" * 100_000, f"{status} Odd")


_PLACES = (
    (),
    ("choices",),
    ("choices", 0),
    ("choices", 0, "message"),
    ("choices", 0, "message", "content"),
    ("choices", 0, "message", "refusal"),
    ("choices", 0, "finish_reason"),
    ("usage",),
    ("usage", "prompt_tokens"),
    ("usage", "completion_tokens"),
    ("model",),
)
_WRONG = {
    "null": None,
    "true": True,
    "minus": -1,
    "large": 10**17,
    "float": 1.5,
    "text": "x",
    "empty": "",
    "list": [],
    "nested": [[[]]],
    "object": {},
    "odd": {"": {"": 0}},
}


def _shapes():
    """A completion with something wrong in each of its places."""
    for place in _PLACES:
        for variant, wrong in _WRONG.items():
            body = json.dumps(_replace_at(COMPLETION, place, wrong)).encode()
            yield "_".join(map(str, (*place, variant))), Answer(body)


def _replace_at(value, place, wrong):
    if not place:
        return wrong
    copy = deepcopy(value)
    inner = copy
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = wrong
    return copy


_TEXTS = {
    "escapes": "\x1b]0;owned\x07\x1b[2J\x9b31m",
    "markup": "[bold red]hello[/nope] [link=file:///etc/passwd]x[/link]",
    "page": "<script>alert(1)</script>",
    "right_to_left": "\u202e\u2066 hello \u200f",
    "tags": "\U000e0041\U000e0042",
    "accents": "a" + "\u0301" * 50_000,
    "large": "x" * 900_000,
    "large_wide": "\U0001f600" * 80_000,
    "lines": "\n" * 100_000,
    "blank": "\u200b\u00a0\u3000",
    "deep": "[" * 100_000,
    "thoughts": "<think>" * 20_000,
    "nul": "\x00" * 1_000,
    "key": "<KEY>",
}


def _texts():
    """A completion whose text, or reason to finish, is meant for a terminal, a page or a parser."""
    for variant, text in _TEXTS.items():
        yield variant, Answer(completion_body(text))
        reason = json.dumps(_replace_at(COMPLETION, ("choices", 0, "finish_reason"), text)).encode()
        yield f"{variant}_to_finish", Answer(reason)


_ECHOES = {
    "key": "Incorrect API key <KEY>",
    "key_without_prefix": "Incorrect API key <KEY_TAIL>",
    "middle_of_key": "The key ...<KEY_MIDDLE>... is not known",
    "key_backwards": "Look: <KEY_BACKWARDS>",
    "key_in_header": "Got {'Authorization': 'Bearer <KEY>'}",
    "key_with_escapes": "\x1b[31m<KEY>\x1b[0m",
    "prompt": "I do not like: <PROMPT>",
    "prompt_in_json": "I do not like: <PROMPT_ESCAPED>",
    "name_and_age": "Invalid person: <NAME_AND_AGE>",
    "name_alone": "<NAME_AND_AGE>",
    "everything": "<KEY> <PROMPT> <KEY_TAIL> <NAME_AND_AGE>",
    "escapes": "\x1b]0;owned\x07\x1b[2Jgone",
    "markup": "[bold]hello[/nope]",
    "lines": "one\r\ntwo\n" * 1_000,
    "large": "no " * 20_000,
    "nothing": "",
}


def _echoes():
    """The key and the words of the request in what the server complains about."""
    for variant, text in _ECHOES.items():
        for status in ("400 No", "401 No", "500 No", "429 Wait"):
            yield f"{variant}_{status[:3]}", Answer(error_body(text), status)
        yield f"{variant}_200", Answer(error_body(text))
        yield (f"{variant}_as_text", Answer(text.encode(), "400 No", ("Content-Type: text/plain",)))
        detail = json.dumps({"detail": [{"loc": ["body"], "msg": text, "input": text}]}).encode()
        yield f"{variant}_as_detail", Answer(detail, "422 No")
        says, code = f"{text} is a prompt that is too long", "context_length_exceeded"
        yield f"{variant}_too_long", Answer(error_body(says, code=code, param=text), "400 No")
    yield "reason", Answer(b"", "400 <KEY> <NAME_AND_AGE>")
    yield "type", Answer(b"", "200 OK", ("Content-Type: text/<KEY_TAIL>",))
    yield "header", Answer(b"", "401 No", ("WWW-Authenticate: Bearer <KEY>",))


_BLAMED = (
    *("messages", "model", "temperature", "max_tokens", "max_completion_tokens", "seed"),
    *("response_format", "response_format.type", "stream", "", None),
)


def _complain(field):
    return Answer(error_body("Unsupported", code="unsupported_parameter", param=field), "400 No")


def _blames():
    """Fields of the request that the server says it does not take, over and over."""
    for field in _BLAMED:
        yield str(field) or "empty", _complain(field)
    for status in ("400", "422", "404", "405", "500"):
        refusal = error_body("response_format: json_schema is not supported")
        yield f"schema_{status}", Answer(refusal, f"{status} No")


MODES = (
    *HTTP_MODES,
    *modes("bodies", _bodies()),
    *modes("shapes", _shapes()),
    *modes("texts", _texts()),
    *modes("echoes", _echoes()),
    *modes("blames", _blames()),
    Mode("blames.all_in_turn", tuple((_complain(field),) for field in _BLAMED)),
)
"""Each group is one kind of malice; its variants go through what that kind can do."""
GROUPS = tuple(dict.fromkeys(mode.group for mode in MODES))
"""The kinds, by name."""
