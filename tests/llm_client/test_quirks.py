"""Quirks of real servers, whole or as a stream: words are read, or the server's own words told."""

import json
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from asking import listening

from rlver_gym import Dialogue, Message, Scene, env_card
from rlver_gym.agents.openai_chat import OpenAIChat
from rlver_gym.bench.judge.ask import Judge, JudgeInput
from rlver_gym.core.capabilities import JUDGED
from rlver_gym.library.personas import library
from rlver_gym.llm_client.connect import connect
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.users.llm import LLMOptions, LLMUser
from rlver_gym.util.errors import AgentFailed, ServerRefused, UserFailed

SAID = (Message("user", "I lost my job."), Message("agent", "I hear you."))
SCENE = Scene(library().get(library().ids("demo")[0]), env_card("RLVER-Empathy-v0"), 0)


def fit(schema):
    """A value that a schema allows: of a number 3, or else the first."""
    if "enum" in schema:
        return 3 if 3 in schema["enum"] else schema["enum"][0]
    kinds = {"string": "so it is", "integer": 3, "array": []}
    return kinds.get(schema["type"]) or {
        name: fit(one) for name, one in schema.get("properties", {}).items()
    }


def answer(body):
    form = body.get("response_format")
    return json.dumps(fit(form["json_schema"]["schema"])) if form else "I hear you."


class Quirk(NamedTuple):
    """How a completion is changed: in its values, and then in its text."""

    completion: Callable[[dict[str, Any], dict[str, Any]], Any] = lambda whole, message: whole
    """Of the completion and its message, which may be changed; what is sent in place of it."""
    text: Callable[[str], str] = lambda text: text
    status: int = 200
    content_type: str = ""
    told: str = ""
    """What of the server's words is told; empty where the words of the model are read."""
    stops: bool = False
    """Whether the run is stopped, not this dialogue alone."""


def changed(**fields):
    """Those of the completion; with `message` or `choice` of these."""

    def change(whole, message):
        message |= fields.get("message", {})
        whole["choices"][0] |= fields.get("choice", {})
        return whole | {name: one for name, one in fields.items() if name not in SINGLE}

    return change


SINGLE = ("message", "choice")


def without(*names):
    def change(whole, message):
        for part in (message, whole["choices"][0], whole):
            for name in names:
                part.pop(name, None)
        return whole

    return change


def parts(kind, *before):
    def change(whole, message):
        part = {"type": kind, "text": message["content"]}
        message["content"] = [*before, part] if before else part
        return whole

    return change


def as_text(whole, message):
    return whole | {"choices": [{"text": message["content"], "index": 0, "finish_reason": "stop"}]}


def thinking_aloud(whole, message):
    message["content"] = f"<think>Who is that?</think>\n\n{message['content']}"
    return whole


def instead(status=200, *, told, stops=False, **body):
    return Quirk(lambda whole, message: body, status=status, told=told, stops=stops)


def put(before):
    """Write raw JSON at the beginning of the completion."""
    return lambda text: text.replace("{", "{" + before + ", ", 1)


TWICE = '"reasoning_content": "hm", "reasoning_content": null, "content"'
BLOCKED = {"message": "Content Exists Risk"}
NOTHING = {"logprobs": None, "finish_reason": None}
OPTIONAL = "id object created model usage index role finish_reason".split()
GOOD = {"status_code": 0, "status_msg": "success"}
BROKE = {"status_code": 1008, "status_msg": "insufficient balance"}
QUIRKS = {
    "a field of thoughts twice": Quirk(text=lambda text: text.replace('"content"', TWICE)),
    "another key twice": Quirk(text=put('"choices": null, "id": "1", "id": "2"')),
    "control characters in a text": Quirk(text=put('"note": "one\ttwo\x01"')),
    "a mark of byte order": Quirk(text=lambda text: "\ufeff" + text),
    "a long integer": Quirk(text=put('"created": ' + "9" * 40)),
    "numbers beyond floats": Quirk(text=put('"x": 1e999, "y": -Infinity, "z": NaN')),
    "half a character elsewhere": Quirk(text=put(r'"note": "\ud800"')),
    "a refusal that is false": Quirk(changed(message={"refusal": False})),
    "an empty refusal": Quirk(changed(message={"refusal": {}, "tool_calls": None})),
    "null wherever it may stand": Quirk(changed(usage=None, error=None, choice=NOTHING)),
    "as few fields as possible": Quirk(without(*OPTIONAL)),
    "a finish_reason that is no text": Quirk(changed(choice={"finish_reason": 1})),
    "usage in words": Quirk(changed(usage={"prompt_tokens": "7", "completion_tokens": -1})),
    "a text in parts": Quirk(parts("text", {"type": "text", "text": ""})),
    "a text in one part": Quirk(parts("output_text")),
    "a part of thoughts": Quirk(parts("text", {"type": "thinking", "thinking": "hm"})),
    "both fields of thoughts": Quirk(
        changed(message={"reasoning": "hm", "reasoning_content": "hm"})
    ),
    "thoughts aloud": Quirk(thinking_aloud),
    "a text beside no message": Quirk(as_text),
    "a status of its own that is good": Quirk(changed(base_resp=GOOD, code=200, msg="ok")),
    "no content type of its own": Quirk(content_type="text/plain"),
    "blank lines first": Quirk(text=lambda text: f"\n\n {text}"),
    "no credit, status 200": instead(base_resp=BROKE, told="insufficient balance", stops=True),
    "no credit, status 500": instead(
        500, error={"message": "insufficient balance"}, told="insufficient balance", stops=True
    ),
    "a wrong key, status 200": instead(
        code="401", message="This user is unknown", told="This user is unknown", stops=True
    ),
    "an error as a text": instead(error="The gateway is confused", told="gateway is confused"),
    "a detail": instead(detail="The gateway is confused", told="gateway is confused"),
    "an object that is an error": instead(
        object="error", message="The gateway is confused", told="gateway is confused"
    ),
    "a filter, status 200": instead(error=BLOCKED, told="Content Exists Risk"),
    "an error within the choice": Quirk(
        changed(message={"content": None}, choice={"error": BLOCKED}), told="Content Exists Risk"
    ),
}


def send(quirk, is_stream, body, connection):
    message = {"role": "assistant", "content": answer(body)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 9}
    whole = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "usage": usage}
    sent = quirk.completion(whole | {"choices": [choice]}, message)
    content_type = quirk.content_type or ("text/event-stream" if is_stream else "application/json")
    if is_stream and "choices" in sent and sent["choices"]:
        for one in sent["choices"]:
            if "message" in one:
                one["delta"] = one.pop("message")
    text = quirk.text(json.dumps(sent))
    if is_stream:
        mark, text = ("\ufeff", text[1:]) if text[0] == "\ufeff" else ("", text.strip())
        text = f"{mark}: hello\r\n\r\nevent: message\r\ndata: {text}\r\n\r\ndata: [DONE]\r\n\r\n"
    connection.send(quirk.status, text.encode(), kind=content_type)


@contextmanager
def serving(quirk, is_stream):
    async def handle(request, connection):
        send(quirk, is_stream, json.loads(request.body), connection)

    with listening(handle) as url:
        yield ChatSettings(base_url=url, attempts=1)


def ask_agent(settings):
    return OpenAIChat("m", chat=settings).reply(SAID[:1])


def ask_user(settings):
    user = LLMUser(connect(settings), "m", LLMOptions())
    return user.appraise(SCENE, 40, Dialogue(SAID[0].text).with_utterance(SAID[1].text)).change


def ask_judge(settings):
    judge = Judge(connect(settings), "m", LLMOptions())
    (judged,) = judge.judge([JudgeInput("1", "a", "p", 50.0, SAID)])
    if judged.failure:
        raise UserFailed(judged.failure)
    return judged.judgements[0].scores[JUDGED[0]]


ASKERS = {ask_agent: "I hear you.", ask_user: 3, ask_judge: 3}


@pytest.mark.parametrize("ask", ASKERS, ids=lambda ask: ask.__name__)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", QUIRKS)
def test_words_are_read_or_the_servers_own_words_are_told(name, is_stream, ask):
    quirk = QUIRKS[name]
    with serving(quirk, is_stream) as settings:
        if not quirk.told:
            assert ask(settings) == ASKERS[ask]
            return
        with pytest.raises(ServerRefused if quirk.stops else (AgentFailed, UserFailed)) as told:
            ask(settings)
    assert quirk.told in str(told.value)
    assert "/v1?" not in str(told.value)
