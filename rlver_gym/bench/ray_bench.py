"""A benchmark on the workers of a Ray cluster: what each of them does, and what it sends back."""

import socket
from collections.abc import Generator, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.planned import Case
from rlver_gym.bench.run import Participants, Run, count_spending
from rlver_gym.environment.episode import Episode
from rlver_gym.environment.rollout import arun_episode, run_episode
from rlver_gym.io.errors import BudgetSpent, CacheError, ChatError, RunError
from rlver_gym.io.event_loop import Worker, wait_for
from rlver_gym.io.ray_workers import LOCAL, Workers, open_cluster
from rlver_gym.llm_client.connect import use_cache
from rlver_gym.llm_client.response_cache import ResponseCache, Row, make_row
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.llm_client.spending import Spent
from rlver_gym.llm_client.values import ChatAnswer, ChatRequest

_Answers = dict[str, ChatAnswer | ChatError | CacheError]


class RelayedCache(ResponseCache):
    """A worker's part of a run's response cache, in memory: the answers that the driver knows, and
    its own, which are collected for the driver.
    """

    def __init__(self, path: Path) -> None:
        """`path`: the driver's, which names it; nothing is read or written there."""
        self.path = path
        self._answers: _Answers = {}
        self._new: list[tuple[Row, bool]] = []
        self._mutex = Lock()

    def learn(self, answers: _Answers) -> None:
        """Take in what the driver knows."""
        with self._mutex:
            self._answers |= answers

    def collect(self) -> list[tuple[Row, bool]]:
        """The rows since the last call, each with whether it replaces an earlier one."""
        with self._mutex:
            new, self._new = self._new, []
        return new

    def get(self, key: str) -> ChatAnswer | ChatError | None:
        """See `ResponseCache.get`."""
        found = self._answers.get(key)
        if isinstance(found, CacheError):
            raise found
        return found

    def put(
        self,
        request: ChatRequest,
        result: ChatAnswer | ChatError,
        *,
        server: str = "",
        overwrite: bool = False,
    ) -> ChatAnswer | ChatError:
        """See `ResponseCache.put`."""
        row = make_row(request, result, server)
        with self._mutex:
            if row.key in self._answers and not overwrite:
                return self.get(row.key) or result
            self._answers[row.key] = result
            self._new.append((row, overwrite))
        return result

    def has_answer_of(self, model: str) -> bool:
        """Whether a model has answered: the cache is a run's, and does not know which."""
        return any(isinstance(one, ChatAnswer) for one in self._answers.values())

    def close(self) -> None:
        """Nothing is open."""


class _Collected(NamedTuple):
    """What a worker of a benchmark tells beside its episodes."""

    rows: list[tuple[Row, bool]]
    spent: list[Spent]
    """By each server, since the last time."""


class CaseHolder:
    """Holds cases of a plan in a worker's process."""

    def __init__(
        self,
        plan: BenchPlan,
        chat: ChatSettings,
        agent_timeout_s: float | None,
        fingerprint: str,
    ) -> None:
        """RunError when the plan has another fingerprint here; ServerRefused without a key."""
        if plan.fingerprint != fingerprint:
            raise RunError(
                f"the worker on {socket.gethostname()} has other cards, agents, server addresses or"
                f" another rlver-gym than the command ({plan.fingerprint}, not {fingerprint})."
            )
        self._cache = RelayedCache(chat.response_cache) if chat.response_cache else None
        if self._cache:
            use_cache(self._cache)
        makers = {agent: plan.agent_maker(agent, chat) for agent in plan.agents}
        self._participants = Participants.of(plan, chat, makers, agent_timeout_s)
        self._spending = count_spending(plan, chat)
        self._collected = [Spent() for _ in self._spending]
        self._worker = Worker()

    def learn(self, news: _Answers) -> None:
        """Answers in the run's response cache."""
        if self._cache:
            self._cache.learn(news)

    def hold(self, item: tuple[Case, int | None]) -> Episode:
        """Hold the dialogue of a case; `int`: the turn from which the cache is bypassed."""
        session, agent = self._participants.prepare(*item)
        if self._participants.is_async:
            wait_for(arun_episode(session, agent, self._worker))
        else:
            run_episode(session, agent)
        return Episode.of(session, item[0].agent)

    def collect(self) -> _Collected:
        """Answers of servers, and what they cost, since the last call."""
        before, self._collected = self._collected, [one.spent for one in self._spending]
        spent = [
            Spent(*(value - old for value, old in zip(now, then, strict=True)))
            for now, then in zip(self._collected, before, strict=True)
        ]
        return _Collected(self._cache.collect() if self._cache else [], spent)


def execute_on_ray(
    run: Run, address: str = LOCAL, workers: int | None = None
) -> Generator[Episode, None, None]:
    """Hold the missing dialogues of a run on a Ray cluster, for `Run.run_missing`; see
    `open_cluster`. Where something waits for a server, each worker has `chat.concurrency` of them
    under way.

    Dialogues that may ask a server the same go to the same worker, so that it is asked once, as in
    one process. Keys are never sent: a worker reads OPENAI_API_KEY from its own environment.
    """
    plan = run.plan
    if "@" in str(plan.user_options.get("base_url", "")) or "response_cache" in plan.user_options:
        raise RunError(
            "on Ray, the user has no response cache of its own, nor an address with a"
            " password, which would"
            " be sent to the workers in clear. Give --response-cache, and set OPENAI_BASE_URL,"
            " here and on"
            " the machines of the cluster."
        )
    cache = _DriverCache(run.chat, is_used=bool(run.spending))
    groups: dict[tuple[str, int], list[tuple[Case, int | None]]] = {}
    for case in run.missing_cases:
        same = groups.setdefault((case.persona, case.seed % plan.seeds), [])
        same.append((case, run.failed_before.get(case)))
    if not groups:
        return
    participants = run.participants
    make = partial(
        CaseHolder,
        BenchPlan(**{name: getattr(plan, name) for name in BenchPlan.model_fields}),
        cache.worker_chat,
        participants.code.timeout_s,
        plan.fingerprint,
    )
    at_once = run.chat.concurrency if participants.is_async else 1
    with (
        open_cluster(address, workers) as num_workers,
        closing(Workers(make, num_workers, at_once, cache.answers)) as pool,
    ):
        for episode, collected in pool.map(groups.values()):
            if collected is None:
                continue  # the worker's own code failed, and the error comes in the end
            cache.add(collected.rows)
            for spending, spent in zip(run.spending, collected.spent, strict=True):
                try:
                    spending.add(spent)
                except BudgetSpent as error:
                    pool.stop(error)
            if episode:
                yield episode


class _DriverCache:
    """The response cache of a run, into which the answers of all workers go."""

    def __init__(self, chat: ChatSettings, is_used: bool) -> None:
        is_used &= chat.response_cache is not None and chat.cache_mode != "off"
        self._is_recording = chat.cache_mode == "record"
        mode = "auto" if self._is_recording else chat.cache_mode
        self.worker_chat = chat.model_copy(
            update={"response_cache": chat.response_cache if is_used else None, "cache_mode": mode}
        )
        """For a worker, which keeps nothing but what it collects. When recording it is told only
        what was recorded now, so that it need not be told apart.
        """
        self._cache = (
            ResponseCache(chat.response_cache, read_only=mode == "replay")
            if chat.response_cache and is_used
            else None
        )
        self._recorded: set[str] = set()

    def answers(self) -> _Answers:
        """What is on it, for workers."""
        answers: _Answers = {}
        for row in self._cache.rows() if self._cache else ():
            if not self._is_recording or row.key in self._recorded:
                try:
                    answers[row.key] = row.result()
                except CacheError as error:  # for the dialogue that asks for it
                    answers[row.key] = error
        return answers

    def add(self, rows: Iterable[tuple[Row, bool]]) -> None:
        """Write down what a worker was answered."""
        for row, is_new in rows:
            assert self._cache
            self._cache.add(row, overwrite=is_new or self._is_recording)
            self._recorded.add(row.key)
