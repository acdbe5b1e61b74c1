"""Who talks in a case of a run. Code of one's own is called where it can stop nobody else, and its faults are named: with whom, and when."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any, cast

from rlver_gym.agents import Agent, AgentMaker, AsyncAgent
from rlver_gym.agents.own import is_own, own_waits
from rlver_gym.bench.plan import Case
from rlver_gym.core.agent import Quick
from rlver_gym.core.dialogue import Appraisal, Dialogue, Message
from rlver_gym.core.emotion import MAX_CHANGE
from rlver_gym.core.user import AsyncSentientUser, Scene, SentientUser, waits
from rlver_gym.environment.session import EmpathySession
from rlver_gym.io.errors import STOPPING, AgentError, AgentFailed, RlverError, TapeError, UserError, UserFailed
from rlver_gym.io.user_code import CodeFailed, CodeTimeout, OwnCode, describe_error
from rlver_gym.users import is_own_user

AGENT_TIMEOUT_S = 600.0
"""How long a reply of an agent, or of a user, of one's own may take unless told otherwise."""


def guard_agent(case: Case, session: EmpathySession, maker: AgentMaker, code: OwnCode) -> Agent:
    """The agent of a case. Whatever goes wrong in it is an AgentError that says with whom and when, or AgentFailed when it only has no reply."""
    if is_own(case.agent):
        kind = _OwnAsyncAgent if own_waits(case.agent) else _OwnAgent
        return kind(case, session, maker, code)
    with _at_fault(case, session):
        agent = maker(session.scene.persona, case.seed)
    kind = _AsyncNamed if isinstance(agent, AsyncAgent) else _QuickNamed if isinstance(agent, Quick) else _Named
    return kind(agent, case, session)


class _Named:
    """An agent whose faults are named."""

    def __init__(self, agent: Agent, case: Case, session: EmpathySession) -> None:
        self.agent, self.case, self.session = agent, case, session

    def reply(self, messages: Sequence[Message]) -> str:
        with _at_fault(self.case, self.session):
            return self.session.heard(self.agent.reply(messages))


class _AsyncNamed(_Named):
    async def areply(self, messages: Sequence[Message]) -> str:
        with _at_fault(self.case, self.session):
            return self.session.heard(await cast(AsyncAgent, self.agent).areply(messages))


class _QuickNamed(_Named, Quick):
    pass


class _OwnAgent:
    """An agent of one's own, made and asked in the thread for such code."""

    def __init__(self, case: Case, session: EmpathySession, maker: AgentMaker, code: OwnCode) -> None:
        self.case, self.session, self._maker, self._code = case, session, maker, code
        self._agent: Agent | None = None

    def reply(self, messages: Sequence[Message]) -> str:
        with _at_fault(self.case, self.session):
            return self.session.heard(self._code.call(self._answer, messages))

    def _answer(self, messages: Sequence[Message]) -> str:
        return self._made().reply(messages)

    def _made(self) -> Agent:
        if self._agent is None:
            self._agent = self._maker(self.session.scene.persona, self.case.seed)
        return self._agent


class _OwnAsyncAgent(_OwnAgent):
    async def areply(self, messages: Sequence[Message]) -> str:
        with _at_fault(self.case, self.session):
            return self.session.heard(await self._code.acall(self._aanswer, messages))

    async def _aanswer(self, messages: Sequence[Message]) -> str:
        return await cast(AsyncAgent, self._made()).areply(messages)


@contextmanager
def _at_fault(case: Case, session: EmpathySession) -> Iterator[None]:
    turn = len(session.dialogue.turns) + 1 if session.begun else 1
    place = f"agent {case.agent!r} with {case.persona}, seed {case.seed}, turn {turn}"
    try:
        yield
    except (*STOPPING, TapeError):
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


def guard_user(name: str, user: SentientUser, code: OwnCode) -> SentientUser:
    """The user of that name; one of somebody's own, MODULE:NAME, is guarded: UserError for its faults, UserFailed when it does not answer in time."""
    if not is_own_user(name):
        return user
    return _OwnAsyncUser(name, cast(AsyncSentientUser, user), code) if waits(user) else _OwnUser(name, user, code)


class _OwnUser:
    def __init__(self, name: str, user: SentientUser, code: OwnCode) -> None:
        self._name, self._user, self._code = name, user, code
        self.kind, self.version = str(user.kind), str(user.version)

    def open(self, scene: Scene, emotion: int) -> str:
        with self._at_fault(scene, 0):
            return _text(self._code.call(self._user.open, scene, emotion))

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        with self._at_fault(scene, len(dialogue.turns) + 1):
            return _appraisal(self._code.call(self._user.appraise, scene, emotion, dialogue))

    def speak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
        with self._at_fault(scene, len(dialogue.turns) + 1):
            return _text(self._code.call(self._user.speak, scene, emotion, dialogue, appraisal))

    @contextmanager
    def _at_fault(self, scene: Scene, turn: int) -> Iterator[None]:
        place = f"user {self._name!r} with {scene.persona.id}, seed {scene.seed}, turn {turn}"
        try:
            yield
        except CodeTimeout as error:
            raise UserFailed(f"{error} (--agent-timeout)") from None
        except (CodeFailed, _Unusable) as error:
            raise UserError(f"{place}: {error}. Mend the user; what was finished is kept.") from None


class _OwnAsyncUser(_OwnUser):
    async def aopen(self, scene: Scene, emotion: int) -> str:
        return _text(await self._asked(scene, 0, self._waiting.aopen, scene, emotion))

    async def aappraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        turn = len(dialogue.turns) + 1
        return _appraisal(await self._asked(scene, turn, self._waiting.aappraise, scene, emotion, dialogue))

    async def aspeak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
        turn = len(dialogue.turns) + 1
        return _text(await self._asked(scene, turn, self._waiting.aspeak, scene, emotion, dialogue, appraisal))

    @property
    def _waiting(self) -> AsyncSentientUser:
        return cast(AsyncSentientUser, self._user)

    async def _asked(self, scene: Scene, turn: int, act: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        with self._at_fault(scene, turn):
            return await self._code.acall(act, *arguments)


class _Unusable(Exception):
    """What a user of one's own gave is not what a user gives."""


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise _Unusable(f"it must give text, not {type(found).__name__}")
    return str.__getitem__(found, slice(None))


def _appraisal(found: object) -> Appraisal:
    """The appraisal, when it can be recorded and its change is one that a turn may bring."""
    if not isinstance(found, Appraisal):
        raise _Unusable(f"appraise must give an Appraisal, not {type(found).__name__}")
    if type(found.change) is not int or not -MAX_CHANGE <= found.change <= MAX_CHANGE:
        raise _Unusable(f"the change must be an int from {-MAX_CHANGE} to {MAX_CHANGE}")
    if type(found.thought) is not str or not all(map(_is_reason, found.reasons)):
        raise _Unusable("an Appraisal has a thought (text) and reasons (Reason: code, finite points, note)")
    return found


def _is_reason(reason: object) -> bool:
    match reason:
        case (str(), int() | float() as points, str()):
            return isfinite(points)
    return False
