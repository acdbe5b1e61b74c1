"""The description at /openapi.json: text, problems, and links."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from rlver_gym.serve.problems import MEDIA_TYPE, Problem

DESCRIPTION = """
Talk with a simulated person whose emotion moves with every reply; the change is the reward.

1. `POST /v1/episodes` begins an episode and gives its id and the person's first words.
2. `POST /v1/episodes/{id}/steps` says something, and gives their answer and the reward, until
   `terminated` or `truncated` is true.
3. Or: `POST /v1/episodes/{id}/replies` says what several replies would earn, none of which is
   said, and `POST /v1/episodes/{id}/choices` says one of them.

**Request ids.** Send each request with a new id. When an answer was lost, send the same request
with the same id again: it gets the same answer, and nothing is done twice.

**Problems** are `application/problem+json` (RFC 9457); `detail` names the remedy. After 503 wait
as long as `Retry-After` says, and send the same request again.
"""
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A problem.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}


def document_links() -> dict[str, Any]:
    """What can be done next with the episode of an answer, as OpenAPI links."""
    episode_id = {"episode_id": "$response.body#/episode_id"}
    turn = {"turn": "$response.body#/next_turn"}
    return {
        "step": {"operationId": "step_episode", "parameters": episode_id, "requestBody": turn},
        "appraise": {
            "operationId": "appraise_replies",
            "parameters": episode_id,
            "requestBody": turn,
        },
        "show": {"operationId": "show_episode", "parameters": episode_id},
        "delete": {"operationId": "delete_episode", "parameters": episode_id},
    }


def document_choice() -> dict[str, Any]:
    """How to say the first of the replies that an answer is about, as an OpenAPI link."""
    choice = {"turn": "$response.body#/turn", "appraised": "$request.body#/request_id", "index": 0}
    episode_id = {"episode_id": "$request.path.episode_id"}
    return {
        "choose": {"operationId": "choose_reply", "parameters": episode_id, "requestBody": choice}
    }


def describe_app(app: FastAPI) -> dict[str, Any]:
    if not app.openapi_schema:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        schema["components"]["schemas"]["Problem"] = Problem.model_json_schema()
        app.openapi_schema = schema
    return app.openapi_schema
