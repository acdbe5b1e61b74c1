"""The HTTP interface over real sockets: every status, and what happens when clients die."""

import asyncio
import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from http.client import HTTPConnection, HTTPException

import pytest

pytest.importorskip("fastapi", reason="needs rlver-gym[serve]")

from failing import FailsInTurn
from prometheus_client.parser import text_string_to_metric_families as parse

from rlver_gym import EmpathyEnv
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import ServerOutage, UserFailed

TOKEN = "a-token-of-some-length"
PERSONA = library().ids("train")[0]
WORDS = "That sounds hard. What happened then?"


class Slow(EmbeddedUser):
    """Appraises when it is let go on, and counts how often it was asked."""

    def __init__(self):
        super().__init__()
        self.may_go_on = threading.Event()
        self.asked = 0

    async def aopen(self, scene, emotion):
        return self.open(scene, emotion)

    async def aappraise(self, scene, emotion, dialogue):
        self.asked += 1
        while not self.may_go_on.is_set():
            await asyncio.sleep(0.002)
        return self.appraise(scene, emotion, dialogue)

    async def aspeak(self, scene, emotion, dialogue, appraisal):
        return self.speak(scene, emotion, dialogue, appraisal)

    def wait_until_asked(self, times=1):
        for _ in range(2_000):
            if self.asked >= times:
                return
            time.sleep(0.005)
        raise AssertionError("it was never asked")


def assert_problem(answer, status, kind):
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.body["type"] == f"urn:rlver-gym:{kind}"
    assert answer.body["status"] == status
    assert len(answer.body["detail"]) > 10
    if status == 503:
        assert int(answer.headers["retry-after"]) == answer.body["retry_after"] >= 1
    return answer.body


def test_what_an_agent_may_not_know_stays_on_the_server(serve, caller):
    env = EmpathyEnv(persona=PERSONA, info="privileged")
    env.reset(seed=0)
    info = env.step(WORDS)[4]
    known = {name: info[name] for name in env.privileged_info if name in info}
    for privileged in (False, True):
        call = caller(serve(privileged=privileged))
        begun = call.begin(persona=PERSONA, seed=0)
        step = call.step(begun["episode_id"], 1, WORDS).body
        state = call("GET", f"/v1/episodes/{begun['episode_id']}").body
        assert step["privileged"] == state["privileged"] == (known if privileged else None)
        if not privileged:
            page = json.dumps([begun, step, state])
            hidden = [info["hidden_need"], info["thought"]]
            hidden += [f'"{name}"' for name in env.privileged_info]
            assert [text for text in hidden if text in page] == []


def test_environments_and_health(serve, caller):
    call = caller(serve())
    ids = [card["id"] for card in call("GET", "/v1/envs").body["envs"]]
    assert "RLVER-Empathy-v0" in ids
    shown = call("GET", "/v1/envs/SAGE-Sentient-v0").body
    assert shown["card"]["split"] == "test"
    assert shown["personas"]["test"] == list(library().ids("test"))
    assert shown["users"] == ["embedded"]
    assert call("GET", "/healthz").body["status"] == "ok"


def test_answers_on_a_kept_connection_wait_for_no_acknowledgement(plain, caller):
    call = caller(plain)

    def measure_s():
        began = time.perf_counter()
        call("GET", "/healthz")
        return time.perf_counter() - began

    assert min(measure_s() for _ in range(20)) < 0.02, "delayed acknowledgements take 40 ms"


def test_a_repeated_request_gets_the_same_answer_and_no_second_turn(serve, caller):
    call = caller(serve())
    begun = call.begin(request_id="one", persona=PERSONA)
    assert call.begin(request_id="one", persona=PERSONA) == begun
    first = call.step(begun["episode_id"], 1, WORDS, "a")
    again = call.step(begun["episode_id"], 1, WORDS, "a")
    assert (again.status, again.body) == (first.status, first.body)  # its date may be another
    second = call.step(begun["episode_id"], 2, WORDS, "b")
    assert call.step(begun["episode_id"], 1, WORDS, "a").body == first.body
    state = call("GET", f"/v1/episodes/{begun['episode_id']}").body
    said = [begun["opening"], WORDS, first.body["reply"], WORDS, second.body["reply"]]
    assert [line["text"] for line in state["transcript"]] == said
    assert state["rewards"] == [first.body["reward"], second.body["reward"]]
    for answer in (
        call("POST", "/v1/episodes", {"request_id": "one"}),
        call.step(begun["episode_id"], 1, "Other words.", "a"),
    ):
        assert_problem(answer, 409, "request-id-used")
    for turn in (1, 4):
        answer = call.step(begun["episode_id"], turn, WORDS, "c")
        assert assert_problem(answer, 409, "wrong-turn")["next_turn"] == 3


def test_a_repeated_request_waits_for_the_turn_that_is_under_way(serve, caller):
    user = Slow()
    server = serve(users={"slow": user})
    episode = caller(server).begin(persona=PERSONA)["episode_id"]
    with ThreadPoolExecutor(4) as pool:
        calls = [caller(server) for _ in range(4)]
        same = [pool.submit(one.step, episode, 1, WORDS, "a") for one in calls[:3]]
        user.wait_until_asked()
        other = calls[3].step(episode, 1, WORDS, "b")
        assert assert_problem(other, 409, "wrong-turn")["next_turn"] == 2
        early = calls[3].step(episode, 2, WORDS, "c")
        assert "under way" in assert_problem(early, 409, "wrong-turn")["detail"]
        user.may_go_on.set()
        answers = [one.result() for one in same]
    assert answers[0].status == 200
    assert answers[0].body == answers[1].body == answers[2].body
    assert user.asked == 1


def test_half_a_request_does_nothing(serve, caller):
    server = serve()
    call = caller(server)
    episode = call.begin()["episode_id"]
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = f"POST /v1/episodes/{episode}/steps HTTP/1.1\r\nhost: localhost\r\n"
        head += "content-length: 99\r\n\r\n"
        connection.sendall(head.encode() + b'{"request_id": "a", "turn": 1')
    assert call("GET", f"/v1/episodes/{episode}").body["turn"] == 0


def test_a_step_after_the_end_is_409_with_the_outcome(serve, caller):
    call = caller(serve())
    episode = call.begin(persona=PERSONA)["episode_id"]
    turn, over = 0, False
    while not over:
        turn += 1
        over = call.step(episode, turn, "Shut up, you are pathetic.").body["terminated"]
    problem = assert_problem(call.step(episode, turn + 1, WORDS), 409, "episode-over")
    assert problem["outcome"] == "left"
    assert call("GET", f"/v1/episodes/{episode}").body["outcome"] == "left"


def test_an_unknown_or_deleted_episode_is_404(serve, caller):
    call = caller(serve())
    assert_problem(call.step("nothing", 1, WORDS), 404, "unknown-episode")
    episode = call.begin()["episode_id"]
    assert call("DELETE", f"/v1/episodes/{episode}").status == 204
    for method in ("GET", "DELETE"):
        assert_problem(call(method, f"/v1/episodes/{episode}"), 404, "unknown-episode")


@pytest.mark.parametrize(
    ("fields", "status", "kind", "named"),
    [
        ({"env": "RLVER-Empathy-v9"}, 404, "unknown-name", "RLVER-Empathy-v0"),
        ({"persona": "noor"}, 404, "unknown-name", "noor-"),
        ({"persona": "x"}, 404, "unknown-name", "GET /v1/envs/RLVER-Empathy-v0"),
        ({"persona": f"{PERSONA}/x"}, 404, "unknown-name", "hidden need"),
        ({"user": "openai:gpt"}, 403, "user-not-offered", "embedded"),
        ({"split": "everybody"}, 422, "invalid", "split"),
        ({"seed": -1}, 422, "invalid", "seed"),
        ({"seed": 2**70}, 422, "invalid", "seed"),
        ({"seed": "1"}, 422, "invalid", "seed"),
        ({"sead": 1}, 422, "invalid", "sead"),
        ({"request_id": "with blanks"}, 422, "invalid", "request_id"),
    ],
)
def test_what_cannot_be_begun_is_refused_by_name(plain, caller, fields, status, kind, named):
    answer = caller(plain)("POST", "/v1/episodes", fields)
    assert named in assert_problem(answer, status, kind)["detail"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ("{", 400, "JSON"),
        (b"\xff\xfe", 400, "JSON"),
        ("[" * 100_000, 400, "JSON"),
        ("[]", 422, "Content-Type: application/json"),
        ("", 422, ""),
        ('{"seed": NaN}', 422, "seed"),
        ('{"seed": ' + "9" * 5_000 + "}", 400, "JSON"),
        ('{"persona": "\\ud800"}', 422, "unicode"),
    ],
)
def test_a_body_that_is_none_is_refused(plain, caller, body, status, says):
    answer = caller(plain)("POST", "/v1/episodes", body)
    problem = assert_problem(answer, status, "not-json" if status == 400 else "invalid")
    assert says in problem["detail"]


def test_a_body_that_is_not_sent_as_json_says_how_to_send_it(plain, caller):
    form = {"content-type": "application/x-www-form-urlencoded"}
    answer = caller(plain)("POST", "/v1/episodes", "{}", form)
    assert "Content-Type: application/json" in assert_problem(answer, 422, "invalid")["detail"]


@pytest.mark.parametrize("parts", [1, 200], ids=["a little", "far"])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_client_that_sends_too_much_sees_the_413(serve, caller, is_chunked, parts):
    server = serve(max_body_bytes=99_999)
    call = caller(server)
    body = (b"x" * 100_000 for _ in range(parts))
    headers = {} if is_chunked else {"content-length": f"{100_000 * parts}"}
    call.connection.request("POST", "/v1/episodes", body, headers, encode_chunked=is_chunked)
    answer = call.connection.getresponse()
    assert (answer.status, json.load(answer)["type"]) == (413, "urn:rlver-gym:too-large")
    assert caller(server)("GET", "/healthz").status == 200


def test_a_body_that_does_not_come_is_408(serve):
    server = serve(body_timeout_s=0.1)
    head = b"POST /v1/episodes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{"
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(head)
        assert connection.recv(4_096).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("sent", [None, "Bearer wrong", f"Basic {TOKEN}", "Bearer é", "Bearer"])
def test_without_the_token_everything_but_health_and_the_description_is_401(serve, caller, sent):
    server = serve(token=TOKEN)
    call = caller(server)
    headers = {"authorization": sent.encode("latin-1")} if sent else {}
    for place in ("POST /v1/episodes", "GET /v1/envs", "GET /metrics", "GET /nothing"):
        answer = call(*place.split(), headers=headers)
        assert_problem(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
        call.connection.close()
    for path in ("/healthz", "/openapi.json"):
        assert call("GET", path, headers=headers).status == 200
    assert caller(server, TOKEN)("GET", "/v1/envs").status == 200


def test_a_web_page_of_another_host_is_403(serve, caller):
    server = serve()
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{server.port + 1}"):
        answer = caller(server)("GET", "/healthz", headers={"origin": origin})
        assert_problem(answer, 403, "foreign-page")
    own = {"origin": server.url}
    assert caller(server)("GET", "/healthz", headers=own).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example",
     "169.254.1.1", "[2001:db8::1]:{port}", "x", "127.0.0.1@evil.example", "["],
)  # fmt: skip
def test_a_name_that_only_resolves_to_this_machine_is_403(plain, caller, host):
    def count_episodes():
        return re.findall(r"rlver_gym_episodes_total \d+", caller(plain)("GET", "/metrics").body)

    host, before = host.format(port=plain.port), count_episodes()
    for origin in ({}, {"origin": f"http://{host}"}):
        answer = caller(plain)("POST", "/v1/episodes", {}, headers={"host": host, **origin})
        assert_problem(answer, 403, "foreign-host")
    assert count_episodes() == before


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:{port}", "127.0.0.1", "[::1]:{port}"])
def test_names_of_this_machine_are_served(plain, caller, host):
    headers = {"host": host.format(port=plain.port)}
    assert caller(plain)("GET", "/v1/envs", headers=headers).status == 200


def test_with_a_token_a_proxy_may_use_its_own_name(serve, caller):
    server = serve(token=TOKEN)
    headers = {"host": "people.example.org"}
    assert caller(server, TOKEN)("GET", "/v1/envs", headers=headers).status == 200


HALF = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: "


def is_closed(connection, within_s=10):
    connection.settimeout(within_s)
    try:
        while connection.recv(4_096):  # the rest of an answer
            pass
        return True
    except TimeoutError:
        return False
    except OSError:
        return True


def test_heads_that_do_not_come_whole_keep_nobody_out(serve, caller):
    server = serve(max_connections=8, header_timeout_s=60)
    with ExitStack() as stack:
        connections = (socket.create_connection(("127.0.0.1", server.port)) for _ in range(40))
        half = [*map(stack.enter_context, connections)]
        for connection in half:
            with suppress(OSError):
                connection.sendall(HALF)
        assert caller(server)("GET", "/healthz").status == 200
        assert all(is_closed(connection) for connection in half[:32])
        assert not is_closed(half[-1], within_s=0.1)


@pytest.mark.parametrize("sent", [b"", b"G", HALF], ids=["nothing", "a letter", "half a head"])
@pytest.mark.parametrize("before", [b"", HALF + b"y\r\n\r\n"], ids=["at first", "later"])
def test_half_a_head_is_waited_for_so_long_and_no_longer(serve, sent, before):
    server = serve(header_timeout_s=0.3)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        if before:
            connection.sendall(before)
            assert connection.recv(4_096).startswith(b"HTTP/1.1 200")
            connection.sendall(sent or b"G")
        elif sent:
            connection.sendall(sent)
        assert is_closed(connection)


def test_a_head_that_trickles_gets_no_more_time(serve):
    server = serve(header_timeout_s=0.5)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(HALF)
        deadline = time.monotonic() + 30
        with suppress(OSError):  # a reset, or a broken pipe
            while time.monotonic() < deadline:
                connection.sendall(b"a")
                time.sleep(0.05)
        assert time.monotonic() < deadline


def test_one_address_does_not_take_the_connections_of_another(serve, caller):
    server = serve(max_connections=2)
    first, second = caller(server), caller(server)
    assert first("GET", "/healthz").status == second("GET", "/healthz").status == 200
    with socket.create_connection(("127.0.0.1", server.port)) as third:
        assert is_closed(third), "both have sent a request: there is no room"
    other = HTTPConnection("127.0.0.1", server.port, 20, ("127.0.0.2", 0))
    other.request("GET", "/healthz")
    assert other.getresponse().status == 200
    other.close()
    first.connection.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with suppress(OSError, HTTPException):
            if caller(server)("GET", "/healthz").status == 200:
                return
    pytest.fail("a closed connection made no room")


def test_request_ids_of_begin_count_for_each_client_alone(serve, caller):
    server = serve()
    same = {"request_id": "1", "persona": PERSONA, "seed": 0}
    first = caller(server).begin(client="a", **same)
    assert caller(server).begin(client="a", **same)["episode_id"] == first["episode_id"]
    others = [caller(server).begin(client="b", **same), caller(server).begin(**same)]
    elsewhere = HTTPConnection("127.0.0.1", server.port, 20, ("127.0.0.2", 0))
    headers = {"content-type": "application/json"}
    elsewhere.request("POST", "/v1/episodes", json.dumps(same | {"client": "a"}), headers)
    others.append(json.loads(elsewhere.getresponse().read()))
    elsewhere.close()
    assert len({one["episode_id"] for one in (first, *others)}) == 4


def test_paths_and_methods_that_are_not_there(serve, caller):
    call = caller(serve())
    for path in ("/v2", "/docs"):  # FastAPI's own page loads scripts from elsewhere
        assert_problem(call("GET", path), 404, "not-found")
    answer = call("PUT", "/v1/envs")
    assert_problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "GET"
    assert call("PUT", "/v1/episodes/x").headers["allow"] == "DELETE, GET"
    assert call("GET", "/v1/episodes").headers["allow"] == "POST"


def test_too_many_open_episodes_are_503_until_one_ends(serve, caller):
    call = caller(serve(max_episodes=2))
    first, _ = call.begin(), call.begin()
    assert_problem(call("POST", "/v1/episodes", {}), 503, "too-many-episodes")
    call("DELETE", f"/v1/episodes/{first['episode_id']}")
    third = call.begin()["episode_id"]
    for turn in range(1, 9):
        if call.step(third, turn, "Shut up, you are pathetic.").body["terminated"]:
            break
    call.begin()
    assert call("GET", f"/v1/episodes/{third}").body["outcome"] == "left"


def test_turns_beyond_the_limit_are_503_and_may_come_again(serve, caller):
    user = Slow()
    server = serve(users={"slow": user}, max_in_flight=2)
    episodes = [caller(server).begin()["episode_id"] for _ in range(3)]
    with ThreadPoolExecutor(2) as pool:
        under_way = [pool.submit(caller(server).step, one, 1, WORDS) for one in episodes[:2]]
        user.wait_until_asked(2)
        assert_problem(caller(server).step(episodes[2], 1, WORDS), 503, "busy")
        assert_problem(caller(server)("POST", "/v1/episodes", {}), 503, "busy")
        user.may_go_on.set()
        assert [one.result().status for one in under_way] == [200, 200]
    assert caller(server).step(episodes[2], 1, WORDS).status == 200


def test_a_synchronous_user_that_waits_does_not_keep_others_waiting(serve, caller):
    may_go_on, is_asked = threading.Event(), threading.Event()

    class Waiting(EmbeddedUser):
        def appraise(self, scene, emotion, dialogue):
            is_asked.set()
            may_go_on.wait(120)
            return super().appraise(scene, emotion, dialogue)

    parts = ("kind", "version", "open", "appraise", "speak")
    own = type("NotEmbedded", (), {name: getattr(Waiting(), name) for name in parts})()
    server = serve(users={"own": own})
    episode = caller(server).begin()["episode_id"]
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(caller(server).step, episode, 1, WORDS)
        assert is_asked.wait(120)
        assert caller(server)("GET", "/healthz").status == 200
        may_go_on.set()
        assert turn.result().status == 200


def test_idle_episodes_expire_and_used_ones_do_not(serve, caller):
    call = caller(serve(idle_s=1.0))
    idle, used = call.begin()["episode_id"], call.begin()["episode_id"]
    began = time.monotonic()
    while time.monotonic() - began < 2.0:
        time.sleep(0.1)
        assert call("GET", f"/v1/episodes/{used}").status == 200
    problem = assert_problem(call("GET", f"/v1/episodes/{idle}"), 404, "unknown-episode")
    assert "1 s" in problem["detail"]


def test_a_long_utterance_is_cut_and_a_lone_surrogate_refused(serve, caller):
    call = caller(serve())
    episode = call.begin()["episode_id"]
    path = f"/v1/episodes/{episode}/steps"
    answer = call("POST", path, '{"request_id": "a", "turn": 1, "utterance": "x\\ud83d"}')
    detail = assert_problem(answer, 422, "invalid")["detail"]
    assert "lone surrogate (U+D83D) at character 1" in detail
    assert call.step(episode, 1, "x" * 5_000).body["cut_chars"] == 1_000
    pair = '{"request_id": "b", "turn": 2, "utterance": "\\ud83d\\ude00"}'
    assert call("POST", path, pair).status == 200
    assert call("GET", f"/v1/episodes/{episode}").body["transcript"][3]["text"] == "😀"


def test_a_user_that_failed_makes_an_episode_that_is_no_score(serve, caller):
    call = caller(serve(users={"bad": FailsInTurn(1, UserFailed("no idea"))}))
    episode = call.begin()["episode_id"]
    answer = call.step(episode, 1, WORDS).body
    assert (answer["truncated"], answer["terminated"], answer["valid"]) == (True, False, False)
    assert (answer["reward"], answer["outcome"]) == (0.0, "failed")
    assert "no idea" not in json.dumps(answer)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ServerOutage("http://10.0.0.7/v1 is out"), 502, "user-unavailable"),
        (KeyError("secret in a traceback"), 500, "server-error"),
    ],
)
def test_after_an_error_the_same_request_can_be_sent_again(serve, caller, error, status, kind):
    call = caller(serve(users={"bad": FailsInTurn(1, error, times=1)}))
    episode = call.begin()["episode_id"]
    problem = assert_problem(call.step(episode, 1, WORDS, "a"), status, kind)
    assert "10.0.0.7" not in json.dumps(problem)
    assert "secret" not in json.dumps(problem)
    assert call("GET", f"/v1/episodes/{episode}").body["turn"] == 0
    assert call.step(episode, 1, WORDS, "a").body["turn"] == 1


def test_metrics_count_what_happened(serve, caller):
    call = caller(serve())
    episode = call.begin()["episode_id"]
    call.begin()
    call.step(episode, 1, WORDS)
    call.step(episode, 1, WORDS)
    call.step("nothing", 1, WORDS)
    answer = call("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    samples = [one for family in parse(answer.body) for one in family.samples]
    values = {(one.name, *one.labels.values()): one.value for one in samples}
    assert values["rlver_gym_open_episodes",] == values["rlver_gym_episodes_total",] == 2
    assert values["rlver_gym_steps_total",] == values["rlver_gym_step_seconds_count",] == 1
    assert values["rlver_gym_step_seconds_bucket", "+Inf"] == 1
    assert values["rlver_gym_http_responses_total", "404"] == 1
    assert values["rlver_gym_step_seconds_sum",] > 0
    assert values["rlver_gym_turns_under_way",] == 0


def test_the_token_is_in_no_log_and_no_answer(serve, caller, caplog, capfd):
    caplog.set_level(0)
    server = serve(token=TOKEN, users={"bad": FailsInTurn(1, KeyError("x"))})
    call = caller(server, TOKEN)
    episode = call.begin()["episode_id"]
    seen = [call.step(episode, 1, WORDS), call("GET", "/openapi.json"), call("GET", "/metrics")]
    caller(server, TOKEN + "x")("GET", "/v1/envs")
    assert TOKEN not in caplog.text + "".join(capfd.readouterr()) + str(seen)
