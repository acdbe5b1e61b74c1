"""What a benchmark with chat models will ask for, and has asked for: requests, tokens, money."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from rlver_gym.bench.plan import BenchPlan
from rlver_gym.environment.episode import Case
from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.llm_client.spending import Spent, money
from rlver_gym.util.model_names import uses_server
from rlver_gym.util.terminal import format_count

_USER_PROMPT, _USER_PROMPT_A_TURN, _USER_ANSWER = 3_300, 80, 130
"""Tokens of the LLM user's requests, those for each turn more, and those of its answer."""
_JUDGED_PROMPT, _JUDGED_ANSWER = 5_300, 110
"""Tokens of a request that judges several replies, and of a reply's judgement in the answer."""
_AGENT_PROMPT, _AGENT_PROMPT_A_TURN, _AGENT_ANSWER = 100, 70, 100
"""The same for an agent."""


class Estimate(NamedTuple):
    """At most so many requests, if all turns are used; tokens within a factor of two."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    money: float | None
    """In the currency of the prices; None without prices."""

    @classmethod
    def of(cls, calls: int, prompt: int, completion: int, settings: ChatSettings) -> Self:
        spent = Spent(prompt_tokens=prompt, completion_tokens=completion)
        return cls(
            calls, prompt, completion, money(spent, settings.prices) if settings.prices else None
        )

    def __str__(self) -> str:
        cost = (
            ""
            if self.money is None
            else f", about {self.money:,.2f} (your currency) by the prices given"
        )
        tokens = (self.prompt_tokens + self.completion_tokens) / 1e6
        calls = format_count(self.calls, "request")
        return f"at most {calls}, about {tokens:,.2f} million tokens{cost}"


def estimate_reading(requests: int, replies: int, settings: ChatSettings) -> Estimate:
    """What somebody behind a server is asked for who judges so many replies in so many requests."""
    return Estimate.of(requests, requests * _JUDGED_PROMPT, replies * _JUDGED_ANSWER, settings)


def estimate_requests_and_tokens(
    plan: BenchPlan, cases: Sequence[Case], turns: int | None = None
) -> Estimate:
    """What these dialogues, of so many turns (None: all), will ask chat servers for, uncached."""
    turns = turns or plan.card.turns
    by_user = len(cases) * _count_user_calls(plan, turns) if uses_server(plan.user) else 0
    by_agents = sum(uses_server(case.agent) for case in cases) * turns
    prompt = by_user * (_USER_PROMPT + _USER_PROMPT_A_TURN * turns)
    prompt += by_agents * (_AGENT_PROMPT + _AGENT_PROMPT_A_TURN * turns)
    completion = by_user * _USER_ANSWER + by_agents * _AGENT_ANSWER
    return Estimate.of(by_user + by_agents, prompt, completion, plan.chat)


def _count_user_calls(plan: BenchPlan, turns: int) -> int:
    """Of a dialogue."""
    options = plan.user_options
    samples, speaks = options.get("samples", 1), options.get("speaker") != "embedded"
    opening = speaks and options.get("opening") != "card"
    by_turn = (samples if isinstance(samples, int) else 1) + (speaks and options.get("calls") != 1)
    return opening + turns * by_turn


def read_response_cache_spending(path: Path | None) -> Spent:
    if not path or not path.is_file() or not path.stat().st_size:
        return Spent()
    calls, prompt, completion = ResponseCache(path, read_only=True).count_spent()
    return Spent(calls, calls, prompt, completion)
