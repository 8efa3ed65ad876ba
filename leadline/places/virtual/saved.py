"""Worlds: guests that are booted and warmed once, saved, and forked for every treatment; several at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import PriorityQueue

from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import Level
from leadline.places.guest.machine import Saved
from leadline.places.guest.results import Outcome

Levels = tuple[tuple[str, Level], ...]
_AHEAD = 2  # worlds that are warm, or being warmed, at the same time: their memory is on the disk


def levels_of(levels: Mapping[str, Level]) -> Levels:
    return tuple(sorted(levels.items()))


@dataclass(frozen=True)
class Past:
    """What forks of one saved guest share: the world's seed, the levels of its boot and those of its services."""

    seed: int
    boot: Levels
    services: Levels


@dataclass(frozen=True)
class Order:
    """A fork: of which past, under which levels of the running kernel and of its load."""

    past: Past
    live: Levels
    load: Levels = ()


@dataclass
class _World:
    saved: Future[Saved]
    futures: dict[Order, Future[Outcome]] = field(default_factory=dict)


class Worlds:
    """Runs guests in threads, so many at the same time.

    ``warm`` boots and warms a past into a directory and saves it, ``fork`` runs one order from it; both raise
    TrialFailure; ``remove`` takes a saved guest away. Directories are below ``home``.
    """

    def __init__(
        self,
        home: Path,
        parallel: int,
        warm: Callable[[Past, Path], Saved],
        fork: Callable[[Saved, Order, Path], Outcome],
        remove: Callable[[Saved], None],
    ) -> None:
        self._home, self._warm, self._fork, self._remove = home, warm, fork, remove
        self._parallel = parallel
        self._pool: ThreadPoolExecutor | None = None  # from the first that is asked for
        self._worlds: dict[Past, _World] = {}
        self._lock = threading.Lock()
        self._number, self._asked = 0, count()
        self._ready: PriorityQueue[tuple[int, Saved, Order, Future[Outcome]]] = PriorityQueue()

    def run_ahead(self, orders: Iterable[Order]) -> None:
        """These forks will be asked for, in this order; begin with what is free."""
        pasts: set[Past] = set()
        for order in orders:
            pasts.add(order.past)
            if len(pasts) > _AHEAD:
                break
            self._ask(order)

    def result(self, order: Order) -> tuple[Saved, Outcome]:
        """Waits for it; it is run anew when it is asked for again. Raises TrialFailure."""
        world, future = self._ask(order)
        try:
            return world.saved.result(), future.result()
        except CancelledError:
            raise TrialFailure(FailureClass.INTERRUPTED, "the guests were ended") from None
        finally:
            with self._lock:
                world.futures.pop(order, None)
                if world.saved.done() and (world.saved.cancelled() or world.saved.exception() is not None):
                    self._worlds.pop(order.past, None)

    def keep_only(self, pasts: Iterable[Past]) -> None:
        """Remove the other saved guests; forks of them that run come to their end first."""
        pasts_kept = set(pasts)
        with self._lock:
            gone = [self._worlds.pop(past) for past in list(self._worlds) if past not in pasts_kept]
        for world in gone:
            for future in world.futures.values():
                future.cancel()
            world.saved.cancel()
            if world.saved.done() and not world.saved.cancelled() and world.saved.exception() is None:
                self._remove(world.saved.result())

    def close(self, wait: bool = False) -> None:
        """No guest is begun any more, saved ones are removed; ``wait`` until those that run have ended.

        Nothing to do before the first is asked for: a run begins by ending what an earlier one left.
        """
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=True)
        self.keep_only([])

    def _ask(self, order: Order) -> tuple[_World, Future[Outcome]]:
        with self._lock:
            world = self._worlds.get(order.past)
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._parallel, thread_name_prefix="guest")
            if world is None:
                try:
                    saved = self._pool.submit(self._warm, order.past, self._directory("world"))
                except RuntimeError:  # closed
                    raise TrialFailure(FailureClass.INTERRUPTED, "the guests were ended") from None
                world = self._worlds[order.past] = _World(saved)
            future = world.futures.get(order)
            if future is None:
                future = world.futures[order] = Future()
                begun, number = future, next(self._asked)
                world.saved.add_done_callback(lambda saved: self._begin(number, saved, order, begun))
            return world, future

    def _begin(self, number: int, saved: Future[Saved], order: Order, future: Future[Outcome]) -> None:
        """The past is there, or failed; the next thread is for the fork that was asked for first of those ready."""
        if saved.cancelled():
            future.cancel()
        elif (error := saved.exception()) is not None:
            if future.set_running_or_notify_cancel():  # else the run has ended meanwhile
                future.set_exception(error)
        else:
            try:
                self._ready.put((number, saved.result(), order, future))
                assert self._pool is not None
                self._pool.submit(self._run)
            except RuntimeError:  # closed meanwhile
                future.cancel()

    def _run(self) -> None:
        _, saved, order, future = self._ready.get()
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(self._fork(saved, order, self._directory("fork")))
        except BaseException as error:  # told where the fork is asked for
            future.set_exception(error)

    def _directory(self, name: str) -> Path:
        self._number += 1
        return self._home / f"{name}-{self._number}"
