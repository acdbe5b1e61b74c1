"""What a run has asked of servers, over all the times that its command was run: a small file beside its episodes."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from rlver_gym.io.atomic import write_whole
from rlver_gym.io.errors import RunError
from rlver_gym.io.files import read_bytes
from rlver_gym.io.json_text import parse_json
from rlver_gym.llm_client.spending import Spending

SPENT = "spent.json"
_MAX_BYTES = 4096


class Total(BaseModel):
    """Counts over all servers and commands of a run. Tokens are as the servers counted them, those of unusable answers included."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    calls: NonNegativeInt = 0
    """Requests, however often each was tried."""
    attempts: NonNegativeInt = 0
    prompt_tokens: NonNegativeInt = 0
    completion_tokens: NonNegativeInt = 0

    def line(self) -> str:
        """The counts in one line, for people."""
        return f"{self.calls:,} calls, {self.prompt_tokens + self.completion_tokens:,} tokens"


class Ledger:
    """Adds what is spent now to what was spent before."""

    def __init__(self, folder: Path, spending: Sequence[Spending]) -> None:
        """`spending`: of the servers that are asked now, counted from zero; empty when none is. RunError for a file that is no ledger."""
        self._path = folder / SPENT
        self._spending = spending
        self._before = read_total(folder)

    @property
    def was_answered(self) -> bool:
        """Whether a server answered when the command was run before."""
        return self._before.prompt_tokens + self._before.completion_tokens > 0

    @property
    def total(self) -> Total:
        """Everything that was spent, now included."""
        now = [one.spent for one in self._spending]
        sums = {name: value + sum(getattr(one, name) for one in now) for name, value in self._before}
        return Total(**sums)

    def write(self) -> None:
        """Write the total down; nothing when no server is asked."""
        if self._spending:
            write_whole(self._path, self.total.model_dump_json() + "\n")


def read_total(folder: Path) -> Total:
    """What the ledger of a run folder says; zeros when there is none. RunError for a file that is no ledger."""
    path = folder / SPENT
    if not path.exists():
        return Total()
    try:
        return Total.model_validate(parse_json(read_bytes(path, max_bytes=_MAX_BYTES, error=RunError)))
    except (ValidationError, ValueError) as error:
        if isinstance(error, RunError):
            raise
        raise RunError(
            f"{path}: no count of what was spent. Remove it: the counts begin anew, and nothing else is lost."
        ) from None
