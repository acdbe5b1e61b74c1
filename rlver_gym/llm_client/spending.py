"""What was asked for and what it cost, counted while it happens."""

import threading
from collections.abc import Callable
from typing import NamedTuple

from rlver_gym.io.errors import BudgetSpent
from rlver_gym.io.terminal import format_count
from rlver_gym.llm_client.settings import Budget, Prices


class Spent(NamedTuple):
    """The counts at one moment."""

    calls: int = 0
    """Requests that were sent, however often each was tried."""
    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """As the server counted them, or estimated where it does not."""
    estimated: int = 0
    """Answers whose tokens are an estimate."""

    @property
    def tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


class Spending:
    """Counts calls, attempts, tokens and money, and knows when a budget is used up.

    Safe to use from several threads.
    """

    def __init__(self, prices: Prices | None = None, budget: Budget | None = None) -> None:
        """Without prices no money is counted; without a budget nothing is refused."""
        self.prices = prices
        self.budget = budget or Budget()
        self.on_change: Callable[[], None] | None = None
        """Called after every count, on whichever thread counts."""
        self._lock = threading.Lock()
        self._spent = Spent()

    @property
    def spent(self) -> Spent:
        """The counts so far."""
        return self._spent

    @property
    def money(self) -> float | None:
        """What it cost so far; None when no prices were given."""
        return money(self._spent, self.prices) if self.prices else None

    def attempt(self, first: bool) -> None:
        """Count one more attempt, the `first` one of its call or a later one.

        BudgetSpent when there is no budget left for it.
        """
        with self._lock:
            self._check_budget(first)
            self._spent = self._spent._replace(
                calls=self._spent.calls + first, attempts=self._spent.attempts + 1
            )
        self._tell()

    def add(self, spent: Spent) -> None:
        """Count what another process has spent. BudgetSpent when nothing is left after that."""
        with self._lock:
            self._spent = Spent(*map(sum, zip(self._spent, spent, strict=True)))
            self._check_budget(first=True)

    def tokens(self, prompt: int, completion: int, *, is_estimate: bool = False) -> None:
        """Count the tokens of one answer, useful or not."""
        with self._lock:
            spent = self._spent
            self._spent = spent._replace(
                prompt_tokens=spent.prompt_tokens + prompt,
                completion_tokens=spent.completion_tokens + completion,
                estimated=spent.estimated + is_estimate,
            )
        self._tell()

    def reset(self) -> None:
        """Begin again from zero, as for a new run in the same process."""
        with self._lock:
            self._spent = Spent()

    def summary(self) -> str:
        """The counts in one line, for people."""
        spent = self._spent
        parts = [format_count(spent.calls, "call"), format_count(spent.tokens, "token")]
        if spent.attempts > spent.calls:
            parts[0] += f" ({spent.attempts - spent.calls:,} repeated)"
        if self.money is not None:
            parts.append(f"cost {self.money:,.4f} (your currency)")
        if spent.estimated:
            parts.append(
                f"tokens of {format_count(spent.estimated, 'answer')} estimated, since the server"
                " does not count them"
            )
        return ", ".join(parts)

    def _tell(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def _check_budget(self, first: bool) -> None:
        if first and self.budget.calls is not None and self._spent.calls >= self.budget.calls:
            raise self._budget_error(format_count(self.budget.calls, "call"))
        if self.budget.tokens is not None and self._spent.tokens >= self.budget.tokens:
            raise self._budget_error(format_count(self.budget.tokens, "token"))
        if self.budget.money is not None and (self.money or 0) >= self.budget.money:
            raise self._budget_error(f"{self.budget.money:g} (your currency)")

    def _budget_error(self, limit: str) -> BudgetSpent:
        return BudgetSpent(
            f"the budget of {limit} is used up: {self.summary()}. What is finished is kept; raise"
            " the budget and run again to go on."
        )


def money(spent: Spent, prices: Prices) -> float:
    """What these tokens cost at these prices (per million)."""
    return (spent.prompt_tokens * prices.prompt + spent.completion_tokens * prices.completion) / 1e6


def estimate_tokens(*texts: str) -> int:
    """About how many tokens these are, rather more than less: one for three bytes, and at least
    one.
    """
    return max(1, sum(len(text.encode("utf-8", "replace")) for text in texts) // 3)
