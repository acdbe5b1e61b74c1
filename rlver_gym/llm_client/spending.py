"""What was asked for and what it cost, counted while it happens."""

import threading
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
    """As the server counted them; servers that do not count leave 0."""

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

    def add(self, spent: Spent) -> None:
        """Count what another process has spent. BudgetSpent when nothing is left after that."""
        with self._lock:
            self._spent = Spent(*map(sum, zip(self._spent, spent, strict=True)))
            self._check_budget(first=True)

    def tokens(self, prompt: int, completion: int) -> None:
        """Count the tokens of one answer, useful or not."""
        with self._lock:
            spent = self._spent
            self._spent = spent._replace(
                prompt_tokens=spent.prompt_tokens + prompt,
                completion_tokens=spent.completion_tokens + completion,
            )

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
        return ", ".join(parts)

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
