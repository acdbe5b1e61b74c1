"""Problems (RFC 9457): a kind, a status, and a detail that says what to do. Knows no framework."""

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

MEDIA_TYPE = "application/problem+json"
_NO_OBJECT = "must be a JSON object, over HTTP with Content-Type: application/json"


class Kind(NamedTuple):
    """A sort of problem."""

    status: int
    title: str
    detail: str = ""


KINDS = {
    "not-json": Kind(400, "The request cannot be read", "The body is no JSON. Send an object."),
    "unauthorized": Kind(
        401,
        "No valid token",
        "The token is missing or wrong. Send it as `Authorization: Bearer TOKEN`; clients of"
        " rlver-gym read it from RLVER_GYM_TOKEN.",
    ),
    "foreign-page": Kind(
        403, "Asked by a web page", "The page of another host asked. Call this from a program."
    ),
    "foreign-host": Kind(
        403,
        "Asked for another host",
        "The header Host names another machine. Call 127.0.0.1 or localhost; behind a proxy start"
        " the server with a token.",
    ),
    "user-not-offered": Kind(403, "No such user here"),
    "unknown-name": Kind(404, "No such name"),
    "unknown-episode": Kind(404, "No such episode"),
    "not-found": Kind(404, "Nothing is here", "See /openapi.json for what there is."),
    "method-not-allowed": Kind(405, "No such method here", "See /openapi.json for what there is."),
    "slow-request": Kind(408, "The body did not come", "Send the whole body within 30 s."),
    "wrong-turn": Kind(409, "Another turn is next"),
    "episode-over": Kind(409, "The episode is over"),
    "request-id-used": Kind(
        409,
        "The request id stands for another request",
        "This request id was used for something else. Use a new one for every request.",
    ),
    "too-large": Kind(413, "The body is too large"),
    "invalid": Kind(422, "The request is not valid"),
    "server-error": Kind(
        500, "The server failed", "The episode is as it was. Look into the server's log."
    ),
    "user-unavailable": Kind(
        502,
        "The user's model does not answer",
        "The episode is as it was: send the same request again later.",
    ),
    "user-failed": Kind(
        502,
        "The user failed at it",
        "The episode is as it was. Say something, or have other replies appraised.",
    ),
    "too-many-episodes": Kind(503, "Too many open episodes"),
    "busy": Kind(503, "Too many turns at once"),
    "stopped": Kind(
        503, "The server is being stopped", "Send the same request again when it is there."
    ),
}


class Problem(BaseModel):
    """What went wrong and what to do about it (RFC 9457)."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(examples=["urn:rlver-gym:wrong-turn"])
    title: str
    status: int
    detail: str = Field(description="What was wrong, and the remedy.")
    next_turn: int | None = Field(None, description="Of wrong-turn: which turn is next.")
    outcome: str | None = Field(None, description="Of episode-over: how it ended.")
    retry_after: int | None = Field(
        None, description="Seconds to wait, where waiting helps; as in the header Retry-After."
    )


class Refusal(Exception):
    """A request is not granted. What was asked for is as it was."""

    def __init__(self, kind: str, detail: str = "", **members: Any) -> None:
        """`kind`: a name of `KINDS`; `members`: other fields of `Problem`."""
        super().__init__(detail or KINDS[kind].detail)
        self.kind = kind
        self.problem = Problem(
            type=f"urn:rlver-gym:{kind}",
            title=KINDS[kind].title,
            status=KINDS[kind].status,
            detail=str(self),
            **members,
        )

    @property
    def body(self) -> dict[str, Any]:
        return self.problem.model_dump(exclude_none=True)

    @property
    def content(self) -> bytes:
        """The problem as JSON; what it quotes may hold any character."""
        return json.dumps(self.body).encode()

    @property
    def headers(self) -> dict[str, str]:
        headers = {"content-type": MEDIA_TYPE}
        if self.problem.retry_after is not None:
            headers["retry-after"] = str(self.problem.retry_after)
        if self.kind == "unauthorized":
            headers["www-authenticate"] = "Bearer"
        return headers


def describe_invalid(problems: Iterable[Mapping[str, Any]]) -> str:
    lines = []
    for problem in islice(problems, 5):
        is_none = problem["type"] == "model_attributes_type"
        told = _NO_OBJECT if is_none else problem["msg"].removeprefix("Value error, ")
        lines.append(f"{'.'.join(map(str, problem['loc'])) or 'message'}: {told}")
    return f"{'; '.join(lines)}. See /openapi.json for what is expected."
