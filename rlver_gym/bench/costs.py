"""What a benchmark with chat models will ask for, and has asked for: requests, tokens, money."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from rlver_gym.agents import uses_server
from rlver_gym.bench.folder import find_response_cache
from rlver_gym.bench.plan import BenchPlan, Case
from rlver_gym.io.atomic import write_atomically
from rlver_gym.io.errors import RunError
from rlver_gym.io.files import read_bytes
from rlver_gym.io.json_text import parse_json
from rlver_gym.io.terminal import format_count
from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.llm_client.spending import Spending, Spent, money

_USER_PROMPT, _USER_PROMPT_A_TURN, _USER_ANSWER = 1_900, 80, 150
"""Tokens of the LLM user's requests: at first, more for each turn on average; of its answer."""
_AGENT_PROMPT, _AGENT_PROMPT_A_TURN, _AGENT_ANSWER = 100, 70, 100
"""The same for an agent."""


class Estimate(NamedTuple):
    """At most so many requests, if all turns are used; tokens within a factor of two."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    money: float | None
    """In the currency of the prices; None without prices."""

    def __str__(self) -> str:
        cost = (
            ""
            if self.money is None
            else f", about {self.money:,.2f} (your currency) by the prices given"
        )
        tokens = (self.prompt_tokens + self.completion_tokens) / 1e6
        calls = format_count(self.calls, "request")
        return f"at most {calls}, about {tokens:,.2f} million tokens{cost}"


def estimate(plan: BenchPlan, cases: Sequence[Case]) -> Estimate:
    """What these dialogues of the plan will ask chat servers for, if nothing is in a response
    cache yet.
    """
    turns = plan.card.turns
    opening = 0 if plan.user_options.get("opening") == "card" else 1
    by_user = (
        len(cases) * (opening + turns * _count_calls_per_turn(plan))
        if uses_server(plan.user)
        else 0
    )
    by_agents = sum(uses_server(case.agent) for case in cases) * turns
    prompt = by_user * (_USER_PROMPT + _USER_PROMPT_A_TURN * turns)
    prompt += by_agents * (_AGENT_PROMPT + _AGENT_PROMPT_A_TURN * turns)
    completion = by_user * _USER_ANSWER + by_agents * _AGENT_ANSWER
    prices = plan.chat.prices
    cost = (
        money(Spent(prompt_tokens=prompt, completion_tokens=completion), prices) if prices else None
    )
    return Estimate(by_user + by_agents, prompt, completion, cost)


def _count_calls_per_turn(plan: BenchPlan) -> int:
    """Requests of the user at each turn: its judgements, and a reply unless one does both."""
    samples, calls = plan.user_options.get("samples", 1), plan.user_options.get("calls", 2)
    return (samples if isinstance(samples, int) else 1) + (0 if calls == 1 else 1)


SPENT = "spent.json"
_MAX_BYTES = 4096


class Total(BaseModel):
    """Counts over all servers and commands of a run, as the servers counted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    calls: NonNegativeInt = 0
    """Requests, however often each was tried."""
    attempts: NonNegativeInt = 0
    prompt_tokens: NonNegativeInt = 0
    completion_tokens: NonNegativeInt = 0
    estimated: NonNegativeInt = 0
    """Answers whose tokens are an estimate."""

    def summary(self) -> str:
        """The counts in one line, for people."""
        tokens = self.prompt_tokens + self.completion_tokens
        return f"{format_count(self.calls, 'call')}, {format_count(tokens, 'token')}"


class Ledger:
    """Adds what is spent to what was spent before; written with every count, to survive a kill."""

    def __init__(self, folder: Path, spending: Sequence[Spending]) -> None:
        """`spending`: of the servers that are asked now, counted from zero; empty when none is.

        What the folder's own response cache holds was spent at least. RunError for a file that is
        no ledger.
        """
        self._path = folder / SPENT
        self._spending = spending
        self._lock = Lock()
        before, on_cache = read_total(folder), _read_cache(folder)
        most = {name: max(value, getattr(on_cache, name)) for name, value in before}
        self._before = Total(**most)
        for one in spending:
            one.on_change = self._write_fast

    @property
    def has_earlier_answers(self) -> bool:
        """Whether a server answered when the command was run before."""
        return self._before.prompt_tokens + self._before.completion_tokens > 0

    @property
    def total(self) -> Total:
        """Everything that was spent, now included."""
        now = [one.spent for one in self._spending]
        sums = {
            name: value + sum(getattr(one, name) for one in now) for name, value in self._before
        }
        return Total(**sums)

    def write(self) -> None:
        """Write the total down; nothing when no server is asked."""
        if self._spending:
            with self._lock:
                write_atomically(self._path, self.total.model_dump_json() + "\n")

    def close(self) -> None:
        """Write the total down for the last time: what is spent from now on is another's."""
        for one in self._spending:
            one.on_change = None
        self.write()

    def _write_fast(self) -> None:
        """The same within microseconds: kept when the process is killed, if not when the machine
        is. A disk that is full stops the run elsewhere.
        """
        draft = self._path.with_name(f"{SPENT}.part")
        with self._lock, suppress(OSError):
            draft.unlink(missing_ok=True)  # a link of that name is not written through
            with draft.open("x", encoding="utf-8") as file:
                file.write(self.total.model_dump_json() + "\n")
            draft.replace(self._path)


def _read_cache(folder: Path) -> Total:
    """What the answers in the response cache in the folder came to."""
    path = find_response_cache(folder)
    if not path.is_file() or not path.stat().st_size:
        return Total()
    calls, prompt, completion = ResponseCache(path, read_only=True).count_spent()
    return Total(calls=calls, attempts=calls, prompt_tokens=prompt, completion_tokens=completion)


def read_total(folder: Path) -> Total:
    """What the ledger of a folder says, or zeros. RunError for a file that is none."""
    path = folder / SPENT
    if not path.exists():
        return Total()
    try:
        return Total.model_validate(
            parse_json(read_bytes(path, max_bytes=_MAX_BYTES, error=RunError))
        )
    except (ValidationError, ValueError) as error:
        if isinstance(error, RunError):
            raise
        raise RunError(
            f"{path}: no count of what was spent. Remove it: the counts begin anew, and nothing"
            " else is lost."
        ) from None
