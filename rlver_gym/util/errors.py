"""Every error that rlver-gym raises on purpose. Each message says what was wrong and what to do
about it.
"""

import difflib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import distributions

import gymnasium.error

from rlver_gym.util.terminal import printable


class RlverError(Exception):
    """The root of the tree: its message, whatever it quotes, is fit to print."""

    def __str__(self) -> str:
        return printable(super().__str__())


class CardError(RlverError, ValueError):
    """A card is missing, malformed or inconsistent. The message names file, field and remedy."""


class UnknownName(RlverError, LookupError):
    """No such persona, environment, agent or user. The message lists near matches."""

    @classmethod
    def of(cls, kind: str, name: object, known: Iterable[str], see: str = "") -> "UnknownName":
        """The error for `name`, with the closest `known` names, and all or `see`, which lists
        them.
        """
        names = list(known)
        begin = [known for known in names if name and known.startswith(str(name))]
        near = list(
            dict.fromkeys([*begin, *difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)])
        )[:3]
        hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
        return cls(
            f"there is no {kind} {str(name)[:80]!r}. {hint}All of them: {see or ', '.join(names)}"
        )


def check_known(kind: str, name: object, known: Collection[str], see: str = "") -> None:
    """UnknownName unless it is known."""
    if name not in known:
        raise UnknownName.of(kind, name, known, see)


class UtteranceError(RlverError, ValueError, gymnasium.error.InvalidAction):
    """What was said is no string, has a lone surrogate, or is too long; or is no action."""


class DialogueError(RlverError, RuntimeError):
    """A dialogue cannot do this where it stands."""


class ResetNeeded(DialogueError, gymnasium.error.ResetNeeded):
    """A reply was given before the dialogue started or after it had ended."""


class RunError(RlverError, ValueError):
    """A run folder cannot be read, or was made by a different plan than the one asked for."""


class RunStopped(RunError):
    """A server's outage stopped a run: what is finished is kept, and the command goes on later."""


class SourceNeeded(RunError):
    """A run needs a user, cards or a response cache of somebody's own, to be named."""


class AgentError(RlverError, RuntimeError):
    """An agent could not be made, or failed to answer."""


class AgentFailed(AgentError):
    """An agent gave no reply in this dialogue, which ends as failed."""


class UserFailed(RlverError, RuntimeError):
    """A simulated user cannot appraise or answer; the dialogue ends as failed, never a score."""

    def __init__(self, message: str, answer: str = "") -> None:
        """`answer`: an unusable one, for the record; the message may end in logs."""
        super().__init__(message)
        self.answer = answer


class UserError(RlverError, RuntimeError):
    """The code of somebody's own user failed. Stops a run; what was finished is kept."""


class RecordingError(RlverError, ValueError):
    """Recorded dialogues or ratings cannot be read. The message names file, line and remedy."""


class CacheError(RlverError, ValueError):
    """A response cache cannot be read or written, or was changed by hand. Stops a run."""


class ChatError(RlverError, RuntimeError):
    """A chat server gave no usable answer to one request, after all attempts."""


class ServerUnreachable(ChatError):
    """Nothing answers at that address. Stops a run instead of failing its dialogues one by one."""


class ServerOutage(ChatError):
    """A server that answered fails everybody for too long. Stops a run; what is done is kept."""


class ServerRefused(ChatError):
    """The server refuses every such request: wrong key, no such model, no credit. Stops a run."""

    def __init__(self, message: str, *, if_answered: str = "") -> None:
        """`if_answered`: what to say of the one request where the model answered others."""
        super().__init__(message)
        self.if_answered = if_answered


class BudgetSpent(ChatError):
    """The money, tokens or calls of a run are used up: it stops, and keeps what is finished."""


class NotInCache(ChatError, LookupError):
    """A response cache is replayed that does not hold this request."""


class TrainingError(RlverError, RuntimeError):
    """A training run cannot begin, go on or be saved: which setting to change, what was kept."""


class MissingExtra(RlverError, ModuleNotFoundError):
    """A package is not there, or not in a version that fits. The message says how to get it."""


@cache
def pip_install(extra: str) -> str:
    """The command that installs an extra of the package, or of the clone's folder."""
    installed = list(distributions(name="rlver-gym"))  # in a clone, its egg-info among them
    sources = [package.read_text("direct_url.json") or "" for package in installed]
    if installed and not any('"file:' in source for source in sources):
        return f"pip install 'rlver-gym[{extra}]'"
    return f"pip install '.[{extra}]' (in the folder of the clone)"


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """For imports of what an extra installs: MissingExtra when one of them fails."""
    try:
        yield
    except ImportError as error:
        if isinstance(error, MissingExtra) or (error.name or "").startswith("rlver_gym"):
            raise
        remedy = f"Install it with: {pip_install(extra)}"
        raise MissingExtra(f"{error}. {remedy}", name=error.name, path=error.path) from error


STOPPING = (ServerUnreachable, ServerOutage, ServerRefused, BudgetSpent, NotInCache)
"""The ChatErrors that concern more than one request: they stop the run and fail no dialogue."""


def stop_run(error: RlverError, kept: str) -> RunError:
    """What a run ends with that one of these has stopped; `kept` says what is not lost."""
    is_outage = isinstance(error, ServerOutage | ServerUnreachable)
    return (RunStopped if is_outage else RunError)(f"{error} {kept}")
