"""What an HTTP error of a chat server means, and how far it reaches: this request, this dialogue,
this model with these settings, or the account.

One table decides, over the words that servers use. What none of them fits goes by its status.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any, NamedTuple

from rlver_gym.io.json_text import parse_json
from rlver_gym.llm_client.excerpts import hide_repeated

SYSTEM = "system"
"""Stands among the fields for the system role: without it, its text begins the first message."""
OPTIONAL = frozenset({"temperature", "max_tokens", "seed", "response_format", SYSTEM})
"""The fields that a request can do without. Whatever a server says, no others are left out."""
MAX_VALUES = 50_000
"""In a body. It is parsed while all other requests wait, and a megabyte of small values takes half
a second.
"""


MAX_WAIT_S = 60.0
"""A server that asks one request to wait for longer is taken to be down for all."""
_MAX_RETRY_AFTER_S, _MAX_HEADER_CHARS = 30 * 86_400.0, 64
"""What a Retry-After means at most: who asks for more has no date in mind."""


class Kind(Enum):
    """What a failed attempt means for the request."""

    NO_CONNECTION = "no_connection"
    """Nobody listens there, or not at this moment."""
    BROKEN = "broken"
    """The server failed, was too slow, or broke off: another attempt may do better."""
    MALFORMED = "malformed"
    """The server answered, but with something unusable: another attempt may do better. Says nothing
    about the server's health.
    """
    BUSY = "busy"
    """The server asks to wait: not a failure, only time limits it."""
    SLOW = "slow"
    """No answer in time, to nobody, while others were under way: fewer at once may be answered. No
    failure.
    """
    DECLINED = "declined"
    """The model or a content filter would not answer these words. One more attempt, since both
    leave much to chance.
    """
    UNUSABLE = "unusable"
    """The server will never answer this one request (too long, forbidden words). Others may be
    fine.
    """
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
    """What to do about it, in a sentence."""
    quote: str = ""
    """The server's own words, which may hold anything. Masked, they become part of the
    reason.
    """


class _Rule(NamedTuple):
    """Words that tell what a refusal is about."""

    scope: Scope
    remedy: str
    words: re.Pattern[str]
    fields: frozenset[str]
    """What to leave out, where the scope is the request."""
    statuses: range


def _rule(scope: Scope, remedy: str, *words: str, fields: str = "", below: int = 600) -> _Rule:
    pattern = re.compile("|".join(words), re.IGNORECASE)
    return _Rule(scope, remedy, pattern, frozenset(fields.split()), range(400, below))


_CHECK_KEY = "Check OPENAI_API_KEY (api_key), and that it belongs to this server."
_CHECK_NAME = "Check the model's name, and that OPENAI_BASE_URL (base_url) ends in /v1."
_CHECK_SETTINGS = (
    "Check the model's name and what it supports (temperature, max_tokens): --omit FIELD leaves a"
    " field out."
)
_TABLE = (
    _rule(
        Scope.ACCOUNT,
        "The account has no credit left.",
        r"insufficient[ _-]?(quota|balance|credit|funds)|exceeded_current_quota|out of credits?",
        r"budget[ _]?(has been )?exceeded|exceeded[ _]?budget|over budget|requires more credits",
        r"credit balance|arrearage|in good standing|key limit exceeded|payment required",
        r"free[ _]?tier[ _]?only|free tier of the model has been exhausted",
        r"account\b.{0,80}(suspended|deactivated|not active|disabled)|余额不足|欠费|充值",
        below=500,
    ),
    _rule(
        Scope.ACCOUNT,
        _CHECK_KEY,
        r"(invalid|incorrect|expired|wrong|missing)[ _-]{0,2}(api[ _-]?key|authent|credential)",
        r"api[ _-]?key[ _](not valid|invalid|expired|is (invalid|missing|expired))",
        r"authentication[ _]fail|user location is not supported|unsupported_country",
        below=500,
    ),
    _rule(
        Scope.REQUEST,
        "Lower max_tokens.",
        r"invalid max_(completion_)?tokens|range of max_(completion_)?tokens",
        r"max_(completion_)?tokens\W{0,3} (must|should) be",
        fields="max_tokens",
    ),
    _rule(
        Scope.DIALOGUE,
        "The dialogue is longer than the model takes: serve it with a longer context, or lower"
        " max_tokens.",
        r"context[ _-]?(length|window|size|limit|overflow)|exceed_context|too many tokens",
        r"(prompt|input|request|message|conversation)s?\b[^.]{0,60}\btoo (long|large)",
        r"reduce (the |your )?(length|message|prompt|input)|model max(imum)? length",
        r"exceed\w* (the |this )?(model|max|maximum)\b[^.]{0,40}(token|length)",
        r"input[ _](token|length)[^.]{0,50}exceed|range of input length",
        r"longer than the (max|model)",
        r"inputs?\W? tokens \+|max_model_len|超长|上下文长度|输入长度|超过.{0,12}长度",
    ),
    _rule(
        Scope.DIALOGUE,
        "A content filter of the server refuses these words.",
        r"content[ _-]?(filter|policy|management|moderation|inspection|violat)|content exists risk",
        r"moderat(ion|ed)|\bflagged\b|inappropriate|data[ _]?inspection|prohibited[ _]content",
        r"sensitive[ _]?(content|information|words?)|high[ _-]risk|responsible[ _]?ai|guardrail",
        r"(usage|safety|acceptable use) (polic|guideline|filter|system|reason|setting|check)",
        r"block(ed)?\b[^.]{0,40}(safety|policy|filter|content)|unsafe (content|input|prompt)",
        r"invalid_prompt|enough to be unsafe|敏感|违规|不安全|不合规|高风险",
    ),
    _rule(
        Scope.REQUEST,
        "Fold the system role into the first message: --omit system.",
        r"system[ _-]?(role|message|prompt|instruction)s?\b[^.]{0,40}"
        r"(not|n't|un)[ -]?(support|allow|enabl|permit)",
        r"(not|n't) support[^.]{0,30}\bsystem\b|developer instruction is not enabled",
        r"only user\b[^.]{0,40}roles? (are|is) (supported|allowed)|roles? must alternate",
        r"(unknown|unsupported|invalid|unexpected) role\W{0,4}(system|developer)",
        fields=SYSTEM,
    ),
    _rule(
        Scope.REQUEST,
        "Leave the schema out: --omit response_format.",
        r"response_?format|json_(schema|object)|\bguided|\bgrammar|structured output",
        fields="response_format",
    ),
)
_OBJECTS = re.compile(
    r"(not|n't|un)[ -]?(support|allow|permit|recogni|know|expect)|invalid|unavailable|extra|only",
    re.IGNORECASE,
)
_NAMES = {
    name: re.compile(rf"(?<![\w-]){name.replace('_', '_?')}(?![\w-])", re.IGNORECASE)
    for name in OPTIONAL - {SYSTEM, "response_format"}
}
_OVERLOADED = (429, 503, 529)
_AGAIN = (408, 409, 425)
_TELLING = frozenset(
    """error errors message detail details msg code type status param reason reasons raw error_type
    error_code error_msg err_msg status_msg base_resp innererror title description metadata loc
    failure_reason body fault faultstring""".split()
)
"""Keys under which servers say what is wrong. Under all others they repeat the request."""
_WORDS_FIRST = (
    "message", "msg", "error", "errors", "detail", "details", "error_msg", "err_msg",
    "status_msg", "base_resp", "description", "title", "reason", "fault", "faultstring", "code",
)  # fmt: skip
_MAX_DEPTH, _MAX_PARTS, _MAX_CHARS = 8, 40, 1_000


def classify_http_error(
    status: int, content: bytes, headers: Mapping[str, str], request_texts: Collection[str] = ()
) -> Failure:
    """The failure that an HTTP error means. It quotes the server's message, still to be masked.

    What it repeats of `request_texts` is no word of the server's, and decides nothing.
    """
    try:
        found: Any = parse_json(content, max_values=MAX_VALUES, allow_nan=True)
    except ValueError:
        found = _plain_text(content)
    return classify_error(status, found, headers.get("retry-after"), request_texts)


def classify_error(
    status: int, found: Any, retry_after: str | None = None, request_texts: Collection[str] = ()
) -> Failure:
    """The same for a body that is parsed already."""
    says = Failure(Kind.REFUSED, f"HTTP {status}", status, quote=quote_message(found))
    words = hide_repeated(" ".join(_find_words(found))[: 4 * _MAX_CHARS], request_texts)
    rule = next((one for one in _TABLE if status in one.statuses and one.words.search(words)), None)
    blames = _find_fields(status, words, rule)
    if status in (401, 402, 407) and (rule is None or rule.scope is not Scope.DIALOGUE):
        remedy = _TABLE[0].remedy if status == 402 else _CHECK_KEY
        return says._replace(scope=Scope.ACCOUNT, remedy=remedy)
    if rule and rule.scope is Scope.ACCOUNT:
        return says._replace(scope=Scope.ACCOUNT, remedy=rule.remedy)
    if (
        rule
        and rule.scope is Scope.DIALOGUE
        and not (status in _OVERLOADED and not _is_size(words))
    ):
        return says._replace(kind=Kind.UNUSABLE, scope=Scope.DIALOGUE, remedy=rule.remedy)
    if status in _OVERLOADED:
        return says._replace(kind=Kind.BUSY, retry_after_s=retry_after_s(retry_after))
    if status >= 500 or status in _AGAIN:
        wait_s = retry_after_s(retry_after)
        return says._replace(kind=Kind.BROKEN, retry_after_s=wait_s, blames=blames)
    if status in (413, 431, 451):
        size = next(one for one in _TABLE if one.scope is Scope.DIALOGUE)
        return says._replace(
            kind=Kind.UNUSABLE, scope=Scope.DIALOGUE, remedy="" if status == 451 else size.remedy
        )
    by_status = {403: _CHECK_KEY, 404: _CHECK_NAME}.get(status, _CHECK_SETTINGS)
    failure = says._replace(
        scope=Scope.MODEL, remedy=rule.remedy if rule else by_status, blames=blames
    )
    if blames or status == 403 or _names_other_field(found):
        return failure
    return failure._replace(blames=frozenset({"response_format"}), is_guess=True)


def _is_size(words: str) -> bool:
    """Whether a server that is asked too much at once means this one request: no wait helps."""
    return bool(re.search(r"request too large|too large for|context", words, re.IGNORECASE))


def _find_fields(status: int, words: str, rule: _Rule | None) -> frozenset[str]:
    """The fields that the server names as ones that this model does not take."""
    if status < 400 or status in _OVERLOADED:
        return frozenset()
    if rule and rule.fields:
        return rule.fields
    if status >= 500 and not _OBJECTS.search(words):
        return frozenset()
    return frozenset(name for name, found in _NAMES.items() if found.search(words))


def _names_other_field(found: Any) -> bool:
    """Whether the server says which field it means, and that is none to do without."""
    error = found.get("error") if isinstance(found, dict) else None
    return (
        isinstance(error, dict)
        and str(error.get("code")).startswith("unsupported")
        and bool(error.get("param"))
    )


def quote_message(found: Any, depth: int = 0) -> str:
    """The server's own words, wherever they are, without what it repeats of the request.

    Empty when it has none in a known place.
    """
    found = _unpack(found)
    if depth > _MAX_DEPTH:
        return ""
    if isinstance(found, str | int) and not isinstance(found, bool):
        return " ".join(str(found)[:_MAX_CHARS].split())
    if isinstance(found, list):
        parts = [quote_message(part, depth + 1) for part in found[:3]]
        return "; ".join(filter(None, parts))[:_MAX_CHARS]
    if isinstance(found, dict):
        raw = found["metadata"].get("raw") if isinstance(found.get("metadata"), dict) else None
        inner = quote_message(raw, depth + 1) if raw else ""
        words = next(
            filter(None, (quote_message(found.get(key), depth + 1) for key in _WORDS_FIRST)), ""
        )
        return f"{words}: {inner}" if inner and inner not in words else words
    return ""


def _find_words(found: Any, depth: int = 0) -> Iterator[str]:
    """Everything that a server says about what is wrong, its codes included."""
    found = _unpack(found)
    if depth > _MAX_DEPTH:
        return
    if isinstance(found, str | int) and not isinstance(found, bool):
        yield str(found)[:_MAX_CHARS]
    elif isinstance(found, list):
        for part in found[:_MAX_PARTS]:
            yield from _find_words(part, depth + 1)
    elif isinstance(found, dict):
        for key, value in list(found.items())[:_MAX_PARTS]:
            if key in _TELLING:
                yield from _find_words(value, depth + 1)


def _unpack(found: Any) -> Any:
    """What stands in a text that is JSON itself, as proxies pass on an error."""
    if isinstance(found, str) and found.lstrip()[:1] in ("{", "["):
        try:
            return parse_json(found.encode(), max_values=MAX_VALUES, allow_nan=True)
        except ValueError:
            return found
    return found


def _plain_text(content: bytes) -> str | None:
    """An error that is words and no JSON; None for a page."""
    text = content[: 4 * _MAX_CHARS].decode("utf-8", "replace").strip()
    return None if not text or text.startswith(("<", "{", "[")) else text


def retry_after_s(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks to wait, 30 days at most: it holds seconds or an HTTP
    date. None when it says nothing usable.
    """
    if not header or len(header) > _MAX_HEADER_CHARS:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            at = parsedate_to_datetime(header)
            seconds = (
                at.replace(tzinfo=at.tzinfo or UTC) - (now or datetime.now(UTC))
            ).total_seconds()
        except (ValueError, OverflowError):  # no date, or one that no calendar has
            return None
    return min(max(0.0, seconds), _MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None
