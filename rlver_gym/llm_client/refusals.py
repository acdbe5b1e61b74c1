"""What a failed attempt means, by the words that servers use or else by the HTTP status."""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from rlver_gym.answers.reading import mend_surrogates
from rlver_gym.llm_client.excerpts import hide_repeated
from rlver_gym.util.json_text import parse_wire_json
from rlver_gym.util.yaml_file import parse_yaml

SYSTEM = "system"
"""Stands among the fields for the system role: without it, its text begins the first message."""
OPTIONAL = frozenset({"temperature", "max_tokens", "seed", "response_format", SYSTEM})
"""The fields that a request can do without. Whatever a server says, no others are left out."""
MAX_VALUES = 50_000
"""In a body, which is parsed while all other requests wait."""
MAX_WAIT_S = 60.0
"""A server that asks one request to wait for longer is taken to be down for all."""
_MAX_RETRY_AFTER_S, _MAX_HEADER_CHARS = 30 * 86_400.0, 64
_MAX_DEPTH, _MAX_PARTS, _MAX_CHARS = 8, 40, 1_000


class Kind(Enum):
    """What a failed attempt means for the request."""

    NO_CONNECTION = "no_connection"
    """Nobody listens there, or not at this moment."""
    BROKEN = "broken"
    """The server failed, was too slow, or broke off: another attempt may do better."""
    MALFORMED = "malformed"
    """It answered, but with something unusable: another attempt may do better."""
    BUSY = "busy"
    """The server asks to wait: not a failure, only time limits it."""
    DECLINED = "declined"
    """The model or a filter would not answer these words: one more attempt."""
    UNUSABLE = "unusable"
    """The server will never answer this one request (too long, forbidden words)."""
    REFUSED = "refused"
    """The server will not serve such requests at all: a wrong key, no such model."""


class Scope(Enum):
    """How far a refusal reaches."""

    REQUEST = "request"
    """This request as it was sent: without a field it may be answered."""
    DIALOGUE = "dialogue"
    """These words: no later request of the dialogue will be answered either."""
    MODEL = "model"
    """This model with these settings, unless it has answered with them before."""
    ACCOUNT = "account"
    """Everything that is asked with this key."""


class Failure(NamedTuple):
    """Why one attempt gave no answer."""

    kind: Kind
    reason: str
    """For people: a few words of ours."""
    status: int | None = None
    retry_after_s: float | None = None
    """What the server asked for."""
    blames: frozenset[str] = frozenset()
    """Fields of the request that the server seems to object to: it may answer without them."""
    is_guess: bool = False
    """Whether the server names no field, and these are only the likeliest."""
    scope: Scope | None = None
    """How far it reaches, where the server refused."""
    remedy: str = ""
    quote: str = ""
    """The server's own words, which may hold anything. Masked, they become part of the reason."""


class _Rule(NamedTuple):
    scope: Scope
    remedy: str
    words: re.Pattern[str]
    field: str | None = None
    """What to leave out, where the scope is the request."""
    below: int = 600
    """Statuses from there on mean something else, whatever the words."""


@cache
def _rules() -> tuple[_Rule, ...]:
    text = (files("rlver_gym.llm_client") / "refusals.yaml").read_text(encoding="utf-8")
    return tuple(
        _Rule(**{**rule, "scope": Scope(rule["scope"]), "words": _any_of(*rule["words"])})
        for rule in parse_yaml(text, "refusals.yaml")
    )


def _any_of(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(words), re.IGNORECASE)


_NO_CREDIT = "The account has no credit left."
_CHECK_KEY = "Check OPENAI_API_KEY (api_key), and that it belongs to this server."
_CHECK_NAME = "Check the model's name, and that OPENAI_BASE_URL (base_url) ends in /v1."
_CHECK_SETTINGS = (
    "Check the model's name and what it supports (temperature, max_tokens): --omit FIELD leaves a"
    " field out."
)
_BY_STATUS = {401: _CHECK_KEY, 402: _NO_CREDIT, 403: _CHECK_KEY, 404: _CHECK_NAME, 407: _CHECK_KEY}
_OVERLOADED, _AGAIN, _TOO_LARGE, _LEGAL = (429, 503, 529), (408, 409, 425), (413, 431), 451
_OBJECTS = _any_of(
    "(not|n't|un)[ -]?(support|allow|permit|recogni|know|expect)|invalid|unavailable|extra|only"
)
_SIZE = _any_of("request too large", "too large for", "context")
"""A server that is asked too much at once, and means this one request: no wait helps."""
_NAMES = {
    name: _any_of(rf"(?<![\w-]){name.replace('_', '_?')}(?![\w-])")
    for name in OPTIONAL - {SYSTEM, "response_format"}
}
_TELLING = """message msg error errors detail details errormsg errmsg errormessage statusmsg
    baseresp description title reason fault faultstring metadata raw code type status param reasons
    errortype errorcode statuscode innererror loc failurereason body""".split()
"""Keys under which servers say what is wrong; under all others they repeat the request."""
_COMPLAINING = frozenset(_TELLING) - {"type", "status", "title", "body", "param", "raw"}
_STATUS_KEYS = ("code", "status", "status_code", "statusCode", "http_status", "error_code")
_HTTP_ERRORS = frozenset(map(str, range(400, 600)))
_NO_COMPLAINT = frozenset({"", "0", "200", "success", "ok", "none", "null"})
_STATUS_BY_WORDS = (
    (429, _any_of(r"rate[ _-]?limit|too many requests|limit_requests|频率|限流")),
    (404, _any_of(r"model\b.{0,60}(not[ _]found|not exist|unknown|no such)|model_not_found")),
)
"""What an error means whose server answers 200 all the same, and gives no HTTP status in it."""


def classify_http_error(
    status: int, content: bytes, headers: Mapping[str, str], request_texts: Collection[str] = ()
) -> Failure:
    """The failure that an HTTP error means, its quote still to be masked."""
    try:
        body: Any = parse_wire_json(content, MAX_VALUES)
    except ValueError:  # words and no JSON, or a page
        text = content[: 4 * _MAX_CHARS].decode("utf-8", "replace").strip()
        body = None if text.startswith(("<", "{", "[")) else text
    return _classify_error(status, body, headers.get("retry-after"), request_texts)


def _classify_error(
    status: int, body: Any, retry_after: str | None = None, request_texts: Collection[str] = ()
) -> Failure:
    words = hide_repeated(" ".join(_find_words(body))[: 4 * _MAX_CHARS], request_texts)
    rule = next(
        (
            candidate
            for candidate in _rules()
            if status < candidate.below and candidate.words.search(words)
        ),
        None,
    )
    scope, remedy = (rule.scope, rule.remedy) if rule else (Scope.MODEL, "")
    blames = _find_fields(status, words, rule)
    wait_s = retry_after_s(retry_after)
    failure = Failure(
        Kind.REFUSED, f"HTTP {status}", status, remedy=remedy, quote=_quote_message(body)
    )
    if status in (401, 402, 407) and scope is not Scope.DIALOGUE:
        return failure._replace(scope=Scope.ACCOUNT, remedy=_BY_STATUS[status])
    if scope is Scope.ACCOUNT:
        return failure._replace(scope=scope)
    if scope is Scope.DIALOGUE and (status not in _OVERLOADED or _SIZE.search(words)):
        return failure._replace(kind=Kind.UNUSABLE, scope=scope)
    if status in _OVERLOADED:
        return failure._replace(kind=Kind.BUSY, remedy="", retry_after_s=wait_s)
    if status >= 500 or status in _AGAIN:
        return failure._replace(kind=Kind.BROKEN, remedy="", retry_after_s=wait_s, blames=blames)
    if status in (*_TOO_LARGE, _LEGAL):
        size = next(candidate.remedy for candidate in _rules() if candidate.scope is Scope.DIALOGUE)
        remedy = "" if status == _LEGAL else size
        return failure._replace(kind=Kind.UNUSABLE, scope=Scope.DIALOGUE, remedy=remedy)
    remedy = remedy or _BY_STATUS.get(status, _CHECK_SETTINGS)
    is_guess = not (blames or status == 403 or _names_other_field(body))
    blames = frozenset({"response_format"}) if is_guess else blames
    return failure._replace(scope=Scope.MODEL, remedy=remedy, blames=blames, is_guess=is_guess)


def classify_body(body: Any, request_texts: Collection[str] = ()) -> Failure | None:
    """The failure that a body of status 200 tells of; None for one without a complaint."""
    told = {_fold_key(key): value for key, value in body.items()} if isinstance(body, dict) else {}
    complaint = {key: value for key, value in told.items() if key in _COMPLAINING and value}
    words = [word for word in _find_words(complaint) if word.strip().lower() not in _NO_COMPLAINT]
    if not words:
        return None
    own = hide_repeated(" ".join(words), request_texts)
    by_words = next((status for status, form in _STATUS_BY_WORDS if form.search(own)), None)
    status = _find_status(body) or by_words
    failure = _classify_error(status or 400, body, None, request_texts)
    is_known = (
        status or failure.scope is not Scope.MODEL or (failure.blames and not failure.is_guess)
    )
    if not is_known:
        failure = Failure(Kind.MALFORMED, "", quote=failure.quote)
    return failure._replace(reason="an error in place of an answer")


def _find_status(body: Any, depth: int = 0) -> int | None:
    if not isinstance(body, dict) or depth > 2:
        return None
    for value in map(body.get, _STATUS_KEYS):
        if str(value).strip() in _HTTP_ERRORS:
            return int(str(value))
    return next(
        (status for value in body.values() if (status := _find_status(value, depth + 1))), None
    )


def _fold_key(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


def _find_fields(status: int, words: str, rule: _Rule | None) -> frozenset[str]:
    if status < 400 or status in _OVERLOADED:
        return frozenset()
    if rule and rule.field:
        return frozenset({rule.field})
    if status >= 500 and not _OBJECTS.search(words):
        return frozenset()
    return frozenset(name for name, pattern in _NAMES.items() if pattern.search(words))


def _names_other_field(body: Any) -> bool:
    error = body.get("error") if isinstance(body, dict) else None
    told = error if isinstance(error, dict) else {}
    return str(told.get("code")).startswith("unsupported") and bool(told.get("param"))


def _quote_message(body: Any) -> str:
    said = [*dict.fromkeys(" ".join(text.split()) for text in _find_words(body)), ""]
    quote = ": ".join([text for text in said if " " in text][:2] or said[:1])[:_MAX_CHARS]
    return mend_surrogates(quote)


def _find_words(body: Any, depth: int = 0) -> Iterator[str]:
    """Everything that a server says about what is wrong: sentences first, then codes."""
    body = _unpack(body)
    parts: list[Any] = []
    if isinstance(body, str | int) and not isinstance(body, bool):
        yield str(body)[:_MAX_CHARS]
    elif isinstance(body, list):
        parts = body[:_MAX_PARTS]
    elif isinstance(body, dict):
        told = {_fold_key(key): value for key, value in body.items()}
        parts = [told[key] for key in _TELLING if key in told]
    for part in parts if depth < _MAX_DEPTH else ():
        yield from _find_words(part, depth + 1)


def _unpack(body: Any) -> Any:
    """What stands in a text that is JSON itself, as proxies pass on an error."""
    if isinstance(body, str) and body.lstrip()[:1] in ("{", "["):
        try:
            return parse_wire_json(body.encode(errors="surrogatepass"), MAX_VALUES)
        except ValueError:
            pass
    return body


def retry_after_s(header: str | None) -> float | None:
    """Seconds that a Retry-After header asks to wait, at most 30 days; None for nonsense."""
    if not header or len(header) > _MAX_HEADER_CHARS:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            at = parsedate_to_datetime(header)
            at = at.replace(tzinfo=at.tzinfo or UTC)
            seconds = (at - datetime.now(UTC)).total_seconds()
        except (ValueError, OverflowError):  # no date, or one that no calendar has
            return None
    return min(max(0.0, seconds), _MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None
