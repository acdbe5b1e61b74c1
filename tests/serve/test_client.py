"""`gym.make(..., url=...)`: the episodes of this machine, also when the server is slow or gone."""

import asyncio
import itertools
import pickle
import re
import socket
import threading
import time
import warnings

import gymnasium as gym
import pytest
from failing import FailsInTurn
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from test_server import Slow

from rlver_gym import EmpathyEnv, EmpathyVectorEnv, env_card
from rlver_gym.core.cards import shipped_env_ids
from rlver_gym.environment.dialogue_env import DialogueEnv
from rlver_gym.environment.make import make_env
from rlver_gym.library.personas import library
from rlver_gym.testing import ChatServer
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import (
    CardError,
    ChatError,
    DialogueError,
    ServerOutage,
    ServerRefused,
    ServerUnreachable,
    UnknownName,
    UserFailed,
    UtteranceError,
)

TOKEN = "a-token-of-some-length"
WORDS = (
    "It sounds as if that weighs on you.",
    "What happened then?",
    "You did that with great care.",
    "",
    "Everything will be fine.\x00\x1b[2J",
    "x" * 5_000,
    "你好 😀",
)
KIND = ("I'm here. What happened next?",)
RUDE = ("Shut up, you are pathetic.",)


@pytest.fixture
def remote(serve):
    made = []

    def make(env_id="RLVER-Empathy-v0", *, server=None, **options):
        options.setdefault("url", (server or serve()).url)
        made.append(gym.make(env_id, **options))
        return made[-1]

    yield make
    for env in made:
        env.close()


def rollout(env, seed, words, options=None):
    """Two episodes, the second without a seed."""
    seen = [env.reset(seed=seed, options=options)]
    for _ in range(2):
        over, turn = False, 0
        while not over:
            seen.append(env.step(words[turn % len(words)]))
            over, turn = seen[-1][2] or seen[-1][3], turn + 1
        seen.append(env.reset())
    return seen


def public(seen):
    hidden = EmpathyEnv.privileged_info
    return [
        (*one[:-1], {name: value for name, value in one[-1].items() if name not in hidden})
        for one in seen
    ]


@pytest.mark.parametrize("env_id", shipped_env_ids())
@pytest.mark.parametrize("words", [WORDS, RUDE], ids=["to the end", "they leave"])
def test_episodes_are_equal_to_those_on_this_machine(plain, remote, env_id, words):
    for seed in (0, 12_345):
        here, there = gym.make(env_id), remote(env_id, server=plain)
        expected = rollout(here, seed, words)
        assert data_equivalence(rollout(there, seed, words), public(expected), exact=True)
        here, there = (env.unwrapped.np_random.bit_generator for env in (here, there))
        assert here.state == there.state


@pytest.mark.parametrize("privileged", [False, True])
def test_replies_are_appraised_and_one_is_said_as_on_this_machine(serve, remote, privileged):
    info = "privileged" if privileged else "public"
    there = remote(server=serve(privileged=privileged), info=info)
    here = gym.make("RLVER-Empathy-v0", info=info)
    assert there.reset(seed=4) == here.reset(seed=4)
    replies, over, turn = [*KIND, *RUDE, *WORDS[:3]], False, 0
    while not over:
        expected, found = (
            env.get_wrapper_attr("appraise_replies")(replies) for env in (here, there)
        )
        assert found.rewards == expected.rewards
        assert found.appraisals == (expected.appraisals if privileged else ())
        index = (0, -1, 3)[turn % 3]
        step, other = (
            env.get_wrapper_attr("step_from")(appraised, index)
            for env, appraised in ((here, expected), (there, found))
        )
        assert other == step
        over, turn = step[2], turn + 1
    there.reset(seed=4)
    with pytest.raises(DialogueError, match="another moment"):
        there.get_wrapper_attr("step_from")(found, 0)


class Picky(EmbeddedUser):
    def appraise(self, scene, emotion, dialogue):
        if dialogue.utterance == "bad":
            raise UserFailed("no idea")
        return super().appraise(scene, emotion, dialogue)


def test_a_user_that_fails_at_a_reply_is_told_and_the_dialogue_goes_on(serve, remote):
    env = remote(server=serve(users={"picky": Picky()}))
    env.reset(seed=4)
    with pytest.raises(UserFailed):
        env.get_wrapper_attr("appraise_replies")(["Hm.", "bad"])
    assert env.step("Hm.")[4]["turn"] == 1


@pytest.mark.parametrize(
    ("made_with", "options"),
    [
        *(
            ({"persona": name}, None)
            for name in (*library().ids("train")[:3], library().ids("test")[0])
        ),
        *(({"split": split}, None) for split in ("validation", "all")),
        ({}, {"persona": "noor-the-old-dog/praise"}),  # the need is not in the info
    ],
)
def test_personas_and_splits_are_chosen_as_on_this_machine(plain, remote, made_with, options):
    expected = public(rollout(gym.make("RLVER-Empathy-v0", **made_with), 5, KIND, options))
    there = rollout(remote(server=plain, **made_with), 5, KIND, options)
    assert data_equivalence(there, expected)


def test_with_privileged_answers_everything_is_equal(serve, remote):
    server = serve(privileged=True)
    expected = rollout(gym.make("RLVER-Empathy-v0", info="privileged"), 1, WORDS)
    assert "hidden_need" in expected[0][1]
    there = remote(server=server, info="privileged")
    assert data_equivalence(rollout(there, 1, WORDS), expected)
    by_default = rollout(remote(server=server), 1, WORDS)
    assert data_equivalence(by_default, public(expected))


def test_gymnasiums_checker_passes_with_warnings_as_errors(serve, remote):
    server = serve()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(remote(server=server).unwrapped)
        check_env(remote(server=server, render_mode="ansi").unwrapped)


def test_the_spec_and_the_environment_can_be_pickled(serve, remote, monkeypatch):
    monkeypatch.setenv("RLVER_GYM_TOKEN", TOKEN)
    env = remote(server=serve(token=TOKEN))
    env.reset(seed=3)
    env.step(WORDS[0])
    frozen = pickle.dumps(env)
    assert TOKEN.encode() not in frozen
    assert TOKEN not in env.spec.to_json()
    copy = pickle.loads(frozen)
    assert copy.step(WORDS[1]) == env.step(WORDS[1])
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.reset(seed=3) == env.reset(seed=3)
    again.close()
    copy.close()


def test_what_was_said_can_be_rendered(remote):
    env = remote(render_mode="ansi")
    opening, _ = env.reset(seed=0)
    reply, *_ = env.step(WORDS[0])
    assert env.render() == f"{opening}\n> {WORDS[0]}\n{reply}"


def test_closing_and_beginning_anew_drop_the_episode(serve, remote, caller):
    server = serve(max_episodes=1)
    env = remote(server=server)
    for seed in range(3):
        env.reset(seed=seed)
    env.close()
    env.close()
    assert "rlver_gym_open_episodes 0" in caller(server)("GET", "/metrics").body


def test_an_environment_that_was_idle_drops_its_episode_all_the_same(serve, remote, caller):
    server = serve()
    env = remote(server=server)
    env.reset(seed=0)
    path = f"/v1/episodes/{env.unwrapped._episode['episode_id']}"
    env.unwrapped._server._connection.sock.shutdown(socket.SHUT_RDWR)  # as an idle one is closed
    env.close()
    assert caller(server)("GET", path).status == 404


def test_errors_are_those_of_the_environment(serve, remote):
    server = serve()
    env = remote(server=server).unwrapped
    assert isinstance(env, DialogueEnv)
    assert not isinstance(env, EmpathyEnv)
    with pytest.raises(CardError, match="--privileged"):
        remote(server=server, info="privileged").reset(seed=0)
    with pytest.raises(ResetNeeded, match="reset"):
        env.step("Hello")
    env.reset(seed=0)
    for error, says, call in (
        (UtteranceError, "lone surrogate", lambda: env.step("\ud800")),
        (UtteranceError, "must be a string", lambda: env.step(3)),
        (UnknownName, "reset option", lambda: env.reset(options={"person": "x"})),
        (UnknownName, "there is no persona", lambda: env.reset(options={"persona": "nobody"})),
        (DialogueError, "on a server", lambda: env.session),
        (DialogueError, "on a server", env.save_state),
    ):
        with pytest.raises(error, match=says):
            call()
    env.reset(seed=0)
    while not env.step(RUDE[0])[2]:
        pass
    with pytest.raises(ResetNeeded, match="has ended"):
        env.step("Hello?")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"user": "openai:gpt"}, "there is no user"),
        ({"user": EmbeddedUser()}, "a name that the server offers"),
        ({"persona": "nobody-at-all"}, "there is no persona"),
        ({"split": "everybody"}, "there is no split"),
        ({"personas": "folder"}, "where the server is started"),
        ({"base_url": "http://x/v1"}, "where the server is started"),
        ({"splitt": "all"}, "splitt is decided where"),
        ({"render_mode": "human"}, "there is no render mode"),
        ({"card": "RLVER-Empathy-v9"}, "there is no environment"),
        ({"card": "my/card.yaml"}, "cannot be sent"),
        ({"card": env_card("RLVER-Sparse-v0")}, "cannot be sent"),
    ],
)
def test_options_that_cannot_be_had_are_named(plain, options, match):
    with pytest.raises((UnknownName, CardError), match=match):
        make_env(**{"url": plain.url, **options})


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8000", "ftp://x", "http://", "http://me:secret@x", "http://x?key=secret",
     "http://x:port", "http://x y", "http://x\n", 3],
)  # fmt: skip
def test_what_is_no_address_is_refused_and_not_repeated(url):
    with pytest.raises(CardError, match="address of a server") as caught:
        make_env(url=url)
    assert "secret" not in str(caught.value)


def test_a_wrong_token_is_named(serve, remote, monkeypatch):
    server = serve(token=TOKEN)
    for token in ("", "wrong", f"{TOKEN[:4]}\n{TOKEN}", f"“{TOKEN}”"):
        monkeypatch.setenv("RLVER_GYM_TOKEN", token)
        with pytest.raises(ServerRefused, match="RLVER_GYM_TOKEN"):
            remote(server=server)
    monkeypatch.setenv("RLVER_GYM_TOKEN", TOKEN)
    remote(server=server).reset(seed=0)


def test_a_server_that_is_not_there_is_named_soon():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(ServerUnreachable, match=r"rlver-gym serve"):
        make_env(url=f"http://127.0.0.1:{port}")
    assert time.monotonic() - began < 60, "half of its patience"


def test_another_kind_of_server_is_recognised():
    with ChatServer("x") as server, pytest.raises(ServerRefused, match="not as rlver-gym serve"):
        make_env(url=server.base_url.removesuffix("/v1"))


def test_a_dropped_episode_says_to_reset(serve, remote, caller):
    server = serve()
    env = remote(server=server)
    env.reset(seed=0)
    caller(server)("DELETE", f"/v1/episodes/{env.unwrapped._episode['episode_id']}")
    with pytest.raises(DialogueError, match=r"idle.*reset\(\)"):
        env.step(WORDS[0])
    env.reset(seed=0)


def test_a_full_server_is_waited_for_and_then_named(serve, remote):
    server = serve(max_episodes=1)
    first, second = (remote(server=server, patience_s=patience) for patience in (60.0, 0.5))
    first.reset(seed=0)
    with pytest.raises(ServerOutage, match="no room"):
        second.reset(seed=0)
    timer = threading.Timer(0.3, first.close)
    timer.start()
    third = remote(server=server, patience_s=120.0)
    third.reset(seed=0)
    timer.join()


def test_dialogues_beside_each_other_wait_at_once_on_64_connections(serve):
    user = Slow()
    server = serve(users={"slow": user}, max_connections=64)
    envs = EmpathyVectorEnv(num_envs=70, url=server.url)
    envs.reset(seed=0)
    timer = threading.Thread(target=lambda: (user.wait_until_asked(64), user.may_go_on.set()))
    timer.start()
    assert len(envs.step(tuple("Go on." for _ in range(70)))[0]) == 70
    timer.join()
    envs.close()


class Cutting:
    """A proxy that refuses a connection, breaks off two at either end, and passes the fourth on."""

    def __init__(self, port):
        self.upstream = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.cuts = 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        for number in itertools.cycle((1, 2, 3, 4)):
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.cuts += number < 4
            with client, socket.create_connection(("127.0.0.1", self.upstream)) as server:
                client.settimeout(5)
                server.settimeout(5)
                if number == 1:
                    head = b"HTTP/1.1 429 Slowly\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n"
                    client.sendall(head)
                if number > 2:
                    server.sendall(self.read(client))
                    answer = self.read(server)
                    client.sendall(answer[:40] if number == 3 else answer)

    def read(self, connection):
        head = b""
        while b"\r\n\r\n" not in head:
            if not (part := connection.recv(65_536)):
                return head
            head += part
        head, _, body = head.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head.lower())
        while length and len(body) < int(length[1]) and (part := connection.recv(65_536)):
            body += part
        return head + b"\r\n\r\n" + body


def test_refused_and_dropped_connections_change_nothing(serve, remote):
    server = serve()
    proxy = Cutting(server.port)
    env = remote(url=proxy.url)
    here = gym.make("RLVER-Empathy-v0")
    assert env.reset(seed=4)[0] == here.reset(seed=4)[0]
    for number in range(3):
        expected = here.step(WORDS[number % 3])
        assert env.step(WORDS[number % 3])[:4] == expected[:4]
        if expected[2]:
            break
    assert proxy.cuts >= 3 * number
    proxy.listener.close()


def test_a_step_that_timed_out_can_be_taken_again_and_is_taken_once(serve, remote):
    user = Slow()
    env = remote(server=serve(users={"slow": user}))
    env.reset(seed=0)
    server = env.unwrapped._server
    server.close()
    server.timeout_s, server.patience_s = 1.0, 2.0
    with pytest.raises(ServerUnreachable, match="timed out"):
        env.step(WORDS[0])
    user.may_go_on.set()
    server.timeout_s = server.patience_s = 120.0
    assert env.step(WORDS[0])[4]["turn"] == 1
    assert user.asked == 1


def test_a_step_leaves_the_event_loop_free_and_a_cancelled_one_is_taken_once(serve, remote):
    user = Slow()
    env = remote(server=serve(users={"slow": user}), timeout_s=20.0, patience_s=0.0).unwrapped

    async def play():
        await env.areset(seed=0)
        step, ticks = asyncio.create_task(env.astep(WORDS[0])), 0
        while ticks < 20 or not user.asked:
            await asyncio.sleep(0.005)
            ticks += 1
        assert not step.done()
        step.cancel()
        await asyncio.wait([step])
        user.may_go_on.set()
        return await env.astep(WORDS[0])

    assert asyncio.run(play())[4]["turn"] == 1
    assert user.asked == 1


def test_a_failed_user_is_no_score(serve, remote):
    mute = FailsInTurn(0)
    here = EmpathyEnv(user=mute, on_failure="truncate")
    expected = [here.reset(seed=0), here.step("Hello?")]
    server = serve(users={"mute": mute})
    with pytest.raises(UserFailed, match="on_failure"):
        remote(server=server).reset(seed=0)
    env = remote(server=server, on_failure="truncate")
    assert data_equivalence([env.reset(seed=0), env.step("Hello?")], public(expected))


@pytest.mark.parametrize(
    ("fails", "kind", "says"),
    [
        (ServerOutage("out"), ServerOutage, "send the same request again"),
        (KeyError("x"), ChatError, "server's log"),
    ],
)
def test_what_goes_wrong_on_the_server_leaves_the_dialogue_where_it_was(
    serve, remote, fails, kind, says
):
    env = remote(server=serve(users={"bad": FailsInTurn(1, fails, times=1)}))
    env.reset(seed=0)
    with pytest.raises(kind, match=says):
        env.step(WORDS[0])
    assert env.step(WORDS[0])[4]["turn"] == 1


class OpensOnce(EmbeddedUser):
    """Is out of reach where it has to open again."""

    opened = 0

    def open(self, scene, emotion):
        OpensOnce.opened += 1
        if OpensOnce.opened == 2:
            raise ServerOutage("out")
        return super().open(scene, emotion)


def test_a_reset_that_failed_leaves_the_old_dialogue_going_on(serve, remote, caller):
    server, here = serve(users={"bad": OpensOnce()}), EmpathyEnv()
    env = remote(server=server, render_mode="ansi")
    for one in (env, here):
        one.reset(seed=0)
        one.step(WORDS[0])
    before = env.render()
    with pytest.raises(ServerOutage):
        env.reset(seed=1)
    assert env.render() == before
    assert data_equivalence(env.step(WORDS[1]), here.step(WORDS[1]))
    assert data_equivalence(env.reset(), here.reset())
    env.step(WORDS[0])
    assert "rlver_gym_open_episodes 1" in caller(server)("GET", "/metrics").body


class FailsLast(EmbeddedUser):
    """Is out of reach for the third appraisal, when the answers to the others have arrived."""

    appraised = 0

    def appraise(self, scene, emotion, dialogue):
        FailsLast.appraised += 1
        if FailsLast.appraised == 3:
            time.sleep(0.3)
            raise ServerOutage("out")
        return super().appraise(scene, emotion, dialogue)


def test_a_step_of_many_that_failed_gives_the_same_when_it_is_taken_again(serve):
    url = serve(users={"bad": FailsLast()}).url
    there, here = EmpathyVectorEnv(num_envs=3, url=url), EmpathyVectorEnv(num_envs=3)
    assert data_equivalence(there.reset(seed=0), here.reset(seed=0))
    with pytest.raises(ServerOutage):
        there.step(WORDS[:3])
    for _ in range(2):
        assert data_equivalence(there.step(WORDS[:3]), here.step(WORDS[:3]))
    there.close()


def test_closing_waits_for_what_another_dialogue_asks_on_the_same_connection(
    serve, caller, monkeypatch
):
    monkeypatch.setattr("rlver_gym.environment.remote._MAX_CONNECTIONS", 1)
    user = Slow()
    server = serve(users={"slow": user})
    first = make_env(url=server.url)
    second = first.fork()
    first.reset(seed=0)
    second.reset(seed=1)
    step = threading.Thread(target=first.step, args=(WORDS[0],))
    step.start()
    user.wait_until_asked()
    timer = threading.Timer(0.2, user.may_go_on.set)
    timer.start()
    second.close()
    step.join()
    assert "rlver_gym_open_episodes 1" in caller(server)("GET", "/metrics").body
    first.close()


@pytest.mark.parametrize("mode", [None, "sync", "async", "vector_entry_point"])
def test_every_vectorization_mode_gives_the_texts_of_this_machine(serve, mode):
    def play(**options):
        env = gym.make_vec("RLVER-Empathy-v0", num_envs=2, **options)
        seen = [env.reset(seed=3)[0]]
        for turn in range(11):
            texts, *numbers, _ = env.step((WORDS[turn % 7], WORDS[(turn + 1) % 7]))
            seen.append((tuple(texts), *(one.tolist() for one in numbers)))
        env.close()
        return seen

    assert play(vectorization_mode=mode, url=serve().url) == play()


def test_a_language_model_on_the_server_makes_the_spec_nondeterministic(serve, remote):
    server = serve(users={"embedded": EmbeddedUser(), "openai:m": EmbeddedUser()})
    assert not remote(server=server).spec.nondeterministic
    assert remote(server=server, user="openai:m").spec.nondeterministic
