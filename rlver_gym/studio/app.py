"""The studio as an ASGI application: which request asks for what."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError, validate_call
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rlver_gym.core.cards import shipped_env_ids
from rlver_gym.serve.asgi import App
from rlver_gym.studio.access_guard import AccessGuard
from rlver_gym.studio.branches import Branches
from rlver_gym.studio.notes import Notes
from rlver_gym.studio.pairs import Pairs
from rlver_gym.studio.people import People
from rlver_gym.studio.ratings import Ratings
from rlver_gym.studio.runs import Runs
from rlver_gym.studio.speakers import Speakers
from rlver_gym.studio.talks import Talks
from rlver_gym.studio.trainings import Trainings, is_training
from rlver_gym.studio.user_role import UserRoleDialogues
from rlver_gym.util import __version__
from rlver_gym.util.errors import RlverError
from rlver_gym.util.event_loop import Worker
from rlver_gym.util.field_errors import field_errors
from rlver_gym.util.json_text import parse_json

T = TypeVar("T")
LOG = logging.getLogger("rlver_gym.studio")
_LIMITS = (
    "https://github.com/rlver-gym/rlver-gym/blob/main/docs/embedded-user.md#what-it-cannot-see"
)
_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}


def make_app(
    folders: Sequence[Path],
    token: str,
    out: Path,
    personas: str | None = None,
    speakers: Speakers | None = None,
) -> App:
    """The application. `folders`: of runs and trainings; `token` opens it; `out`: where
    first-person data goes; `personas`: as `library` takes them; `speakers`: who speaks; None for
    the shipped agents. Raises what reading the runs raises.
    """
    trainings = Trainings([folder for folder in folders if is_training(folder)])
    runs = Runs([folder for folder in folders if folder not in trainings.folders], personas)
    speakers = speakers or Speakers()
    branches, talks = Branches(runs, speakers), Talks(speakers, personas)
    notes, pairs, ratings = Notes(runs), Pairs(runs), Ratings(runs, personas)
    confidences, people = UserRoleDialogues(out, speakers), People(personas)
    about = {
        "agents": speakers.names,
        "named": speakers.named,
        "helpers": speakers.helpers,
        "envs": shipped_env_ids(),
        "trainings": trainings.names,
        "out": str(out),
        "limits": _LIMITS,
        "version": __version__,
    }
    overview = {**runs.overview, **about}
    runs.search("")  # the first search need not wait for the texts
    asked: Mapping[str, Callable[..., Any]] = {
        "GET overview": lambda: overview,
        "GET search": runs.search,
        "GET strategies": lambda: runs.strategies,
        "GET dialogue": runs.dialogue,
        "GET branches": branches.of,
        "POST branch": branches.begin,
        "POST branch-on": branches.go_on,
        "POST talk": talks.begin,
        "POST say": talks.say,
        "POST hint": talks.hint,
        "POST undo": talks.undo,
        "GET record": talks.record,
        "POST confide": confidences.begin,
        "POST confide-rate": confidences.rate,
        "POST confide-say": confidences.say,
        "GET notes": notes.of,
        "POST note": notes.write,
        "GET pair": pairs.next,
        "POST prefer": pairs.prefer,
        "GET tally": pairs.tally,
        "GET rate": ratings.next,
        "POST rate": ratings.rate,
        "GET agreement": ratings.agreement,
        "GET curves": trainings.read,
        "GET people": people.index,
        "GET person": people.show,
        "GET template": people.template,
        "POST check": people.check,
    }
    routes = [_make_route(name, answer) for name, answer in asked.items()]
    return AccessGuard(Starlette(routes=[*routes, *_static_routes()]), token)


def _make_route(request_line: str, answer: Callable[..., Any]) -> Route:
    """The fields of a request are the arguments of a function, which its annotations check."""
    method, name = request_line.split()
    checked = validate_call(answer)

    async def respond(request: Request) -> Response:
        try:
            plain: Any = dict(request.query_params)
            if method == "POST":
                plain = parse_json(await request.body())
            if not isinstance(plain, dict):
                raise ValueError("it is no object")
            return _make_json_response(await _run_on_thread(lambda: checked(**plain)))
        except ValidationError as error:
            return _make_json_response(
                {"problem": "; ".join(field_errors(error, "the request"))}, 422
            )
        except RlverError as error:
            return _make_json_response({"problem": str(error)}, 400)
        except ValueError as error:
            return _make_json_response(
                {"problem": f"this is no request ({error}). Load the page anew."}, 400
            )
        except Exception:
            LOG.exception("%s failed", name)
            problem = "the studio failed. Look at the terminal in which it runs."
            return _make_json_response({"problem": problem}, 500)

    return Route(f"/api/{name}", respond, methods=[method])


async def _run_on_thread(act: Callable[[], T]) -> T:
    """A thread of its own, which keeps nobody waiting: neither others who ask, nor the end."""
    worker = Worker()
    try:
        return await worker(act)
    finally:
        worker.stop()


def _make_json_response(value: Any, status: int = 200) -> Response:
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Response(text, status, media_type="application/json")


def _static_routes() -> list[Route]:
    """Every built file; the page itself at the root."""
    routes = []
    for file in (files("rlver_gym.studio") / "static").iterdir():
        if kind := _TYPES.get(Path(file.name).suffix):
            path = "/" if file.name == "index.html" else f"/{file.name}"
            routes.append(Route(path, _serve_file(file.read_bytes(), kind)))
    return routes


def _serve_file(body: bytes, kind: str) -> Callable[[Request], Any]:
    async def respond(_: Request) -> Response:
        return Response(body, media_type=kind)

    return respond
