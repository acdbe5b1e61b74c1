"""Who talks in a case; code of one's own stops nobody else, and its faults are named."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from math import isfinite
from typing import Any, cast

from rlver_gym.agents import Agent, AgentMaker, AsyncAgent
from rlver_gym.agents.own import is_async_own_agent, is_own_agent, require_text
from rlver_gym.core.agent import NonBlocking
from rlver_gym.core.dialogue import Appraisal, Dialogue, Message
from rlver_gym.core.emotion import MAX_CHANGE
from rlver_gym.core.user import Scene, SentientUser, is_async_user
from rlver_gym.environment.episode import Case
from rlver_gym.environment.session import EmpathySession
from rlver_gym.users import is_own_user
from rlver_gym.util.errors import (
    STOPPING,
    AgentError,
    AgentFailed,
    CacheError,
    RlverError,
    UserError,
    UserFailed,
)
from rlver_gym.util.user_code import CodeFailed, CodeRunner, CodeTimeout, describe_error

AGENT_TIMEOUT_S = 600.0
"""How long a reply of an agent, or of a user, of one's own may take unless told otherwise."""


def guard_agent(case: Case, session: EmpathySession, maker: AgentMaker, code: CodeRunner) -> Agent:
    """The agent of a case. Its faults are an AgentError, AgentFailed when it has no reply."""
    make = partial(maker, session.scene.persona, case.seed)
    if is_own_agent(case.agent):
        guard = _AsyncAgentGuard if is_async_own_agent(case.agent) else _AgentGuard
        return guard(cache(make), case, session, code)
    with _locate_errors(case, session):
        agent = make()
    if isinstance(agent, AsyncAgent):
        return _AsyncAgentGuard(lambda: agent, case, session)
    guard = _NonBlockingAgentGuard if isinstance(agent, NonBlocking) else _AgentGuard
    return guard(lambda: agent, case, session)


class _AgentGuard:
    """An agent whose faults are named; with `code` one of one's own, made and asked there."""

    def __init__(
        self,
        get_agent: Callable[[], Agent],
        case: Case,
        session: EmpathySession,
        code: CodeRunner | None = None,
    ) -> None:
        self._get_agent, self._case, self._session, self._code = get_agent, case, session, code

    def reply(self, messages: Sequence[Message]) -> str:
        with _locate_errors(self._case, self._session):
            said = self._code.call(self._ask, messages) if self._code else self._ask(messages)
            return self._session.validate_utterance(said)

    def _ask(self, messages: Sequence[Message]) -> str:
        said = self._get_agent().reply(messages)
        return require_text(said) if self._code else said


class _AsyncAgentGuard(_AgentGuard):
    async def areply(self, messages: Sequence[Message]) -> str:
        with _locate_errors(self._case, self._session):
            ask = self._aask
            said = await (self._code.acall(ask, messages) if self._code else ask(messages))
            return self._session.validate_utterance(said)

    async def _aask(self, messages: Sequence[Message]) -> str:
        said = await cast(AsyncAgent, self._get_agent()).areply(messages)
        return require_text(said, "areply") if self._code else said


class _NonBlockingAgentGuard(_AgentGuard, NonBlocking):
    pass


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
        hint = "Mend the agent (a message has speaker and text); what was finished is kept."
        raise AgentError(f"{place}: {error}. {hint}") from None
    except Exception as error:
        raise AgentError(f"{place}: {describe_error(error)}. What was finished is kept.") from error


def guard_user(name: str, user: SentientUser, code: CodeRunner) -> SentientUser:
    """The user of that name; one's own is guarded: UserError for faults, UserFailed when late."""
    if not is_own_user(name):
        return user
    return (_AsyncUserGuard if is_async_user(user) else _UserGuard)(name, user, code)


class _InvalidAnswer(Exception):
    """What a user of one's own gave is not what a user gives."""


def _require_text(value: object) -> str:
    if not isinstance(value, str):
        raise _InvalidAnswer(f"it must give text, not {type(value).__name__}")
    return str.__getitem__(value, slice(None))


def _require_appraisal(value: object) -> Appraisal:
    """The appraisal, when it can be recorded and its change is one that a turn may bring."""
    if not isinstance(value, Appraisal):
        raise _InvalidAnswer(f"appraise must give an Appraisal, not {type(value).__name__}")
    if type(value.change) is not int or not -MAX_CHANGE <= value.change <= MAX_CHANGE:
        raise _InvalidAnswer(f"the change must be an int from {-MAX_CHANGE} to {MAX_CHANGE}")
    if type(value.thought) is not str or not all(map(_is_reason, value.reasons)):
        raise _InvalidAnswer(
            "an Appraisal has a thought (text) and reasons (Reason: code, finite points, note)"
        )
    return value


def _is_reason(reason: object) -> bool:
    match reason:
        case (str(), int() | float() as points, str()):
            return isfinite(points)
    return False


def _wrap_step(step: str, check: Callable[[object], Any]) -> Callable[..., Any]:
    def ask(self: "_UserGuard", *asked: Any) -> Any:
        with self.locate_errors(*asked):
            return check(self.code.call(getattr(self.user, step), *asked))

    return ask


def _wrap_async_step(step: str, check: Callable[[object], Any]) -> Callable[..., Any]:
    async def ask(self: "_UserGuard", *asked: Any) -> Any:
        with self.locate_errors(*asked):
            return check(await self.code.acall(getattr(self.user, step), *asked))

    return ask


class _UserGuard:
    """A user of one's own: its code is called in the thread for such code, its answers checked."""

    def __init__(self, name: str, user: SentientUser, code: CodeRunner) -> None:
        self.name, self.user, self.code = name, user, code
        self.kind, self.version = str(user.kind), str(user.version)

    open = _wrap_step("open", _require_text)
    appraise = _wrap_step("appraise", _require_appraisal)
    speak = _wrap_step("speak", _require_text)

    @contextmanager
    def locate_errors(
        self, scene: Scene, emotion: int, dialogue: Dialogue | None = None, *_: Appraisal
    ) -> Iterator[None]:
        turn = len(dialogue.turns) + 1 if dialogue else 0
        place = f"user {self.name!r} with {scene.persona.id}, seed {scene.seed}, turn {turn}"
        try:
            yield
        except CodeTimeout as error:
            raise UserFailed(f"{error} (--agent-timeout)") from None
        except (CodeFailed, _InvalidAnswer) as error:
            raise UserError(
                f"{place}: {error}. Mend the user; what was finished is kept."
            ) from None


class _AsyncUserGuard(_UserGuard):
    aopen = _wrap_async_step("aopen", _require_text)
    aappraise = _wrap_async_step("aappraise", _require_appraisal)
    aspeak = _wrap_async_step("aspeak", _require_text)
