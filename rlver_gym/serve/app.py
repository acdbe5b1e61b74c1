"""The HTTP interface: one route for each verb, and how problems are answered."""

# pyright: reportMissingImports=false
# (it is an extra, and the types are checked without it, too)

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path, Request, Response, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from rlver_gym.core.persona import SPLIT_CHOICES, SplitChoice
from rlver_gym.io.errors import UnknownName
from rlver_gym.io.version import __version__
from rlver_gym.serve.episodes import EpisodeTable
from rlver_gym.serve.guard import Guard, RateLimit, client_of
from rlver_gym.serve.messages import (
    EnvAnswer,
    EnvList,
    EpisodeAnswer,
    EpisodeRequest,
    EpisodeState,
    Health,
    StepAnswer,
    StepRequest,
)
from rlver_gym.serve.operation import METRICS_TYPE, Metrics, ServeSettings
from rlver_gym.serve.problems import Problem, Refusal, describe_invalid, document_problems
from rlver_gym.serve.websocket import Conversation
from rlver_gym.users import SentientUser, make_user

DESCRIPTION = """
Talk with a simulated person whose emotion moves with every reply; the change is the reward.

1. `POST /v1/episodes` begins an episode and gives its id and the person's first words.
2. `POST /v1/episodes/{id}/steps` says something, and gives their answer and the reward, until
   `terminated` or `truncated` is true.

**Request ids.** Send each request with a new id. When an answer was lost, send the same request
with the same id again: it gets the same answer, and nothing is done twice.

**Problems** are `application/problem+json` (RFC 9457); `detail` names the remedy. After 429 and 503
wait as long as `Retry-After` says, and send the same request again.

**WebSocket** `/v1/ws`: one episode for each connection. Send
`{"type": "begin", "request_id": …}` with the fields of `POST /v1/episodes`, then
`{"type": "step", "request_id": …, "turn": 1, "utterance": …}`. Answers have the type `episode`,
`step` or `problem`, and the request id. The same `begin` on a new connection goes on with the
episode.
"""
_ALWAYS = ("unauthorized", "foreign-page", "not-found", "rate-limited", "server-error")
_WITH_BODY = ("not-json", "slow-request", "too-large", "invalid")
_BEGINNING = (
    *("unknown-name", "user-not-offered", "request-id-used"),
    *("user-unavailable", "too-many-episodes", "busy"),
)
_STEPPING = (
    *("unknown-episode", "wrong-turn", "episode-over", "request-id-used"),
    *("user-unavailable", "busy"),
)
EpisodeId = Annotated[str, Path(description="As `POST /v1/episodes` gave it.", max_length=100)]


def make_app(
    settings: ServeSettings | None = None,
    *,
    token: str | None = None,
    users: Mapping[str, SentientUser] | None = None,
) -> FastAPI:
    """The server as an ASGI application.

    `token`: None lets everybody in. `users`: who is offered, by name, the default first; None for
    the embedded user. Raises CardError when a card cannot be used.
    """
    settings, metrics = settings or ServeSettings(), Metrics()
    table = EpisodeTable(settings, users or {"embedded": make_user("embedded")}, metrics)
    rate = RateLimit(settings.max_requests_per_s)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeper = asyncio.create_task(_expire_idle(table))
        yield
        sweeper.cancel()
        table.close()

    app = FastAPI(
        title="rlver-gym",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    bearer = HTTPBearer(auto_error=False, description="The token of the server.")
    locked = [Depends(bearer)] if token else []
    app.include_router(_episode_routes(table), prefix="/v1/episodes", dependencies=locked)
    app.include_router(_env_routes(table), prefix="/v1/envs", dependencies=locked)
    app.include_router(_operator_routes(table, metrics, locked))
    _answer_problems(app)
    app.openapi = lambda: _openapi(app)  # pyright: ignore[reportAttributeAccessIssue]

    @app.websocket("/v1/ws")
    async def talk(socket: WebSocket) -> None:
        client = client_of(socket.scope)
        await Conversation(table, socket, lambda: rate.check(client), metrics).run()

    app.add_middleware(Guard, settings=settings, token=token, rate=rate, metrics=metrics)
    return app


def _episode_routes(table: EpisodeTable) -> APIRouter:
    router = APIRouter(tags=["episodes"])

    @router.post(
        "",
        status_code=201,
        summary="Begin an episode",
        responses=document_problems(*_ALWAYS, *_WITH_BODY, *_BEGINNING),
    )
    async def begin(request: EpisodeRequest) -> EpisodeAnswer:
        """The same environment, persona (or split), seed and user begin the same episode as
        `gym.make` and `reset` do.
        """
        return await table.begin(request)

    @router.post(
        "/{episode_id}/steps",
        summary="Say something",
        responses=document_problems(*_ALWAYS, *_WITH_BODY, *_STEPPING),
    )
    async def step(episode_id: EpisodeId, request: StepRequest) -> StepAnswer:
        """Takes the turn once, also when the request comes twice or the client goes away."""
        return await table.step(episode_id, request)

    @router.get(
        "/{episode_id}",
        summary="See where an episode stands",
        responses=document_problems(*_ALWAYS, "unknown-episode", "invalid"),
    )
    async def show(episode_id: EpisodeId) -> EpisodeState:
        """All that was said, the rewards, and which turn is next."""
        return table.state(episode_id)

    @router.delete(
        "/{episode_id}",
        status_code=204,
        response_class=Response,
        summary="Drop an episode",
        responses=document_problems(*_ALWAYS, "unknown-episode", "invalid"),
    )
    async def delete(episode_id: EpisodeId) -> None:
        """Makes room for another one."""
        table.delete(episode_id)

    return router


def _env_routes(table: EpisodeTable) -> APIRouter:
    router = APIRouter(tags=["environments"])

    @router.get("", summary="List the environments", responses=document_problems(*_ALWAYS))
    async def list_envs() -> EnvList:
        """Every number of their protocols."""
        return EnvList(envs=list(table.cards.values()))

    @router.get(
        "/{env_id}",
        summary="See one environment",
        responses=document_problems(*_ALWAYS, "unknown-name", "invalid"),
    )
    async def show_env(env_id: Annotated[str, Path(max_length=100)]) -> EnvAnswer:
        """Its card, who can play the person, and the people of each split."""
        if env_id not in table.cards:
            error = UnknownName.of("environment", env_id, table.cards, "GET /v1/envs")
            raise Refusal("unknown-name", str(error))
        people: dict[SplitChoice, list[str]] = {
            split: list(table.shelf.ids(split)) for split in SPLIT_CHOICES
        }
        return EnvAnswer(card=table.cards[env_id], users=list(table.users), personas=people)

    return router


def _operator_routes(table: EpisodeTable, metrics: Metrics, locked: list[Any]) -> APIRouter:
    router = APIRouter(tags=["operation"])

    @router.get(
        "/healthz",
        summary="See whether the server answers",
        responses=document_problems("rate-limited", "foreign-page"),
    )
    async def health() -> Health:
        """Needs no token."""
        return Health(version=__version__)

    @router.get(
        "/metrics",
        dependencies=locked,
        summary="Read counts and durations",
        response_class=Response,
        responses={
            200: {"description": "For Prometheus.", "content": {"text/plain": {}}},
            **document_problems(*_ALWAYS),
        },
    )
    async def show_metrics() -> Response:
        """Open episodes, turns, answers by status, and a histogram of the time that turns take."""
        page = metrics.render(table.num_open, table.num_under_way)
        return Response(page, media_type=METRICS_TYPE)

    return router


def _answer_problems(app: FastAPI) -> None:
    """Every error becomes a problem, but for those that nobody foresaw: see `Guard`."""

    def respond(refusal: Refusal, headers: Mapping[str, str] | None = None) -> Response:
        headers = {**(headers or {}), **refusal.headers}
        return Response(refusal.content, refusal.problem.status, headers)

    @app.exception_handler(Refusal)
    async def refuse(_: Request, refusal: Refusal) -> Response:
        return respond(refusal)

    @app.exception_handler(RequestValidationError)
    async def refuse_invalid(_: Request, error: RequestValidationError) -> Response:
        problems = list(error.errors())
        if any(one["type"] == "json_invalid" for one in problems):
            return respond(Refusal("not-json"))
        return respond(Refusal("invalid", describe_invalid(problems)))

    @app.exception_handler(HTTPException)
    async def refuse_http(request: Request, error: HTTPException) -> Response:
        kinds = {400: "not-json", 404: "not-found", 405: "method-not-allowed"}
        headers = {"allow": ", ".join(_methods(app, request.url.path))}
        refusal = Refusal(kinds.get(error.status_code, "server-error"))
        return respond(refusal, headers if error.status_code == 405 else None)


def _methods(app: FastAPI, path: str) -> list[str]:
    """The methods that a path knows: its routes alone know one each."""
    return sorted(
        method.upper()
        for template, methods in app.openapi()["paths"].items()
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)
        for method in methods
    )


def _openapi(app: FastAPI) -> dict[str, Any]:
    if not app.openapi_schema:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        problem = Problem.model_json_schema()
        schema["components"]["schemas"]["Problem"] = problem
        app.openapi_schema = schema
    return app.openapi_schema


async def _expire_idle(table: EpisodeTable) -> None:
    while True:
        await asyncio.sleep(min(5.0, table.settings.idle_s / 4))
        table.expire()
