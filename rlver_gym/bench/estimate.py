"""What a benchmark with chat models will ask for, before it asks: requests, tokens and money."""

from collections.abc import Sequence
from typing import NamedTuple

from rlver_gym.agents import asks_server
from rlver_gym.bench.plan import BenchPlan, Case
from rlver_gym.llm_client.spending import Spent, money

_USER_PROMPT, _USER_PROMPT_A_TURN, _USER_ANSWER = 1_900, 80, 150
"""Tokens of one request of the LLM user in English: at the first turn, more for each turn of the dialogue on average, and of its answer."""
_AGENT_PROMPT, _AGENT_PROMPT_A_TURN, _AGENT_ANSWER = 100, 70, 100
"""The same for an agent."""


class Estimate(NamedTuple):
    """At most as many requests, when every dialogue uses all of its turns; tokens are a guess, within a factor of two."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    money: float | None
    """In the currency of the prices; None without prices."""

    def __str__(self) -> str:
        cost = "" if self.money is None else f", about {self.money:,.2f} (your currency) by the prices given"
        tokens = (self.prompt_tokens + self.completion_tokens) / 1e6
        return f"at most {self.calls:,} requests, about {tokens:,.2f} million tokens{cost}"


def estimate(plan: BenchPlan, cases: Sequence[Case]) -> Estimate:
    """What these dialogues of the plan will ask chat servers for, if nothing is on a tape yet."""
    turns = plan.card.turns
    by_user = len(cases) * (_calls_to_open(plan) + turns * _calls_a_turn(plan)) if asks_server(plan.user) else 0
    by_agents = sum(asks_server(case.agent) for case in cases) * turns
    prompt = by_user * (_USER_PROMPT + _USER_PROMPT_A_TURN * turns)
    prompt += by_agents * (_AGENT_PROMPT + _AGENT_PROMPT_A_TURN * turns)
    completion = by_user * _USER_ANSWER + by_agents * _AGENT_ANSWER
    prices = plan.chat.prices
    cost = money(Spent(prompt_tokens=prompt, completion_tokens=completion), prices) if prices else None
    return Estimate(by_user + by_agents, prompt, completion, cost)


def _calls_to_open(plan: BenchPlan) -> int:
    """Requests of the user for its first words."""
    return 0 if plan.user_options.get("opening") == "card" else 1


def _calls_a_turn(plan: BenchPlan) -> int:
    """Requests of the user at each turn: so many judgements, and a reply of its own unless one request does both."""
    samples, calls = plan.user_options.get("samples", 1), plan.user_options.get("calls", 2)
    return (samples if isinstance(samples, int) else 1) + (0 if calls == 1 else 1)
