"""How far a refusal reaches, in the forms in which servers put it, and what is done about it."""

import asyncio
import json
from contextlib import closing
from typing import Any

import pytest
from asking import ask, listening, settle
from failures import show_failure

from rlver_gym.llm_client.client import ChatClient
from rlver_gym.llm_client.connect import CachingClient
from rlver_gym.llm_client.refusals import Failure, Kind, Scope, classify_http_error
from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.llm_client.values import ChatAnswer, ChatMessage, ChatRequest
from rlver_gym.llm_client.wire import parse_answer
from rlver_gym.util.errors import ChatError, ServerRefused

SCHEMA = {"type": "object", "properties": {"change": {"type": "integer"}}}


def error(message, **more):
    return {"error": {"message": message, **more}}


def mistral(message, code=None):
    return {"object": "error", "message": message, "type": "invalid_request_error", "code": code}


def gemini(message, code=400, status="INVALID_ARGUMENT"):
    return [{"error": {"code": code, "message": message, "status": status}}]


def openrouter(message, code, raw):
    return error(message, code=code, metadata={"raw": raw, "provider_name": "P"})


def of_object(message):
    return {"object": "error", "message": message}


BODY_SEED = {"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}
ACCOUNT = [
    ("openai", 401, error("Incorrect API key provided.", code="invalid_api_key")),
    ("openai", 429, error("You exceeded your current quota.", code="insufficient_quota")),
    ("openai", 403, error("Country not supported", code="unsupported_country_region_territory")),
    ("azure", 401, error("Access denied due to invalid subscription key.", code="401")),
    ("deepseek", 402, error("Insufficient Balance", type="unknown_error")),
    ("deepseek", 401, error("Authentication Fails (no such user)", type="authentication_error")),
    ("moonshot", 401, error("Invalid Authentication", type="invalid_authentication_error")),
    ("moonshot", 403, error("Your account is not active", type="exceeded_current_quota_error")),
    ("moonshot", 429, error("check your plan", type="exceeded_current_quota_error")),
    ("gemini", 400, gemini("API key not valid. Please pass a valid API key.")),
    ("gemini", 400, gemini("User location is not supported.", status="FAILED_PRECONDITION")),
    ("dashscope", 400, error("Access denied, make sure it is in good standing", code="Arrearage")),
    ("dashscope", 403, error("exhausted", code="AllocationQuota.FreeTierOnly")),
    ("openrouter", 402, error("Insufficient credits", code=402)),
    ("openrouter", 403, error("Key limit exceeded (total limit)", code=403)),
    ("litellm", 400, error("Budget has been exceeded! Current cost: 2", type="budget_exceeded")),
    ("litellm", 429, error("LiteLLM User: a, exceeded budget for model=b")),
    ("anthropic", 400, error("Your credit balance is too low to access the API.")),
    ("anybody", 402, ""),
    ("one-api", 500, error("insufficient balance")),
    ("new-api", 503, error("该令牌额度已用尽 余额不足", code="insufficient_user_quota")),
    ("zhipu", 429, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}),
]
TOO_LONG = [
    ("openai", 400, error("Please shorten.", code="context_length_exceeded")),
    ("openai", 429, error("Request too large for gpt on tokens per min: Limit 9, Requested 12")),
    ("azure", 400, error("This model's maximum context length is 8192 tokens.")),
    ("vllm", 400, of_object("maximum context length is 9 tokens") | {"code": 400}),
    ("vllm", 400, error("The decoder prompt (length 9) is longer than the maximum model length")),
    ("vllm", 400, error("'max_tokens' is too large: 9. Its maximum context length is 8 tokens")),
    ("llama.cpp", 400, error("request exceeds it", type="exceed_context_size_error", code=400)),
    ("llama-cpp-python", 500, error("Requested tokens (5000) exceed context window of 2048")),
    ("ollama", 400, error("the input length exceeds the context length", type="api_error")),
    ("mistral", 400, mistral("Prompt contains 9 tokens, too large for model", 3051)),
    ("gemini", 400, gemini("The input token count (9) exceeds the maximum number of tokens")),
    ("dashscope", 400, error("<400> InternalError.Algo: Range of input length should be [1, 6]")),
    ("moonshot", 400, error("Invalid request: Your request exceeded model token limit: 8192")),
    ("moonshot", 400, error("model max length exceeded, max length:8192")),
    ("deepseek", 400, error("This model's maximum context length is 65536 tokens. However")),
    ("openrouter", 400, openrouter("no", 400, '{"error": "prompt is too long"}')),
    ("litellm", 400, error("litellm.ContextWindowExceededError: OpenAIException - no")),
    ("groq", 413, error("Request too large for model `x`", code="rate_limit_exceeded")),
    ("tgi", 422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 9"}),
    ("sglang", 400, error("The input (9 tokens) is longer than the model's context length")),
    ("a proxy", 413, "<html>"),
]
FILTERED = [
    ("openai", 400, error("Invalid prompt: your prompt was flagged", code="invalid_prompt")),
    ("azure", 400, error("The response was filtered", code="content_filter")),
    ("azure", 400, error("x", innererror={"code": "ResponsibleAIPolicyViolation"})),
    ("deepseek", 400, error("Content Exists Risk", type="invalid_request_error")),
    ("dashscope", 400, error("Input data may contain inappropriate content.", code="x")),
    ("dashscope", 400, error("<400> InternalError.Algo.DataInspectionFailed: no")),
    ("moonshot", 400, error("The request was rejected as high risk", type="content_filter")),
    ("mimo", 400, error("Moderation Block", code="421", param="considered high risk")),
    ("openrouter", 403, error("m requires moderation on P. Your input was flagged", code=403)),
    ("litellm", 400, error("litellm.ContentPolicyViolationError: AzureException")),
    ("litellm", 400, {"detail": {"error": "Violated guardrail policy"}}),
    ("gemini", 400, gemini("The prompt was blocked due to PROHIBITED_CONTENT")),
    ("zhipu", 400, {"error": {"code": "1301", "message": "输入可能包含不安全或敏感内容"}}),
    ("volcengine", 400, error("no", code="InputTextSensitiveContentDetected")),
    ("anybody", 451, {}),
]
FIELDS = [
    ("openai", 400, error("no", code="unsupported_parameter", param="max_tokens")),
    ("openai", 400, error("Unsupported value: 'temperature' does not support 0.5 with this model")),
    ("azure", 400, error("Unrecognized request argument supplied: seed")),
    ("mistral", 422, mistral({"detail": [{"type": "extra_forbidden", **BODY_SEED}]})),
    ("mistral", 422, mistral(json.dumps({"detail": [BODY_SEED]}))),
    ("fastapi", 422, {"detail": [BODY_SEED | {"input": 3}]}),
    ("anybody", 422, {"detail": "Extra inputs are not permitted: seed"}),
    ("gemini", 400, gemini('Invalid JSON payload. Unknown name "seed": Cannot find field.')),
    ("moonshot", 400, error("invalid temperature: only 1 is allowed for this model")),
    ("litellm", 400, error("litellm.UnsupportedParamsError: no support for ['max_tokens']")),
    ("litellm", 500, error("litellm.UnsupportedParamsError: does not support: ['seed']")),
    ("groq", 400, error("property 'seed' is unsupported")),
    ("groq", 400, error("`max_tokens` must be less than or equal to 8, the context_window is 9")),
    ("deepseek", 400, error("Invalid max_tokens value, the valid range is [1, 8192]")),
    ("dashscope", 400, error("<400> InternalError.Algo: Range of max_tokens should be [1, 2000]")),
    ("deepseek", 400, error("response_format: This response_format type is unavailable now")),
    ("vllm", 400, error("Invalid grammar: unexpected token")),
    ("anybody", 500, error("response_format.type: Input should be 'text' or 'json_object'")),
    ("xai", 400, {"code": "invalid argument", "error": "Argument not supported: maxTokens"}),
]
SYSTEM_ROLE = [
    ("vllm", 400, error("System role not supported")),
    ("vllm", 400, error("Conversation roles must alternate user/assistant/user/assistant/...")),
    ("llama.cpp", 500, error("Only user and assistant roles are supported! at row 1, column 2")),
    ("mistral", 400, mistral("Only user, assistant and tool roles are supported, got system")),
    ("openai", 400, error("'messages[0].role' does not support 'system' with this model")),
    ("gemini", 400, gemini("Developer instruction is not enabled for models/gemma-3-27b-it")),
    ("litellm", 400, error("litellm.BadRequestError: system messages are not supported")),
]
OF_MODEL = [
    ("openai", 404, error("The model `x` does not exist", code="model_not_found")),
    ("ollama", 404, error('model "x" not found, try pulling it first', type="api_error")),
    ("vllm", 404, {"object": "error", "message": "The model `x` does not exist.", "code": 404}),
    ("moonshot", 404, error("Not found the model x or Permission denied")),
    ("dashscope", 403, error("Model access denied.", code="Model.AccessDenied")),
    ("mistral", 400, mistral("Invalid model: x", "1500")),
    ("openrouter", 400, error("x is not a valid model ID", code=400)),
]
WAITS = [
    ("openai", 429, error("Rate limit reached for requests", code="rate_limit_exceeded")),
    ("gemini", 429, gemini("You exceeded your current quota", 429, "RESOURCE_EXHAUSTED")),
    ("dashscope", 429, error("Allocated quota exceeded", code="Throttling.AllocationQuota")),
    ("moonshot", 429, error("request reached max organization concurrency: 1")),
    ("llama.cpp", 503, error("Loading model", type="unavailable_error")),
    ("deepseek", 503, error("Service is too busy")),
    ("anybody", 429, ""),
]
FAILED = [("anybody", status, "<html>") for status in (408, 409, 425, 500, 502, 504)]


def cases(forms):
    names = [f"{name}-{number}" for number, (name, *_) in enumerate(forms)]
    return pytest.mark.parametrize(("status", "body"), [form[1:] for form in forms], ids=names)


def classify(status, body, *texts):
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return classify_http_error(status, content, {}, texts)


def tables(*verdicts):
    """The forms of several tables, each with what they come to."""
    rows = [(*form, *verdict) for forms, *verdict in verdicts for form in forms]
    names = [f"{name}-{status}-{number}" for number, (name, status, *_) in enumerate(rows)]
    return pytest.mark.parametrize(
        ("status", "body", "kind", "scope"), [row[1:] for row in rows], ids=names
    )


@tables(
    (ACCOUNT, Kind.REFUSED, Scope.ACCOUNT),
    (TOO_LONG, Kind.UNUSABLE, Scope.DIALOGUE),
    (FILTERED, Kind.UNUSABLE, Scope.DIALOGUE),
    (OF_MODEL, Kind.REFUSED, Scope.MODEL),
    (WAITS, Kind.BUSY, None),
    (FAILED, Kind.BROKEN, None),
)
def test_a_refusal_is_of_the_account_the_dialogue_the_model_or_of_the_moment(
    status, body, kind, scope
):
    found = classify(status, body)
    assert (found.kind, found.scope) == (kind, scope)
    if scope is Scope.ACCOUNT:
        assert not found.blames
        assert "credit" in found.remedy or "OPENAI_API_KEY" in found.remedy


def test_what_an_error_repeats_of_the_dialogue_decides_nothing():
    said = "They said my account was suspended and I have insufficient balance, it is high risk."
    body = error(f"Invalid content: {said}")
    assert classify(400, body).scope is Scope.ACCOUNT
    assert classify(400, body, said).scope is Scope.MODEL
    found = classify(422, {"detail": [{"msg": "field required", "input": said}]})
    assert (found.scope, show_failure(found)) == (Scope.MODEL, "HTTP 422: field required")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (gemini("a plain word"), "a plain word"),
        (mistral({"detail": [{"loc": ["body"], "msg": "a plain word"}]}), "a plain word"),
        (mistral('{"detail": [{"msg": "a plain word"}]}'), "a plain word"),
        ({"message": {"detail": "a plain word"}}, "a plain word"),
        ({"errors": [{"message": "a plain word"}]}, "a plain word"),
        ({"error": {"error": {"message": "a plain word"}}}, "a plain word"),
        ({"detail": {"error": {"message": "a plain word"}}}, "a plain word"),
        ({"base_resp": {"status_code": 1, "status_msg": "a plain word"}}, "a plain word"),
        (openrouter("Provider error", 400, '{"message": "a plain word"}'), "error: a plain word"),
        ("a plain word", "a plain word"),
        ({"error": "a plain word"}, "a plain word"),
    ],
)
def test_an_error_is_quoted_wherever_it_stands(body, says):
    assert says in show_failure(classify(400, body))


def base(code, message):
    return {"choices": None, "base_resp": {"status_code": code, "status_msg": message}}


PAY = error("Insufficient credits", code=402)
LATER = {"errors": [{"message": "upstream is gone"}], "status": 503}
BODY_MODEL = [{"loc": ["body", "model"], "msg": "no such thing"}]
TOKEN = {"error_code": 110, "error_msg": "Access token invalid or no longer valid"}
OF_ACCOUNT, OF_NAME = (Kind.REFUSED, Scope.ACCOUNT), (Kind.REFUSED, Scope.MODEL)
OF_DIALOGUE, BUSY, ODD = (Kind.UNUSABLE, Scope.DIALOGUE), (Kind.BUSY, None), (Kind.MALFORMED, None)
IN_200 = [
    (base(1008, "insufficient balance"), OF_ACCOUNT, "insufficient balance"),
    (base(1004, "login fail: no key"), OF_ACCOUNT, "login fail"),
    (base(1002, "rate limit exceeded(RPM)"), BUSY, "rate limit"),
    ({"code": 401, "message": "no such user"}, OF_ACCOUNT, "no such user"),
    ({"code": "401", "message": "no such user"}, OF_ACCOUNT, "no such user"),
    ({"code": "invalid_api_key", "message": "no"}, OF_ACCOUNT, "no"),
    ({"success": False, "msg": "token expired", "code": 403}, OF_NAME, "token expired"),
    ({"detail": "Insufficient credits"}, OF_ACCOUNT, "Insufficient credits"),
    ({"detail": BODY_MODEL}, ODD, "no such thing"),
    ({"error": "budget exceeded"}, OF_ACCOUNT, "budget exceeded"),
    ({"error": "something odd"}, ODD, "something odd"),
    ({"error": True, "reason": "something odd"}, ODD, "something odd"),
    (of_object("The model `x` does not exist."), OF_NAME, "does not exist"),
    (of_object("maximum context length is 9 tokens"), OF_DIALOGUE, "maximum context"),
    ({"Code": "Arrearage", "Message": "pay first"}, OF_ACCOUNT, "pay first"),
    (TOKEN, OF_ACCOUNT, "Access token invalid"),
    (LATER, BUSY, "upstream is gone"),
    (error("upstream is gone", code="502"), (Kind.BROKEN, None), "upstream is gone"),
    (error("Unsupported value: 'temperature'"), OF_NAME, "temperature"),
    ({"choices": [{"message": {"content": None}, **PAY}]}, OF_ACCOUNT, "Insufficient credits"),
    ({"choices": [], **error("quota: insufficient_quota")}, OF_ACCOUNT, "quota"),
]


@pytest.mark.parametrize("form", ["whole", "stream"])
@pytest.mark.parametrize(("body", "verdict", "says"), IN_200)
def test_an_error_is_told_and_decides_wherever_it_stands_in_a_body_of_200(
    body, verdict, says, form
):
    content = json.dumps(body).encode()
    if form == "stream":
        content = b"data: " + content + b"\n\n"
    kind = "text/event-stream" if form == "stream" else "application/json"
    result = parse_answer(content, kind).result
    assert isinstance(result, Failure)
    assert (result.kind, result.scope) == verdict
    assert says in show_failure(result)


@pytest.mark.parametrize(
    "beside",
    [
        {"error": None},
        {"error": ""},
        {"error": {}},
        {"base_resp": {"status_code": 0, "status_msg": "success"}},
        {"code": 200, "msg": "ok"},
        {"code": 0, "message": ""},
        {"status": "completed", "type": "completion"},
    ],
)
def test_what_complains_of_nothing_beside_an_answer_is_no_error(beside):
    def read(message):
        return parse_answer(json.dumps({"choices": [{"message": message}], **beside}).encode(), "")

    assert read({"content": "I hear you."}).result.text == "I hear you."
    assert "without text" in read({"content": ""}).result.reason


def test_what_a_body_of_200_repeats_of_the_dialogue_stops_nothing():
    said = "They told me at the bank that I have an insufficient balance, every single day."
    body = json.dumps({"error": f"cannot answer: {said}"}).encode()
    refused, asked_again = (parse_answer(body, "", texts).result for texts in ((), (said,)))
    assert isinstance(refused, Failure)
    assert isinstance(asked_again, Failure)
    assert (refused.kind, asked_again.kind) == (Kind.REFUSED, Kind.MALFORMED)


# From here on: the client.


class Server:
    def __init__(self, decide):
        self.decide, self.bodies = decide, list[dict[str, Any]]()

    async def __call__(self, request, connection):
        self.bodies.append(json.loads(request.body))
        refused = self.decide(self.bodies[-1])
        if refused is None:
            await asyncio.sleep(0.05)  # refusals come first
            message = {"role": "assistant", "content": "fine"}
            connection.send(200, {"choices": [{"message": message, "finish_reason": "stop"}]})
        else:
            connection.send(*refused)


def request(words, **more):
    messages = (ChatMessage("system", "be kind"), ChatMessage("user", words))
    return ChatRequest("m", messages, **{"seed": 1, "max_tokens": 9, "schema": SCHEMA, **more})


def last_words(body):
    return body["messages"][-1]["content"]


UNKNOWN = [
    (400, error("Something about these words.")),
    (403, error("Not these words.")),
    (403, b"<html>Sorry, you have been blocked</html>"),
    (404, error("No endpoints found")),
    (422, error("Unprocessable")),
]


@pytest.mark.parametrize("refusal", UNKNOWN)
@pytest.mark.parametrize("in_turn", [False, True])
def test_once_a_model_has_answered_an_unknown_refusal_is_of_that_request(refusal, in_turn):
    server = Server(lambda body: refusal if last_words(body) == "1" else None)
    with listening(server) as url:
        results = ask(url, *map(request, "0123" if in_turn else "1023"), in_turn=in_turn)
    (failed,) = (result for result in results if not isinstance(result, ChatAnswer))
    assert type(failed) is ChatError
    says = f"refuses this request of model 'm', which has answered others: HTTP {refusal[0]}"
    assert says in str(failed)
    assert "Check" not in str(failed)
    assert all("response_format" in body for body in server.bodies if last_words(body) != "1")


@pytest.mark.parametrize("refusal", UNKNOWN)
def test_a_model_that_never_answered_is_refused_for_everybody(refusal):
    with listening(Server(lambda body: refusal)) as url:
        results = ask(url, *map(request, "0123"))
    assert {type(result) for result in results} == {ServerRefused}


@pytest.mark.parametrize(
    ("is_refused", "refusal", "later"),
    [
        (lambda body: body["temperature"] == 2, (400, error("no")), {"temperature": 2.0}),
        (lambda body: last_words(body) == "1", (401, error("Invalid key")), {}),
    ],
    ids=["other settings", "a key that is refused later"],
)
def test_other_answers_speak_for_no_other_settings_and_no_account(is_refused, refusal, later):
    server = Server(lambda body: refusal if is_refused(body) else None)
    with listening(server) as url:
        first, second = ask(url, request("0"), request("1", **later), in_turn=True)
    assert isinstance(first, ChatAnswer)
    assert type(second) is ServerRefused


def test_a_run_that_goes_on_knows_from_its_cache_that_the_model_has_answered(tmp_path):
    server = Server(lambda body: (400, error("not these")) if last_words(body) == "1" else None)

    async def ask_anew(words):
        chat = ChatClient(ChatSettings(base_url=url))
        with closing(ResponseCache(tmp_path / "response_cache.sqlite")) as cache:
            result = await settle(CachingClient(chat, cache), request(words))
        await chat.close()
        return result

    with listening(server) as url:
        alone, _, again = (asyncio.run(ask_anew(words)) for words in "101")
    assert type(alone) is ServerRefused
    assert type(again) is ChatError


@cases(FIELDS)
def test_a_field_that_is_named_is_left_out_and_that_is_remembered(status, body):
    (field,) = classify(status, body).blames
    server = Server(lambda sent: (status, body) if field in sent else None)
    with listening(server) as url:
        found = ask(url, request("0"), request("1"), in_turn=True)
    assert all(isinstance(one, ChatAnswer) for one in found)
    assert [field in sent for sent in server.bodies] == [True, False, False]


@cases(SYSTEM_ROLE)
def test_a_system_role_that_is_not_taken_is_folded_into_the_first_message(status, body):
    def decide(sent):
        roles = [message["role"] for message in sent["messages"]]
        is_alternating = roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        return None if is_alternating else (status, body)

    server = Server(decide)
    talk = (
        ChatMessage("system", "be kind"),
        ChatMessage("user", "hello"),
        ChatMessage("assistant", "hi"),
        ChatMessage("user", "I am sad"),
        ChatMessage("user", "that was no JSON"),
    )
    with listening(server) as url:
        found = ask(url, ChatRequest("m", talk), ChatRequest("m", talk), in_turn=True)
        option = ask(url, ChatRequest("m", talk), omit=["system"])
    assert all(isinstance(one, ChatAnswer) for one in found + option)
    assert len(server.bodies) == 4
    assert server.bodies[-1]["messages"] == [
        {"role": "user", "content": "be kind\n\nhello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "I am sad\n\nthat was no JSON"},
    ]


def test_fields_can_be_omitted_and_options_are_sent_as_they_are():
    server = Server(lambda body: None)
    options = {"temperature": 0, "chat_template_kwargs": {"enable_thinking": False}}
    with listening(server) as url:
        ask(url, request("0"), omit=["seed", "max_tokens", "response_format"])
        ask(url, request("0", options=options))
    first, second = server.bodies
    assert first.keys() == {"model", "messages", "temperature"}
    assert second["temperature"] == 0
    assert second["chat_template_kwargs"] == {"enable_thinking": False}


def test_what_was_asked_for_in_so_many_words_is_never_left_out():
    server = Server(lambda body: (400, error("temperature is unsupported")))
    with listening(server) as url:
        (found,) = ask(url, request("0", options={"temperature": 0}))
    assert type(found) is ServerRefused
    assert all(body["temperature"] == 0 for body in server.bodies)
