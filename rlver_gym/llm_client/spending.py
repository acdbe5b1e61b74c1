"""What was asked for and what it cost, counted while it happens."""

import threading
from typing import NamedTuple

from rlver_gym.llm_client.settings import Budget, Prices
from rlver_gym.util.errors import BudgetSpent
from rlver_gym.util.terminal import format_count


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
        return self.prompt_tokens + self.completion_tokens


class Spending:
    """Counts calls, tokens and money, and knows when a budget is spent. For several threads."""

    def __init__(self, prices: Prices | None = None, budget: Budget | None = None) -> None:
        """Without prices no money is counted; without a budget nothing is refused."""
        self.prices, self.budget = prices, budget or Budget()
        self._lock = threading.Lock()
        self.spent = Spent()

    @property
    def money(self) -> float | None:
        return money(self.spent, self.prices) if self.prices else None

    def attempt(self, first: bool) -> None:
        with self._lock:
            self._check_budget(first)
            self._count(Spent(calls=int(first), attempts=1))

    def tokens(self, prompt: int, completion: int, *, is_estimate: bool = False) -> None:
        with self._lock:
            self._count(Spent(0, 0, prompt, completion, int(is_estimate)))

    def reset(self) -> None:
        with self._lock:
            self.spent = Spent()

    def summary(self) -> str:
        spent = self.spent
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

    def _count(self, more: Spent) -> None:
        self.spent = Spent(*map(sum, zip(self.spent, more, strict=True)))

    def _check_budget(self, first: bool) -> None:
        budget, limit = self.budget, ""
        if first and budget.calls is not None and self.spent.calls >= budget.calls:
            limit = format_count(budget.calls, "call")
        if budget.tokens is not None and self.spent.tokens >= budget.tokens:
            limit = format_count(budget.tokens, "token")
        if budget.money is not None and (self.money or 0) >= budget.money:
            limit = f"{budget.money:g} (your currency)"
        if limit:
            raise BudgetSpent(
                f"the budget of {limit} is used up: {self.summary()}. What is finished is kept;"
                " raise the budget and run again to go on."
            )


def money(spent: Spent, prices: Prices) -> float:
    return (spent.prompt_tokens * prices.prompt + spent.completion_tokens * prices.completion) / 1e6


def estimate_tokens(*texts: str) -> int:
    """About how many tokens these are, rather more than less: one for three bytes."""
    return max(1, sum(len(text.encode("utf-8", "replace")) for text in texts) // 3)
