"""The HTTP interface: one route for each verb, and how problems are answered."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from rlver_gym.core.persona import SPLIT_CHOICES, SplitChoice
from rlver_gym.serve.episodes import EpisodeTable
from rlver_gym.serve.guard import Guard
from rlver_gym.serve.messages import (
    ChoiceRequest,
    EnvAnswer,
    EnvList,
    EpisodeAnswer,
    EpisodeRequest,
    EpisodeState,
    Health,
    RepliesAnswer,
    RepliesRequest,
    StepAnswer,
    StepRequest,
)
from rlver_gym.serve.metrics import Metrics
from rlver_gym.serve.openapi import (
    DESCRIPTION,
    PROBLEMS,
    describe_app,
    document_choice,
    document_links,
)
from rlver_gym.serve.operation import ServeSettings
from rlver_gym.serve.problems import Refusal, describe_invalid
from rlver_gym.users import SentientUser, make_user
from rlver_gym.util import __version__
from rlver_gym.util.errors import UnknownName

EpisodeId = Annotated[str, Path(description="As `POST /v1/episodes` gave it.", max_length=100)]
_EnvId = Annotated[str, Path(max_length=100, examples=["RLVER-Empathy-v0"])]


def make_app(
    settings: ServeSettings | None = None,
    *,
    token: str | None = None,
    users: Mapping[str, SentientUser] | None = None,
) -> FastAPI:
    """The ASGI application. `token`: None lets all in. `users`: by name, the default first."""
    settings, metrics = settings or ServeSettings(), Metrics()
    table = EpisodeTable(settings, users or {"embedded": make_user("embedded")}, metrics)

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
        responses=PROBLEMS,
        docs_url=None,  # FastAPI's pages load scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    bearer = HTTPBearer(auto_error=False, description="The token of the server.")
    locked = [Depends(bearer)] if token else []
    app.include_router(_episode_routes(table), prefix="/v1/episodes", dependencies=locked)
    app.include_router(_env_routes(table), prefix="/v1/envs", dependencies=locked)
    app.include_router(_operator_routes(metrics, locked))
    _answer_problems(app)
    app.openapi = lambda: describe_app(app)  # pyright: ignore[reportAttributeAccessIssue]

    app.add_middleware(Guard, settings=settings, token=token, metrics=metrics)
    return app


def _episode_routes(table: EpisodeTable) -> APIRouter:
    router = APIRouter(tags=["episodes"])

    @router.post(
        "",
        status_code=201,
        summary="Begin an episode",
        responses={201: {"links": document_links()}},
    )
    async def begin_episode(request: EpisodeRequest, http: Request) -> EpisodeAnswer:
        """Equal environments, personas or splits, seeds and users begin as `gym.make` does."""
        return await table.begin(request, http.client.host if http.client else "")

    @router.post(
        "/{episode_id}/steps", summary="Say something", responses={200: {"links": document_links()}}
    )
    async def step_episode(episode_id: EpisodeId, request: StepRequest) -> StepAnswer:
        """Takes the turn once, also when the request comes twice or the client goes away."""
        return await table.step(episode_id, request)

    @router.post(
        "/{episode_id}/replies",
        summary="Ask what several replies would do",
        responses={200: {"links": document_choice()}},
    )
    async def appraise_replies(episode_id: EpisodeId, request: RepliesRequest) -> RepliesAnswer:
        """None of them is said: the episode stays where it is."""
        return await table.appraise(episode_id, request)

    @router.post(
        "/{episode_id}/choices",
        summary="Say one of the replies that were appraised",
        responses={200: {"links": document_links()}},
    )
    async def choose_reply(episode_id: EpisodeId, request: ChoiceRequest) -> StepAnswer:
        """Takes the turn, once, with the appraisal that the reply has."""
        return await table.choose(episode_id, request)

    @router.get("/{episode_id}", summary="See where an episode stands")
    async def show_episode(episode_id: EpisodeId) -> EpisodeState:
        """All that was said, the rewards, and which turn is next."""
        return table.state(episode_id)

    @router.delete(
        "/{episode_id}", status_code=204, response_class=Response, summary="Drop an episode"
    )
    async def delete_episode(episode_id: EpisodeId) -> None:
        """Makes room for another one."""
        table.delete(episode_id)

    return router


def _env_routes(table: EpisodeTable) -> APIRouter:
    router = APIRouter(tags=["environments"])

    @router.get("", summary="List the environments")
    async def list_envs() -> EnvList:
        """Every number of their protocols."""
        return EnvList(envs=list(table.cards.values()))

    @router.get("/{env_id}", summary="See one environment")
    async def show_env(env_id: _EnvId) -> EnvAnswer:
        """Its card, who can play the person, and the people of each split."""
        try:
            card = table.find_card(env_id)
        except UnknownName as error:
            raise Refusal("unknown-name", str(error)) from None
        people: dict[SplitChoice, list[str]] = {
            split: list(table.shelf.ids(split)) for split in SPLIT_CHOICES
        }
        return EnvAnswer(card=card, users=list(table.users), personas=people)

    return router


def _operator_routes(metrics: Metrics, locked: list[Any]) -> APIRouter:
    router = APIRouter(tags=["operation"])

    @router.get("/healthz", summary="See whether the server answers")
    async def show_health() -> Health:
        """Needs no token."""
        return Health(version=__version__)

    @router.get(
        "/metrics",
        dependencies=locked,
        summary="Read counts and durations",
        response_class=Response,
        responses={200: {"description": "For Prometheus.", "content": {"text/plain": {}}}},
    )
    async def show_metrics() -> Response:
        """Open episodes, turns, answers by status, and a histogram of the time that turns take."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

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
        if any(problem["type"] == "json_invalid" for problem in problems):
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


async def _expire_idle(table: EpisodeTable) -> None:
    while True:
        await asyncio.sleep(min(5.0, table.settings.idle_s / 4))
        table.expire()
