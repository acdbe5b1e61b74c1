"""Modes of a hostile server in HTTP: how an answer is packed, framed, timed, sent elsewhere."""

import gzip
import zlib
from functools import lru_cache

from hostile_answers import GOOD, JSON_TYPE, MIB, error_body, modes
from hostile_server import Answer, Close, Flood, Hang, Reset, Send

_BOMB_MIB = 256


@lru_cache
def _bomb(format_bits=zlib.MAX_WBITS):
    """256 MiB of zeros in a quarter of a MiB, by zlib or, with 31 bits, gzip."""
    packer = zlib.compressobj(wbits=format_bits)
    first, again = (packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + again * (_BOMB_MIB - 1)


def _gzip_bomb():
    return _bomb(31)


@lru_cache
def _gzip_bomb_twice():
    """That, packed again: less than a KiB."""
    return gzip.compress(_gzip_bomb())


def _encodings():
    """A Content-Encoding that nobody asked for, true or not."""
    bombs = {"gzip": _gzip_bomb, "gzip, gzip": _gzip_bomb_twice, "deflate": _bomb}
    bombs |= {"GZIP": _gzip_bomb, "x-gzip": _gzip_bomb}
    others = ("br", "zstd", "compress", "gzip, identity", "identity, gzip", "rot13", "br, br")
    for number, (encoding, body) in enumerate((bombs | dict.fromkeys(others, GOOD)).items()):
        headers = (JSON_TYPE, f"Content-Encoding: {encoding}")
        for status in ("200 OK", "500 Internal Server Error"):
            yield f"{number}_{status[:3]}", Answer(body, status, headers)
    twice = (JSON_TYPE, *2 * ["Content-Encoding: gzip"])
    yield "two_headers", Answer(_gzip_bomb_twice, headers=twice)
    charsets = dict.fromkeys(("bz2", "idna", "utf-16", "rot13"), GOOD)
    charsets |= {"zlib": _bomb, "zip": _bomb, "punycode": b"a" * 60_000}
    for charset, body in charsets.items():
        head = f"Content-Type: application/json; charset={charset}"
        yield f"charset_{charset}_200", Answer(body, headers=(head,))
        yield f"charset_{charset}_400", Answer(body, "400 Bad Request", (head,))


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
_LENGTH = len(GOOD)
_WHOLE = _HEAD + b"Content-Length: %d\r\n\r\n" % _LENGTH + GOOD
_HEADS = {
    "length_too_long": _HEAD + b"Content-Length: %d\r\n\r\n" % (_LENGTH + 99) + GOOD,
    "length_too_short": _HEAD + b"Content-Length: 7\r\n\r\n" + GOOD,
    "length_negative": _HEAD + b"Content-Length: -1\r\n\r\n" + GOOD,
    "length_of_1000_digits": (_HEAD + b"Content-Length: " + b"9" * 1000 + b"\r\n\r\n" + GOOD),
    "length_of_an_exabyte": (_HEAD + b"Content-Length: %d\r\n\r\n" % 10**18 + GOOD, Hang()),
    "length_is_no_number": _HEAD + b"Content-Length: many\r\n\r\n" + GOOD,
    "two_lengths": (_HEAD + b"Content-Length: 5\r\nContent-Length: %d\r\n\r\n" % _LENGTH + GOOD),
    "length_and_chunked": (
        _HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "no_length": _HEAD + b"\r\n" + GOOD,
    "packed_chunks": _HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunk_of_no_size": _CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n",
    "chunk_of_negative_size": _CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n",
    "chunk_of_huge_size": _CHUNKED + b"F" * 30 + b"\r\nhello\r\n0\r\n\r\n",
    "chunk_longer_than_it_says": _CHUNKED + b"3\r\nhello\r\n0\r\n\r\n",
    "chunk_without_end": _CHUNKED + b"5\r\nhello\r\n",
    "chunk_with_a_long_extension": (_CHUNKED + b"5;" + b"x" * 200_000 + b"\r\nhello\r\n0\r\n\r\n"),
    "many_trailers": _CHUNKED + b"0\r\n" + b"X: y\r\n" * 50_000 + b"\r\n",
    "many_headers": _HEAD + b"X: y\r\n" * 50_000 + b"\r\n",
    "long_header": _HEAD + b"X: " + b"y" * 500_000 + b"\r\n\r\n",
    "header_with_nul": _HEAD + b"X: a\x00b\r\n\r\n" + GOOD,
    "header_without_colon": _HEAD + b"X y\r\n\r\n" + GOOD,
    "header_without_name": _HEAD + b": y\r\n\r\n" + GOOD,
    "header_with_escapes": _HEAD + b"X: \x1b]0;owned\x07\r\n\r\n" + GOOD,
    "header_of_other_bytes": (
        _HEAD + b"X: \xff\xfe\r\nContent-Length: %d\r\n\r\n" % _LENGTH + GOOD
    ),
    "folded_header": _HEAD + b"X: a\r\n b\r\n\r\n" + GOOD,
    "line_feeds_alone": (_HEAD.replace(b"\r", b"") + b"Content-Length: %d\n\n" % _LENGTH + GOOD),
    "http_0_9": GOOD,
    "http_2_0": b"HTTP/2.0 200 OK\r\n\r\n" + GOOD,
    "http_9_9": b"HTTP/9.9 200 OK\r\n\r\n" + GOOD,
    "http_1_0": b"HTTP/1.0 200 OK\r\n\r\n" + GOOD,
    "no_status": b"HTTP/1.1\r\n\r\n" + GOOD,
    "status_is_no_number": b"HTTP/1.1 abc OK\r\n\r\n",
    "status_of_4_digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "status_0": b"HTTP/1.1 000 OK\r\n\r\n",
    "status_999": (b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",),
    "reason_with_escapes": (b"HTTP/1.1 200 \x1b[2J\r\nContent-Length: 0\r\n\r\n",),
    "switching_protocols": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
        Hang(),
    ),
    "another_protocol": (b"SSH-2.0-OpenSSH_9.9\r\n", Hang()),
    "tls": b"\x15\x03\x03\x00\x02\x02\x28",
    "two_answers": (_WHOLE + _HEAD + b"Content-Length: 0\r\n\r\n",),
}


def _framing():
    """Heads and lengths that HTTP does not allow, or just about."""
    for variant, head in _HEADS.items():
        data, *more = head if isinstance(head, tuple) else (head, Close())
        yield variant, Send(data), *more


def _pace():
    """Too slow, too much, or broken off, in each phase of an answer."""
    phases = {
        "nothing": b"",
        "status_line": _WHOLE[:17],
        "headers": _WHOLE[:-_LENGTH],
        "half": _WHOLE[: -_LENGTH // 2],
        "chunk": _CHUNKED + b"5\r\nhe",
    }
    for phase, data in phases.items():
        for end in (Hang(), Reset(), Close()):
            yield f"{type(end).__name__.lower()}_after_{phase}", Send(data), end
    yield "drip_of_the_head", Send(b"HTTP/1.1 200 OK\r\n"), Flood(b"X: y\r\n", 0.05)
    yield "drip_of_a_header", Send(b"HTTP/1.1 200 OK\r\nX: "), Flood(b"y", 0.05)
    yield ("drip_of_the_body", Send(_HEAD + b"Content-Length: 99999\r\n\r\n"), Flood(b" ", 0.05))
    yield "drip_of_chunks", Send(_CHUNKED), Flood(b"1\r\n \r\n", 0.05)
    error = Send(b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n")
    yield "drip_of_an_error", error, Flood(b"1\r\n \r\n", 0.05)
    yield "flood_of_blanks", Send(_HEAD + b"\r\n"), Flood(b" " * 65_536)
    yield "flood_of_chunks", Send(_CHUNKED), Flood(b"1\r\n \r\n" * 10_000)
    yield "flood_of_an_error", Send(b"HTTP/1.1 500 No\r\n\r\n"), Flood(b"x" * 65_536)
    yield "flood_of_headers", Send(b"HTTP/1.1 200 OK\r\n"), Flood(b"X: y\r\n" * 1_000)
    yield "flood_of_a_header", Send(b"HTTP/1.1 200 OK\r\nX: "), Flood(b"y" * 65_536)
    for status in (b"100 Continue", b"103 Early Hints", b"199 Odd"):
        yield f"flood_of_{status[:3].decode()}", Flood(b"HTTP/1.1 %b\r\n\r\n" % status * 500)


def _redirects():
    """To somewhere else, with every status that means it."""
    places = {
        "other_port": "<TRAP>/v1/chat/completions",
        "other_host": "http://localhost.localdomain/v1",
        "other_path": "<HERE>/../../elsewhere",
        "itself": "<HERE>/chat/completions",
        "other_scheme": "ftp://127.0.0.1/x",
        "tls": "https://127.0.0.1:1/v1",
        "no_scheme": "//127.0.0.1:1/x",
        "file": "file:///etc/passwd",
        "script": "javascript:alert(1)",
        "nowhere": "",
        "no_address": "http://[::1/\\:99999",
        "key": "<TRAP>/?key=<KEY>&words=<NAME_AND_AGE>",
        "long": "<TRAP>/" + "x" * 20_000,
    }
    for variant, place in places.items():
        for status in (301, 302, 303, 307, 308):
            yield (f"{variant}_{status}", Answer(b"", f"{status} Moved", (f"Location: {place}",)))
    yield ("two_places", Answer(b"", "307 Moved", ("Location: <TRAP>/a", "Location: <TRAP>/b")))
    yield "no_place", Answer(GOOD, "300 Choose")
    yield "not_modified", Answer(b"", "304 Not Modified")
    yield ("created_elsewhere", Answer(GOOD, "201 Created", (JSON_TYPE, "Location: <TRAP>/x")))
    yield "refresh", Answer(GOOD, "200 OK", (JSON_TYPE, "Refresh: 0; url=<TRAP>/x"))


def _cookies():
    """Cookies that want to be sent back, with the attempt that follows."""
    for variant, cookie in {
        "plain": "id=1",
        "wide": "id=1; Domain=.0.0.1; Path=/",
        "forever": "id=1; Max-Age=99999999999999999999",
        "odd_date": "id=1; Expires=Thu, 99 Foo 99999 99:99:99 GMT",
        "huge": "id=" + "x" * 50_000,
        "key": "id=<KEY>",
        "odd_version": "id=1; Version=9e999; Port=x; Comment=\\",
    }.items():
        yield (variant, Answer(b"", "500 No", (f"Set-Cookie: {cookie}", f"Set-Cookie2: {cookie}")))


_RETRY_AFTERS = (
    *"0 -1 1e308 1e-308 1e999 nan inf -inf 3600 99999999999999999999".split(),
    *("9" * 5_000, "0x10", "1_0", "soon", "", "1, 2", "\u0662\u0660", "<KEY>"),
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Fri, 31 Dec 9999 23:59:59 -2359",
    "Mon, 01 Jan 0001 00:00:00 GMT",
    "Mon, 01 Jan 0001 00:00:00 +2359",
    "Mon, 01 Jan 99999 00:00:00 GMT",
    "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
    "1 Jan 2030 00:00:00 +99999999999",
    "Mon, 99 Foo 2020 99:99:99 GMT",
    "Wed, 21 Oct 2015 07:28:00 GMT",
)
"""Headers that ask to wait."""


def _retry_afters():
    """A Retry-After that means nothing, or far too much."""
    for number, wait in enumerate(_RETRY_AFTERS):
        for status in (429, 503, 500):
            headers = (JSON_TYPE, f"Retry-After: {wait.encode().decode('latin-1')}")
            yield f"{number}_{status}", Answer(error_body("Slow down."), f"{status} No", headers)


HTTP_MODES = (
    *modes("encodings", _encodings()),
    *modes("framing", _framing()),
    *modes("pace", _pace()),
    *modes("redirects", _redirects()),
    *modes("cookies", _cookies()),
    *modes("waits", _retry_afters()),
)
"""All of them."""
