"""Many dialogues at once, each at its own pace: nobody waits for the slowest at every turn.

    sessions = (EmpathySession(user, persona, card, seed) for seed in range(100))
    for session in rollout((session, agent) for session in sessions):
        print(session.outcome, session.emotion)

What can wait (an `AsyncSentientUser`, an `AsyncAgent`) shares one event loop, and so do the shipped
agents (`NonBlocking`). Everything else runs in one thread beside it, one call at a time, so that
code which blocks holds nobody up and code which is not made for threads stays whole. An agent that
raises AgentFailed ends its dialogue as failed; any other error ends the rollout.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import aclosing
from queue import SimpleQueue

from rlver_gym.core.agent import Agent, AsyncAgent, NonBlocking
from rlver_gym.core.dialogue import Message
from rlver_gym.environment.session import EmpathySession
from rlver_gym.util.errors import AgentFailed
from rlver_gym.util.event_loop import BackgroundWork, Worker

CONCURRENCY = 256
"""How many dialogues run at once; how many calls a server gets is for its client to find out."""


def run_episode(session: EmpathySession, agent: Agent) -> EmpathySession:
    if not session.has_begun:
        session.start()
    while session.outcome is None:
        try:
            with session.request_context():
                words = agent.reply(tuple(session.dialogue.messages()))
        except AgentFailed as failure:
            session.give_up(failure)
        else:
            session.reply(words)
    return session


def rollout(
    dialogues: Iterable[tuple[EmpathySession, Agent]], *, concurrency: int = CONCURRENCY
) -> Generator[EmpathySession, None, None]:
    """Run all dialogues to their ends, at most `concurrency` at once; yields the sessions in the
    order given.

    `dialogues` is drawn from as places become free, so it may be long, or a generator. When one
    raises, no other is begun, those before it are finished and yielded, and the error comes in its
    place. Closing the iterator, or an interrupt, stops all. Works inside a running event loop too;
    code that is itself async takes `arollout`.
    """
    finished: SimpleQueue[EmpathySession | None] = SimpleQueue()

    async def fill() -> None:
        try:
            async with aclosing(arollout(dialogues, concurrency=concurrency)) as sessions:
                async for session in sessions:
                    finished.put(session)
        finally:
            finished.put(None)

    filling = BackgroundWork(fill())
    try:
        while session := finished.get():
            yield session
        filling.result()
    finally:
        filling.stop()


async def arollout(
    dialogues: Iterable[tuple[EmpathySession, Agent]], *, concurrency: int = CONCURRENCY
) -> AsyncGenerator[EmpathySession, None]:
    worker, source_worker, source = Worker(), Worker(), iter(dialogues)
    started: asyncio.Queue[asyncio.Task[EmpathySession] | None] = asyncio.Queue()
    running: set[asyncio.Task[EmpathySession]] = set()
    places = asyncio.Semaphore(concurrency)
    has_failed = False

    def on_task_done(task: asyncio.Task[EmpathySession]) -> None:
        nonlocal has_failed
        has_failed = has_failed or task.cancelled() or task.exception() is not None
        places.release()

    async def start_all() -> None:
        try:
            while (
                await places.acquire()
                and not has_failed
                and (pair := await source_worker(lambda: next(source, None)))
            ):
                task = asyncio.create_task(_arun_episode(*pair, worker))
                running.add(task)
                task.add_done_callback(on_task_done)
                started.put_nowait(task)
        finally:
            started.put_nowait(None)

    starter = asyncio.create_task(start_all())
    try:
        while task := await started.get():
            yield await task
            running.discard(task)
        await starter
    finally:
        for task in (starter, *running):
            task.cancel()
        await asyncio.gather(starter, *running, return_exceptions=True)
        worker.stop()
        source_worker.stop()


async def _arun_episode(session: EmpathySession, agent: Agent, worker: Worker) -> EmpathySession:
    if not session.is_async and not isinstance(agent, AsyncAgent):
        return await worker(run_episode, session, agent)
    get_reply = _async_reply(agent, worker)
    if not session.has_begun:
        await (session.astart() if session.is_async else worker(session.start))
    while session.outcome is None:
        try:
            with session.request_context():
                words = await get_reply(tuple(session.dialogue.messages()))
        except AgentFailed as failure:
            session.give_up(failure)
        else:
            await (session.areply(words) if session.is_async else worker(session.reply, words))
    return session


def _async_reply(agent: Agent, worker: Worker) -> Callable[[Sequence[Message]], Awaitable[str]]:

    async def reply_on_loop(messages: Sequence[Message]) -> str:
        return agent.reply(messages)

    if isinstance(agent, AsyncAgent):
        return agent.areply
    return (
        reply_on_loop
        if isinstance(agent, NonBlocking)
        else lambda messages: worker(agent.reply, messages)
    )
