"""Users that wait, in dialogues one or many at once, give the results of one after the other."""

import asyncio
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from rlver_gym import EmpathyEnv, EmpathySession, env_card, make_agent
from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.rollout import arollout, rollout, run_episode
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import DialogueError, ServerUnreachable, UserFailed, UtteranceError
from rlver_gym.util.event_loop import BackgroundWork, wait_for

CARD = env_card("RLVER-Empathy-v0")
IDS = library().ids("train")
WORDS = ["What happened?", "That must hurt.", "", "You managed that well.", "Tell me more."]


class Patient(EmbeddedUser):
    """Feels as the embedded user does, after a while. Counts how many dialogues wait at once."""

    def __init__(self, wait_s=0.002):
        super().__init__()
        self.wait_s = wait_s
        self.waiting = self.most = 0

    async def _wait(self):
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await asyncio.sleep(self.wait_s)
        finally:
            self.waiting -= 1

    async def aopen(self, scene, emotion):
        await self._wait()
        return self.open(scene, emotion)

    async def aappraise(self, scene, emotion, dialogue):
        await self._wait()
        return self.appraise(scene, emotion, dialogue)

    async def aspeak(self, scene, emotion, dialogue, appraisal):
        await self._wait()
        return self.speak(scene, emotion, dialogue, appraisal)


class Breaking(Patient):
    """Raises `error` in the appraisal of one utterance, as often as there are errors."""

    def __init__(self, at, *errors):
        super().__init__()
        self.at, self.errors = at, list(errors)

    async def aappraise(self, scene, emotion, dialogue):
        if dialogue.utterance == self.at and self.errors:
            raise self.errors.pop(0)
        return await super().aappraise(scene, emotion, dialogue)


def session(user, seed=0):
    return EmpathySession(user, library().get(IDS[seed % len(IDS)]), CARD, seed)


def pairs(user, count, agent="listener"):
    return (
        (session(user, seed), make_agent(agent, library().get(IDS[0]), seed))
        for seed in range(count)
    )


@cache
def one_by_one():
    return [run_episode(*pair).snapshot() for pair in pairs(EmbeddedUser(), 6)]


def test_a_user_that_waits_gives_the_same_dialogue():
    plain, patient = session(EmbeddedUser()), session(Patient())
    assert plain.start() == patient.start()
    for words in WORDS:
        assert plain.reply(words) == patient.reply(words)
    assert plain.snapshot() == patient.snapshot()


def test_reply_works_inside_a_running_event_loop_and_from_threads():
    async def notebook():
        return session(Patient()).start()

    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(session(Patient()).start).result()
    assert asyncio.run(notebook()) == opening == session(EmbeddedUser()).start()


def test_areply_never_needs_an_event_loop_for_a_user_that_does_not_wait():
    one = session(EmbeddedUser())
    with pytest.raises(StopIteration) as begun:
        one.astart().send(None)
    assert begun.value.value == one.dialogue.opening


def test_two_replies_at_once_in_one_dialogue_are_refused():
    async def both():
        one = session(Patient())
        await one.astart()
        said = await asyncio.gather(
            one.areply("What happened?"), one.areply("And then?"), return_exceptions=True
        )
        assert len(one.dialogue.turns) == 1
        return said

    assert sum(isinstance(one, DialogueError) for one in asyncio.run(both())) == 1


class Speechless(Patient):
    def __init__(self, *personas):
        super().__init__()
        self.personas = personas

    async def aopen(self, scene, emotion):
        if scene.persona.id in self.personas:
            raise UserFailed("no first words")
        return await super().aopen(scene, emotion)


def test_a_user_without_first_words_is_a_failed_dialogue_with_its_reason():
    one = session(Speechless(IDS[0]))
    assert one.start() == ""
    assert (one.outcome, one.emotion, one.has_failed_to_open) == (Outcome.FAILED, CARD.start, True)
    (turn,) = one.dialogue.turns
    assert turn.appraisal.reasons[0].note == "the user failed: no first words"
    with pytest.raises(DialogueError, match="failed"):
        one.reply("Hello?")
    ends = [one.outcome for one in rollout(pairs(Speechless(IDS[1]), 3))]
    assert [end is Outcome.FAILED for end in ends] == [False, True, False]


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_many_dialogues_go_on_beside_one_that_never_began(mode):
    user = Speechless(*IDS[::2])
    many = gym.make_vec(
        "RLVER-Empathy-v0", num_envs=6, autoreset_mode=mode, user=user, on_failure="truncate"
    )
    texts, infos = many.reset(seed=0)
    never_began = [persona in user.personas for persona in infos["persona"]]
    assert set(never_began) == {True, False}
    assert [not text for text in texts] == never_began == [not valid for valid in infos["valid"]]
    _, rewards, terminated, truncated, _ = many.step(("What happened?",) * 6)
    assert truncated.tolist() == never_began
    assert not terminated.any()
    assert not rewards[truncated].any()
    if mode == "SameStep":
        for _ in range(12):
            many.step(("What happened?",) * 6)


def test_one_environment_tells_a_dialogue_that_never_began_as_any_other_that_failed():
    env = EmpathyEnv(user=Speechless(IDS[0]), on_failure="truncate")
    text, info = env.reset(seed=0, options={"persona": IDS[0]})
    assert (text, info["valid"], info["outcome"]) == ("", False, "failed")
    text, reward, terminated, truncated, info = env.step("Hello?")
    assert (text, reward, terminated, truncated, info["valid"]) == ("", 0.0, False, True, False)
    assert env.reset(seed=0, options={"persona": IDS[1]})[1]["valid"]


def test_astep_and_areset_are_step_and_reset():
    async def awaited():
        env = EmpathyEnv(user=Patient())
        return [await env.areset(seed=4), *[await env.astep(words) for words in WORDS]]

    env = EmpathyEnv()
    steps = [env.reset(seed=4), *map(env.step, WORDS)]
    assert data_equivalence(asyncio.run(awaited()), steps)


def test_the_spread_of_several_judgements_is_told():
    class Unsure(EmbeddedUser):
        def appraise(self, scene, emotion, dialogue):
            return super().appraise(scene, emotion, dialogue)._replace(spread=1.5)

    env = EmpathyEnv(user=Unsure(), info="privileged")
    assert "spread" not in env.reset(seed=0)[1]
    assert env.step("What happened?")[4]["spread"] == 1.5
    assert "spread" in EmpathyEnv.privileged_info


@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_many_that_wait_give_what_many_give_that_do_not(mode):
    patient = Patient()
    ours = gym.make_vec("RLVER-Empathy-v0", num_envs=6, autoreset_mode=mode, user=patient)
    theirs = gym.make_vec("RLVER-Empathy-v0", num_envs=6, autoreset_mode=mode)
    assert data_equivalence(ours.reset(seed=3), theirs.reset(seed=3))
    for step in range(12):  # over the end of dialogues, at eight turns
        said = tuple(WORDS[(step + number) % len(WORDS)] for number in range(6))
        assert data_equivalence(ours.step(said), theirs.step(said)), step
    assert patient.most == 6


def test_a_vector_step_that_is_stopped_while_others_begin_anew_has_moved_nobody():
    said = ("Tell me more.", "What happened?", "And then?", "How was that?")
    breaking, sound = (
        gym.make_vec("RLVER-Empathy-v0", num_envs=4, user=user)
        for user in (Breaking("Now?", ServerUnreachable("gone")), "embedded")
    )
    for env in (breaking, sound):
        env.reset(seed=np.arange(4).tolist())
        for _ in range(7):
            env.step(said)
    with pytest.raises(ServerUnreachable):
        breaking.step((*said[:2], "Now?", said[3]))
    for step in range(4):
        assert data_equivalence(breaking.step(said), sound.step(said)), step


def test_rollouts_give_what_one_after_the_other_gives_with_no_more_at_once_than_allowed():
    patient = Patient()
    assert [one.snapshot() for one in rollout(pairs(EmbeddedUser(), 6))] == one_by_one()
    assert [one.snapshot() for one in rollout(pairs(patient, 6), concurrency=5)] == one_by_one()
    assert patient.most == 5


def test_a_slow_dialogue_holds_no_other_up():
    others = list(rollout(pairs(EmbeddedUser(), 6)))[1:]
    turns = sum(len(one.dialogue.turns) for one in others)

    class FirstIsSlow(Patient):
        done = 0

        async def aappraise(self, scene, emotion, dialogue):
            if scene.seed == 0:
                while self.done < turns:
                    await asyncio.sleep(0.001)
            self.done += 1
            return await super().aappraise(scene, emotion, dialogue)

    ended = rollout(pairs(FirstIsSlow(), 6), concurrency=2)
    assert [one.scene.seed for one in ended] == list(range(6))


def test_rollouts_work_inside_a_running_event_loop():
    async def notebook():
        blocking = [one.snapshot() for one in rollout(pairs(Patient(), 6))]
        return blocking, [one.snapshot() async for one in arollout(pairs(Patient(), 6))]

    assert asyncio.run(notebook()) == (one_by_one(), one_by_one())


class Stops:
    """Says in the sixth dialogue what its user breaks off at."""

    def __init__(self, seed):
        self.seed = seed

    def reply(self, messages):
        return "Stop." if self.seed == 5 and len(messages) > 5 else "Tell me more."


def lose_the_server():
    user = Breaking("Stop.", ServerUnreachable("gone"))
    return ((session(user, seed), Stops(seed)) for seed in range(6))


def lose_the_source():
    yield from pairs(Patient(), 5)
    raise UtteranceError("no more")


@pytest.mark.parametrize(
    ("source", "error"), [(lose_the_server, ServerUnreachable), (lose_the_source, UtteranceError)]
)
def test_an_error_in_a_dialogue_or_in_their_source_comes_in_its_place(source, error):
    finished = rollout(source())
    assert [next(finished).scene.seed for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(error):
        next(finished)


@pytest.mark.parametrize("raised", [StopIteration(), SystemExit(3), KeyError("lost")])
def test_whatever_an_agent_raises_ends_the_rollout_and_not_the_event_loop(raised):
    class Raises:
        def reply(self, messages):
            raise raised

    with pytest.raises((RuntimeError, KeyError)):
        list(rollout([(session(Patient()), Raises())]))
    assert len(list(rollout(pairs(Patient(), 2)))) == 2


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("is_inner", [False, True])
def test_an_exit_in_work_on_the_background_loop_is_an_error_and_others_go_on(is_inner, raised):
    async def leave():
        raise raised

    async def gather():
        await asyncio.gather(leave(), asyncio.sleep(0.01))

    other = BackgroundWork(asyncio.sleep(0.05, "done"))
    with pytest.raises(RuntimeError, match=type(raised).__name__):
        wait_for(gather() if is_inner else leave())
    assert other.result() == "done"
    assert wait_for(asyncio.sleep(0, "again")) == "again"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_a_worker_of_its_own_which_does_nothing_that_the_parent_asked():
    program = """if True:
        import os, threading
        from rlver_gym.util.event_loop import Worker
        worker, go_on = Worker(), threading.Event()
        worker.submit(go_on.wait)
        asked = worker.submit(os.getpid)
        child = os.fork()
        if not child:
            os._exit(worker.submit(lambda: 7).result(timeout=20) + asked.done())
        go_on.set()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), asked.result() == os.getpid())
    """
    command = [sys.executable, "-W", "ignore", "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("7 True\n", "")


def test_an_abandoned_rollout_stops():
    patient = Patient()
    for _ in rollout(pairs(patient, 1000), concurrency=4):
        break
    deadline = time.monotonic() + 60
    while patient.waiting and time.monotonic() < deadline:
        time.sleep(0.01)
    assert patient.waiting == 0


def test_agents_that_block_are_asked_one_at_a_time_and_may_wait_for_the_loop():
    """Code that is not made for threads, and that itself talks to a user that waits."""

    class Blocks:
        busy = 0

        def reply(self, messages):
            Blocks.busy += 1
            assert Blocks.busy == 1
            other = session(Patient(0.0))
            other.start()
            Blocks.busy -= 1
            return "Tell me more."

    ended = list(rollout((session(Patient(), seed), Blocks()) for seed in range(6)))
    assert all(one.outcome is not Outcome.FAILED for one in ended)


def test_agents_that_wait_answer_at_once():
    class Waits:
        waiting = most = 0

        def reply(self, messages):
            raise AssertionError

        async def areply(self, messages):
            Waits.waiting += 1
            Waits.most = max(Waits.most, Waits.waiting)
            await asyncio.sleep(0.01)
            Waits.waiting -= 1
            return "Tell me more."

    assert len(list(rollout((session(EmbeddedUser(), seed), Waits()) for seed in range(6)))) == 6
    assert Waits.most == 6
