"""Who talks in a case; code of one's own stops nobody else, and its faults are named."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from math import isfinite
from typing import Any, TypeVar, cast

from rlver_gym.agents import Agent, AgentMaker, AsyncAgent
from rlver_gym.agents.own import is_async_own_agent, is_own_agent, require_text
from rlver_gym.bench.planned import Case
from rlver_gym.core.agent import NonBlocking
from rlver_gym.core.dialogue import Appraisal, Dialogue, Message
from rlver_gym.core.emotion import MAX_CHANGE
from rlver_gym.core.user import AsyncSentientUser, Scene, SentientUser, is_async_user
from rlver_gym.environment.session import EmpathySession
from rlver_gym.io.errors import (
    STOPPING,
    AgentError,
    AgentFailed,
    CacheError,
    RlverError,
    UserError,
    UserFailed,
)
from rlver_gym.io.user_code import CodeFailed, CodeRunner, CodeTimeout, describe_error
from rlver_gym.users import is_own_user

T = TypeVar("T")
AGENT_TIMEOUT_S = 600.0
"""How long a reply of an agent, or of a user, of one's own may take unless told otherwise."""


def guard_agent(case: Case, session: EmpathySession, maker: AgentMaker, code: CodeRunner) -> Agent:
    """The agent of a case. Its faults are an AgentError, AgentFailed when it has no reply."""
    make = partial(maker, session.scene.persona, case.seed)
    if is_own_agent(case.agent):
        agent = (_OwnAsyncAgent if is_async_own_agent(case.agent) else _OwnAgent)(make, code)
    else:
        with _locate_errors(case, session):
            agent = make()
    if isinstance(agent, AsyncAgent):
        return _GuardedAsyncAgent(agent, case, session)
    kind = _GuardedNonBlockingAgent if isinstance(agent, NonBlocking) else _GuardedAgent
    return kind(agent, case, session)


class _GuardedAgent:
    """An agent whose faults are named."""

    def __init__(self, agent: Agent, case: Case, session: EmpathySession) -> None:
        self.agent, self.case, self.session = agent, case, session

    def reply(self, messages: Sequence[Message]) -> str:
        with _locate_errors(self.case, self.session):
            return self.session.validate_utterance(self.agent.reply(messages))


class _GuardedAsyncAgent(_GuardedAgent):
    async def areply(self, messages: Sequence[Message]) -> str:
        with _locate_errors(self.case, self.session):
            return self.session.validate_utterance(
                await cast(AsyncAgent, self.agent).areply(messages)
            )


class _GuardedNonBlockingAgent(_GuardedAgent, NonBlocking):
    pass


class _OwnAgent:
    """An agent of one's own, made and asked in the thread for such code."""

    def __init__(self, make: Callable[[], Agent], code: CodeRunner) -> None:
        self._get_agent, self._code = cache(make), code

    def reply(self, messages: Sequence[Message]) -> str:
        return self._code.call(self._reply_in_thread, messages)

    def _reply_in_thread(self, messages: Sequence[Message]) -> str:
        agent = self._get_agent()
        return require_text(agent.reply(messages), agent.reply)


class _OwnAsyncAgent(_OwnAgent):
    async def areply(self, messages: Sequence[Message]) -> str:
        return await self._code.acall(self._areply_in_thread, messages)

    async def _areply_in_thread(self, messages: Sequence[Message]) -> str:
        agent = cast(AsyncAgent, self._get_agent())
        return require_text(await agent.areply(messages), agent.areply)


@contextmanager
def _locate_errors(case: Case, session: EmpathySession) -> Iterator[None]:
    turn = len(session.dialogue.turns) + 1 if session.has_begun else 1
    place = f"agent {case.agent!r} with {case.persona}, seed {case.seed}, turn {turn}"
    try:
        yield
    except (*STOPPING, CacheError):
        raise  # concerns the whole run
    except CodeTimeout as error:
        raise AgentFailed(f"{place}: {error} (--agent-timeout)") from None
    except AgentFailed as error:
        raise AgentFailed(f"{place}: {error}") from error
    except RlverError as error:
        raise AgentError(f"{place}: {error}") from error
    except CodeFailed as error:
        raise AgentError(f"{place}: {error}. Mend the agent; what was finished is kept.") from None
    except Exception as error:
        raise AgentError(f"{place}: {describe_error(error)}. What was finished is kept.") from error


def guard_user(name: str, user: SentientUser, code: CodeRunner) -> SentientUser:
    """The user of that name; one of somebody's own, MODULE:NAME, is guarded: UserError for its
    faults, UserFailed when it does not answer in time.
    """
    if not is_own_user(name):
        return user
    return (
        _OwnAsyncUser(name, cast(AsyncSentientUser, user), code)
        if is_async_user(user)
        else _OwnUser(name, user, code)
    )


class _OwnUser:
    def __init__(self, name: str, user: SentientUser, code: CodeRunner) -> None:
        self._name, self._user, self._code = name, user, code
        self.kind, self.version = str(user.kind), str(user.version)

    def open(self, scene: Scene, emotion: int) -> str:
        return self._ask(_require_text, self._user.open, scene, emotion)

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        return self._ask(_require_appraisal, self._user.appraise, scene, emotion, dialogue)

    def speak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
        return self._ask(_require_text, self._user.speak, scene, emotion, dialogue, appraisal)

    def _ask(self, check: Callable[[object], T], act: Callable[..., object], *asked: Any) -> T:
        with self._locate_errors(*asked):
            return check(self._code.call(act, *asked))

    @contextmanager
    def _locate_errors(
        self, scene: Scene, emotion: int, dialogue: Dialogue | None = None, *_: Appraisal
    ) -> Iterator[None]:
        turn = len(dialogue.turns) + 1 if dialogue else 0
        place = f"user {self._name!r} with {scene.persona.id}, seed {scene.seed}, turn {turn}"
        try:
            yield
        except CodeTimeout as error:
            raise UserFailed(f"{error} (--agent-timeout)") from None
        except (CodeFailed, _InvalidAnswer) as error:
            raise UserError(
                f"{place}: {error}. Mend the user; what was finished is kept."
            ) from None


class _OwnAsyncUser(_OwnUser):
    async def aopen(self, scene: Scene, emotion: int) -> str:
        return await self._aask(_require_text, self._async_user.aopen, scene, emotion)

    async def aappraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        act = self._async_user.aappraise
        return await self._aask(_require_appraisal, act, scene, emotion, dialogue)

    async def aspeak(
        self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal
    ) -> str:
        act = self._async_user.aspeak
        return await self._aask(_require_text, act, scene, emotion, dialogue, appraisal)

    @property
    def _async_user(self) -> AsyncSentientUser:
        return cast(AsyncSentientUser, self._user)

    async def _aask(
        self, check: Callable[[object], T], act: Callable[..., Awaitable[object]], *asked: Any
    ) -> T:
        with self._locate_errors(*asked):
            return check(await self._code.acall(act, *asked))


class _InvalidAnswer(Exception):
    """What a user of one's own gave is not what a user gives."""


def _require_text(found: object) -> str:
    if not isinstance(found, str):
        raise _InvalidAnswer(f"it must give text, not {type(found).__name__}")
    return str.__getitem__(found, slice(None))


def _require_appraisal(found: object) -> Appraisal:
    """The appraisal, when it can be recorded and its change is one that a turn may bring."""
    if not isinstance(found, Appraisal):
        raise _InvalidAnswer(f"appraise must give an Appraisal, not {type(found).__name__}")
    if type(found.change) is not int or not -MAX_CHANGE <= found.change <= MAX_CHANGE:
        raise _InvalidAnswer(f"the change must be an int from {-MAX_CHANGE} to {MAX_CHANGE}")
    if type(found.thought) is not str or not all(map(_is_reason, found.reasons)):
        raise _InvalidAnswer(
            "an Appraisal has a thought (text) and reasons (Reason: code, finite points, note)"
        )
    return found


def _is_reason(reason: object) -> bool:
    match reason:
        case (str(), int() | float() as points, str()):
            return isfinite(points)
    return False
