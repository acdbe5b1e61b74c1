"""Many dialogues at once, each at its own pace: nobody waits for the slowest at every turn.

    sessions = (EmpathySession(user, persona, card, seed) for seed in range(100))
    for session in rollout((session, agent) for session in sessions):
        print(session.outcome, session.emotion)

What can wait (an `AsyncSentientUser`, an `AsyncAgent`) shares one event loop, and so do the shipped agents (`Quick`). Everything else runs in one
thread beside it, one call at a time, so that code which blocks holds nobody up and code which is not made for threads stays whole. An agent that raises
AgentFailed ends its dialogue as failed; any other error ends the rollout.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from queue import SimpleQueue

from rlver_gym.core.agent import Agent, AsyncAgent, Quick
from rlver_gym.core.dialogue import Message
from rlver_gym.environment.session import EmpathySession
from rlver_gym.io.errors import AgentFailed
from rlver_gym.io.event_loop import Worker, begin

CONCURRENCY = 256
"""How many dialogues are held at once unless told otherwise. How many calls a server gets at once is for its client to find out."""


def hold(session: EmpathySession, agent: Agent) -> EmpathySession:
    """One dialogue to its end, in this thread."""
    if not session.begun:
        session.start()
    while session.outcome is None:
        try:
            with session.asking():
                words = agent.reply(tuple(session.dialogue.messages()))
        except AgentFailed as failure:
            session.give_up(failure)
        else:
            session.reply(words)
    return session


def rollout(
    dialogues: Iterable[tuple[EmpathySession, Agent]], *, concurrency: int = CONCURRENCY
) -> Iterator[EmpathySession]:
    """Hold all dialogues to their ends, at most `concurrency` at once; yields the sessions in the order given.

    `dialogues` is drawn from as places become free, so it may be long, or a generator. When one raises, no other is begun, those before it
    are finished and yielded, and the error comes in its place. Closing the iterator, or an interrupt, stops all. Works inside a running event
    loop too; code that is itself async takes `arollout`.
    """
    finished: SimpleQueue[EmpathySession | None] = SimpleQueue()

    async def fill() -> None:
        try:
            async with aclosing(arollout(dialogues, concurrency=concurrency)) as sessions:
                async for session in sessions:
                    finished.put(session)
        finally:
            finished.put(None)

    under_way = begin(fill())
    try:
        while session := finished.get():
            yield session
        under_way.result()
    finally:
        under_way.cancel()


async def arollout(
    dialogues: Iterable[tuple[EmpathySession, Agent]], *, concurrency: int = CONCURRENCY
) -> AsyncGenerator[EmpathySession, None]:
    """See `rollout`."""
    worker, drawer, source = Worker(), Worker(), iter(dialogues)
    begun: asyncio.Queue[asyncio.Task[EmpathySession] | None] = asyncio.Queue()
    talking: set[asyncio.Task[EmpathySession]] = set()
    places = asyncio.Semaphore(concurrency)
    broken = False

    def ended(task: asyncio.Task[EmpathySession]) -> None:
        nonlocal broken
        broken = broken or task.cancelled() or task.exception() is not None
        places.release()

    async def begin_all() -> None:
        try:
            while await places.acquire() and not broken and (pair := await drawer(lambda: next(source, None))):
                task = asyncio.create_task(_held(*pair, worker))
                talking.add(task)
                task.add_done_callback(ended)
                begun.put_nowait(task)
        finally:
            begun.put_nowait(None)

    beginning = asyncio.create_task(begin_all())
    try:
        while task := await begun.get():
            yield await task
            talking.discard(task)
        await beginning
    finally:
        for task in (beginning, *talking):
            task.cancel()
        await asyncio.gather(beginning, *talking, return_exceptions=True)
        worker.stop()
        drawer.stop()


async def _held(session: EmpathySession, agent: Agent, worker: Worker) -> EmpathySession:
    """One dialogue to its end: what waits is awaited, what may block is done by the worker."""
    if not session.waits and not isinstance(agent, AsyncAgent):
        return await worker(hold, session, agent)
    ask = _asking(agent, worker)
    if not session.begun:
        await (session.astart() if session.waits else worker(session.start))
    while session.outcome is None:
        try:
            with session.asking():
                words = await ask(tuple(session.dialogue.messages()))
        except AgentFailed as failure:
            session.give_up(failure)
        else:
            await (session.areply(words) if session.waits else worker(session.reply, words))
    return session


def _asking(agent: Agent, worker: Worker) -> Callable[[Sequence[Message]], Awaitable[str]]:
    """The way to ask this agent from the event loop."""

    async def here(messages: Sequence[Message]) -> str:
        return agent.reply(messages)

    if isinstance(agent, AsyncAgent):
        return agent.areply
    return here if isinstance(agent, Quick) else lambda messages: worker(agent.reply, messages)
