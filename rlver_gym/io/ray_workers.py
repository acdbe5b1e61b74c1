"""Work spread over a Ray cluster whose workers may be killed. Alone knows Ray; no dialogues."""

import logging
import os
import pickle
import socket
import sys
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, NamedTuple, Protocol

from rlver_gym.io.errors import RlverError, RunError, needs_extra
from rlver_gym.io.terminal import one_line

LOCAL = "local"
"""The address of a cluster that is started on this machine, and ends with the run."""
_CONNECT_S = 5.0
_START_S = 300.0
"""How long to wait while there is no worker at all."""
_MAX_DEATHS = 5
"""So many workers may die over the same item, or before they have begun."""


class Holder(Protocol):
    """A worker: made in its process, and called by as many threads as it has items at once."""

    def learn(self, news: Any) -> None:
        """Take in what the driver's `news` gave."""
        ...

    def hold(self, item: Any) -> Any:
        """The result of an item. An RlverError stops the run."""
        ...

    def collect(self) -> Any:
        """What else the driver has to know since the last call, before the results that follow."""
        ...


@contextmanager
def open_cluster(address: str, workers: int | None = None) -> Iterator[int]:
    """Join the cluster at HOST:PORT ("auto": the one of this machine; "local": one that is started
    now and ends with the block), unless this process has joined one before. Gives how many workers
    there are to be: `workers`, or one for each of its CPUs.

    RlverError without Ray; RunError when no cluster is there, or a smaller one.
    """
    ray = _import_ray()
    if ray.is_initialized():
        yield _count_workers(ray, workers)
        return
    _check_address(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options = {"num_cpus": workers, "include_dashboard": False} if address == LOCAL else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise RunError(
            f"no Ray cluster can be joined at {address} ({one_line(str(error), max_chars=300)})."
            " Has this machine its token (RAY_AUTH_TOKEN) and the same version of Ray?"
        ) from None
    try:
        yield _count_workers(ray, workers)
    finally:
        ray.shutdown()


def _import_ray() -> Any:
    with needs_extra("ray"):
        return import_module("ray")


def _check_address(address: str) -> None:
    """RunError where nobody listens: Ray itself would try for a minute, and then end the process.

    Nor for Ray Client (ray://), whose driver is no part of the cluster.
    """
    if address in (LOCAL, "auto"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise RunError(
            f"{address!r} is no address of a Ray cluster: HOST:PORT as `ray start --head` prints"
            f" it, auto, or {LOCAL}. The command has to run on a machine of the cluster."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise RunError(
            f"nobody answers at {address} ({error}). Start a Ray cluster with `ray start --head`,"
            f" or take {LOCAL} for one on this machine."
        ) from None


def _count_workers(ray: Any, wanted: int | None) -> int:
    cpus = int(ray.cluster_resources().get("CPU", 0))
    if cpus < (wanted or 1):
        raise RunError(f"the Ray cluster has {cpus} CPUs; {wanted or 1} workers need one each.")
    return wanted or cpus


def _pickle(make: Callable[[], Holder]) -> bytes:
    try:
        return import_module("ray.cloudpickle").dumps(make)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise RunError(
            "something of your own cannot be sent to workers"
            f" ({one_line(str(error), max_chars=300)}). Name a user or an agent (MODULE:NAME), or"
            " let what you made leave locks, files and connections out of its pickle."
        ) from error


class _Outcome(NamedTuple):
    """What came of a call: a result or an error."""

    number: int = -1
    """In the order in which the worker finished its items, from 0; -1 of other calls."""
    result: Any = None
    collected: Any = None
    error: BaseException | None = None


class _Actor:
    """A worker's process. Its errors come back as values: Ray would log their words."""

    def __init__(self, folder: str, path: list[str], make: bytes) -> None:
        if Path(folder).is_dir():
            os.chdir(folder)
        sys.path += [place for place in path if place not in sys.path]
        self._make, self._news, self._lock, self._numbers = make, None, Lock(), count()

    def start(self) -> _Outcome:
        try:
            self._holder: Holder = pickle.loads(self._make)()
        except RlverError as error:
            return _Outcome(error=error.with_traceback(None))
        return _Outcome()

    def hold(self, item: Any, news: list[Any]) -> _Outcome:
        try:
            with self._lock:
                if news != self._news:
                    self._holder.learn(_import_ray().get(news[0]))
                    self._news = news
            result, failure = self._holder.hold(item), None
        except RlverError as error:
            result, failure = None, error.with_traceback(None)
        with self._lock:
            return _Outcome(next(self._numbers), result, self._holder.collect(), failure)


class _Task(NamedTuple):
    """An item, by the order in which it was drawn."""

    serial: int
    item: Any


_START = _Task(-1, None)
"""Stands for the start of a worker."""


@dataclass(eq=False)
class _Seat:
    """A worker, as the driver sees it."""

    actor: Any
    waiting: deque[_Task] = field(default_factory=deque)
    """This worker's, and not begun."""
    under_way: dict[int, _Task] = field(default_factory=dict)
    """By the number of the call."""
    finished: dict[int, tuple[int, _Outcome]] = field(default_factory=dict)
    """Calls whose outcome waits for an earlier one of this worker, by the outcome's number."""
    num_taken: int = 0
    is_ready: bool = False


class Workers:
    """Holders in the cluster that this process has joined."""

    def __init__(
        self,
        make: Callable[[], Holder],
        num_workers: int,
        at_once: int,
        news: Callable[[], Any] = lambda: None,
        *,
        queue: int | None = None,
    ) -> None:
        """`make` is pickled, and called in each worker's process. `at_once`: items that a worker
        holds at the same time. `news`: what a worker has to know first; asked at the beginning of
        each `map` and whenever a worker has died, and then told to all. `queue`: items that wait at
        a worker for those that it holds; by default one where it holds one at a time.

        RunError when `make` cannot be pickled.
        """
        self._ray = _import_ray()
        self._num_workers, self._news = num_workers, news
        self._places = at_once + (int(at_once == 1) if queue is None else queue)
        actor = self._ray.remote(_Actor).options(num_cpus=1, max_concurrency=at_once)
        pickled = _pickle(make)
        self._begin_actor = lambda: actor.remote(os.getcwd(), sys.path, pickled)
        self._seats: list[_Seat] = []
        self._calls, self._serials = count(), count()
        self._done: SimpleQueue[tuple[_Seat, int, Future[_Outcome]]] = SimpleQueue()
        self._groups: Iterator[Sequence[Any]] = iter(())
        self._lost: deque[list[_Task]] = deque()
        self._deaths: Counter[int] = Counter()
        self._error: BaseException | None = None

    def map(self, groups: Iterable[Sequence[Any]]) -> Generator[tuple[Any, Any], None, None]:
        """The result of every item, and what its worker had collected, in the order in which they
        come; None for an item that raised. The items of a group go to one worker, a group is drawn
        when there is place for it.

        A worker that dies is replaced, and what it had under way is begun anew. When an item
        raises, nothing more is begun, what is under way is finished, and the error comes at the
        end. RunError when workers die again and again. The workers stay for another call, once all
        results are taken, until `close`.
        """
        self._groups, self._told = iter(groups), [self._ray.put(self._news())]
        for _ in range(self._num_workers - len(self._seats)):
            self._begin_worker()
        while self._assign():
            seat, call, future = self._wait()
            if call in seat.under_way:  # else its worker is taken for dead
                yield from self._receive(seat, call, future)
        if self._error:
            raise self._error

    def close(self) -> None:
        """End the workers."""
        for seat in self._seats:
            self._ray.kill(seat.actor)

    def stop(self, error: Exception) -> None:
        """Begin nothing more; `map` raises the error in the end if something is left out."""
        is_left = any(seat.waiting for seat in self._seats) or self._lost
        if is_left or next(self._groups, None) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._groups = iter(())
        self._lost.clear()
        for seat in self._seats:
            seat.waiting.clear()

    def _begin_worker(self) -> None:
        seat = _Seat(self._begin_actor())
        self._seats.append(seat)
        self._call(seat, _START, seat.actor.start.remote())

    def _call(self, seat: _Seat, task: _Task, reference: Any) -> None:
        call = next(self._calls)
        seat.under_way[call] = task
        done = self._done
        reference.future().add_done_callback(lambda future: done.put((seat, call, future)))

    def _assign(self) -> bool:
        """Give each worker in turn another item while it has place; whether to go on."""
        ready = [seat for seat in self._seats if seat.is_ready]
        free = [seat for seat in ready if len(seat.under_way) < self._places]
        while free:
            given = [seat for seat in free if self._give_item(seat)]
            free = [seat for seat in given if len(seat.under_way) < self._places]
        return any(seat.under_way for seat in ready) or not (ready or self._error)

    def _give_item(self, seat: _Seat) -> bool:
        if not seat.waiting and self._lost:
            seat.waiting.extend(self._lost.popleft())
        while not seat.waiting:
            if (group := next(self._groups, None)) is None:
                return False
            seat.waiting.extend(_Task(next(self._serials), item) for item in group)
        task = seat.waiting.popleft()
        self._call(seat, task, seat.actor.hold.remote(task.item, self._told))
        return True

    def _wait(self) -> tuple[_Seat, int, Future[_Outcome]]:
        while True:
            try:
                return self._done.get(timeout=_START_S)
            except Empty:
                if not any(seat.is_ready for seat in self._seats):
                    raise RunError(
                        f"no worker has begun for {_START_S:.0f} s: are the CPUs of the Ray cluster"
                        " taken? What was finished is kept."
                    ) from None

    def _receive(
        self, seat: _Seat, call: int, future: Future[_Outcome]
    ) -> Iterator[tuple[Any, Any]]:
        """What a call brought, and those that waited for it."""
        exceptions, error = self._ray.exceptions, future.exception()
        is_death = isinstance(error, exceptions.RayError)
        if error and is_death and not isinstance(error, exceptions.RayTaskError):
            self._bury(seat, error)
            return
        outcome = _Outcome(error=error) if error else future.result()
        seat.finished[outcome.number] = call, outcome
        while seat.num_taken in seat.finished or -1 in seat.finished:
            number = -1 if -1 in seat.finished else seat.num_taken
            call, outcome = seat.finished.pop(number)
            seat.num_taken += number >= 0
            task = seat.under_way.pop(call)
            if task is not _START:
                yield outcome.result, outcome.collected
            elif not outcome.error:
                seat.is_ready, self._deaths[_START.serial] = True, 0
            elif not isinstance(outcome.error, RlverError):
                why = one_line(str(outcome.error), max_chars=1000)
                self._fail(
                    RunError(f"a worker cannot begin. Has its machine the same rlver-gym? {why}")
                )
            if outcome.error:
                self._fail(outcome.error)

    def _bury(self, seat: _Seat, error: BaseException) -> None:
        """A worker has died: begin another one, and its items anew."""
        self._seats.remove(seat)
        self._ray.kill(seat.actor)
        lost = [*seat.under_way.values()]
        seat.under_way.clear()
        self._deaths.update(task.serial for task in lost)
        if any(self._deaths[task.serial] >= _MAX_DEATHS for task in lost):
            why = one_line(str(error), max_chars=300)
            self._fail(RunError(f"workers die again and again: {why} What was finished is kept."))
        if self._error:
            return
        self._lost.append([*(task for task in lost if task is not _START), *seat.waiting])
        self._told = [self._ray.put(self._news())]
        self._begin_worker()
