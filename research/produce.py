"""Run experiments, several at a time: most of a first run is compiling, which one process does on one core only."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import queue
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import util
from pathlib import Path
from typing import Any, NamedTuple

from research.outcome import Context
from research.registry import Entry
from research.store import put


class Order(NamedTuple):
    """How all experiments are to be run."""

    folder: Path
    quick: bool
    seed: int
    jobs: int | None
    arms: tuple[tuple[float, float], ...] = ()
    trials: int | None = None


class Done(NamedTuple):
    """What is to be said about an experiment whose results are written."""

    name: str
    seconds: float
    verdicts: list[str]
    table: Any


Tick = Callable[[str, float], None]


def produce(entry: Entry, order: Order, tick: Tick) -> Done:
    """Run one experiment here, and write what it leaves."""
    begin = time.perf_counter()
    own = "-".join(f"{a:g},{b:g}" for a, b in order.arms) + (f"x{order.trials}" if order.trials else "")
    work = order.folder / "work" / (entry.name + (f"-{hashlib.sha256(own.encode()).hexdigest()[:12]}" if own else ""))
    context = Context(
        work, order.quick, order.seed, order.jobs, progress=False, tick=lambda share: tick(entry.name, share),
        arms=order.arms, trials=order.trials,
    )  # fmt: skip
    outcome = entry.load()(context)
    put(order.folder, outcome)
    verdicts = [str(claim.verdict) for claim in outcome.claims]
    return Done(entry.name, time.perf_counter() - begin, verdicts, outcome.notes.get("timings"))


def produce_all(wanted: list[Entry], order: Order, tick: Tick) -> Iterator[Done]:
    """Run experiments as they come to their ends; results do not depend on how many run beside each other."""
    workers = min(order.jobs or multiprocessing.cpu_count(), sum(not entry.alone for entry in wanted))
    if workers < 2:
        for entry in wanted:
            yield produce(entry, order, tick)
        return
    spawn = multiprocessing.get_context("spawn")
    todo, said = spawn.SimpleQueue(), spawn.Queue()
    team = [spawn.Process(target=_work, args=(todo, said, order), daemon=True) for _ in range(workers)]
    try:
        for worker in team:
            worker.start()
        longest = sorted(wanted, key=lambda entry: -(entry.quick_seconds if order.quick else entry.seconds))
        for batch in ([entry for entry in longest if not entry.alone], *([e] for e in longest if e.alone)):
            for entry in batch:
                todo.put(entry)
            left = len(batch)
            while left:
                news = _next(said, team)
                if isinstance(news, Done):
                    left -= 1
                    yield news
                else:
                    tick(*news)
    finally:
        for worker in team:
            _end(worker)  # what was played is in the journals
        said.close()


def _end(worker: Any) -> None:
    """Tell a worker to leave until it has left: a signal that comes just before it waits for work is not seen."""
    while worker.is_alive():
        worker.terminate()
        worker.join(1.0)


def _next(said: Any, team: list[Any]) -> Any:
    """What a worker says next; raises what it could not do."""
    while True:
        try:
            news = said.get(timeout=1.0)
        except queue.Empty:
            if all(worker.is_alive() for worker in team):
                continue
            raise ValueError(
                "a worker was killed (is there memory enough?); the same command goes on from where it was, "
                "and with --jobs 1 runs one experiment at a time."
            ) from None
        if isinstance(news, Exception):
            raise news
        return news


def _leave(*_: Any) -> None:
    """At once, but nothing that libraries share between processes is left behind."""
    util._run_finalizers(0)  # type: ignore[attr-defined]
    os._exit(0)


def _work(todo: Any, said: Any, order: Order) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this stops it
    signal.signal(signal.SIGTERM, _leave)
    while True:
        entry = todo.get()
        try:
            said.put(produce(entry, order, lambda name, share: said.put((name, share))))
        except ValueError as error:
            said.put(ValueError(str(error)))
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            said.put(RuntimeError(f"{entry.name}: {type(error).__name__}: {error}"))
