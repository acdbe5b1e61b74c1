"""Servers on loopback that speak as vLLM's /v1/completions does."""

import json
from http.server import BaseHTTPRequestHandler
from typing import Any


class JsonHandler(BaseHTTPRequestHandler):
    def answered(self, asked: dict[str, Any]) -> tuple[int, Any]:
        raise NotImplementedError

    def do_POST(self) -> None:
        status, answer = self.answered(
            json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        )
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def completion(
    ids: list[int], logprobs: list[float], ended: str, other: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A completion of these token ids; `other`: fields of it that are to be different."""
    named = {"tokens": [f"token_id:{one}" for one in ids], "token_logprobs": logprobs}
    choice = {"index": 0, "text": "", "finish_reason": ended, "logprobs": named} | (other or {})
    return {"id": "x", "object": "text_completion", "created": 0, "model": "m", "choices": [choice]}
