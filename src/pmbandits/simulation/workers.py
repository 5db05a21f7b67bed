"""Workers: they play the trials that are missing in slices of half a second, in threads, processes or on a cluster."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits.arms import Bandit
from pmbandits.simulation.assemble import Results
from pmbandits.simulation.journal import FinishedTrials, Journal, encode_trials, join_trials
from pmbandits.simulation.lanes import LanePlayer, can_play_in_lanes
from pmbandits.simulation.prepare import Experiment, PolicyAtHorizon
from pmbandits.simulation.progress import ProgressBar
from pmbandits.simulation.python_policy import PythonPlayer, PythonPolicy
from pmbandits.simulation.timeline import Timeline
from pmbandits.simulation.trial import PerSegmentPlayer, Player


def resolve_n_jobs(n_jobs: int | None) -> int:
    """The number of workers: as given, or one for each core."""
    if n_jobs is None or n_jobs == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _validation.check_whole_number("n_jobs", n_jobs, 1)


@dataclass(frozen=True)
class Task:
    """Trials of one policy at one horizon, as they are sent to a worker."""

    run_key: str
    number: int
    entry: PolicyAtHorizon = field(repr=False)
    timeline: Timeline = field(repr=False)
    seed: int
    trials: tuple[int, ...]


AnyPlayer = Player | LanePlayer | PythonPlayer | PerSegmentPlayer
LEAST_LANES = 8  # fewer trials than this are played one by one
TIME_SLICE = 0.5  # seconds after which a worker hands over the trials that it has finished
_IDLE_PLAYERS: dict[str, list[AnyPlayer]] = {}  # players between two tasks keep their tables of radii
_MAX_IDLE_RUNS = 1  # runs whose players are kept: a table of radii is as long as the run


class TaskFailed(Exception):
    """A trial of a task failed: holds the trials that finished before it, and the error."""

    def __init__(self, finished: FinishedTrials, error: Exception) -> None:
        super().__init__(finished, error)
        self.finished, self.error = finished, error


def make_trial_player(
    entry: PolicyAtHorizon, timeline: Timeline | Bandit, seed: int, checkpoints: NDArray[np.int64]
) -> AnyPlayer:
    """Make the object that plays trials of a policy: compiled, one by one or many at once, or in plain Python."""
    timeline = Timeline(timeline) if isinstance(timeline, Bandit) else timeline
    if entry.per_segment:
        return PerSegmentPlayer(entry.per_segment, seed, checkpoints, timeline)
    if isinstance(entry.policy, PythonPolicy):
        return PythonPlayer(entry.policy, timeline, seed, checkpoints)
    if can_play_in_lanes(entry.policy, timeline):
        return LanePlayer(entry.policy, timeline.bandit, seed, checkpoints, timeline)
    return Player(entry.policy, timeline.bandit, seed, checkpoints, timeline)


def _play_some_trials(player: AnyPlayer, number: int, trials: Sequence[int]) -> FinishedTrials:
    """Play the first of some trials, or as many as the player plays at once."""
    if isinstance(player, LanePlayer) and len(trials) >= LEAST_LANES:
        found = player.play_in_lanes(number, trials[: player.n_lanes])
        if found is not None:
            return found
    one = player.play(trials[0])
    rows = np.concatenate((one.pulls, one.period_ends)).reshape(1, -1), one.mixture.reshape(1, -1), one.ends[None]
    return FinishedTrials(number, np.array(trials[:1], dtype=np.int64), np.array([one.seconds]), *rows)


def play_trials_of_task(task: Task) -> FinishedTrials:
    """Play the first trials of a task, one at least, for about :data:`TIME_SLICE`: what a worker does.

    It ends before a trial that would take longer, so that no finished trial waits for another to be written to disk.
    """
    idle = _IDLE_PLAYERS.get(task.run_key)
    player = idle.pop() if idle else make_trial_player(task.entry, task.timeline, task.seed, task.entry.checkpoints)
    finished: list[FinishedTrials] = []
    start = now = time.monotonic()
    longest, done = 0.0, 0
    while done < len(task.trials):
        try:
            finished.append(_play_some_trials(player, task.number, task.trials[done:]))
        except Exception as error:
            if finished:
                raise TaskFailed(join_trials(finished), error) from error
            raise
        done += finished[-1].size
        before, now = now, time.monotonic()
        longest = max(longest, now - before)
        if now - start + longest > TIME_SLICE:
            break
    for other in list(_IDLE_PLAYERS):  # a copy: other threads may play other runs
        if len(_IDLE_PLAYERS) >= _MAX_IDLE_RUNS and task.run_key not in _IDLE_PLAYERS:
            _IDLE_PLAYERS.pop(other, None)
    _IDLE_PLAYERS.setdefault(task.run_key, []).append(player)
    return join_trials(finished)


def numbered_entries(experiments: Sequence[Experiment]) -> list[tuple[Experiment, PolicyAtHorizon]]:
    """Every policy at every horizon of all experiments; its place here is its number in the journal."""
    return [(experiment, entry) for experiment in experiments for entry in experiment.entries]


def _pending_tasks(experiments: Sequence[Experiment], known: Results, jobs: int) -> list[Task]:
    """Return tasks for all trials that are missing, some for each policy, longest horizons first."""
    tasks = []
    for number, (experiment, entry) in enumerate(numbered_entries(experiments)):
        finished = known.trials_of(number)
        missing = [trial for trial in experiment.trials if trial not in finished]
        size = max(1, len(missing) // (2 * jobs))
        for at in range(0, len(missing), size):
            part = tuple(missing[at : at + size])
            run_key = f"{experiment.identity_hash}/{number}"
            tasks.append(Task(run_key, number, entry, experiment.timeline, experiment.seed, part))
    return sorted(tasks, key=lambda task: -task.entry.horizon)


def play_missing_trials(
    experiments: Sequence[Experiment],
    known: Results,
    jobs: int,
    backend: str,
    progress: bool | None,
    journal: Journal | None,
) -> Results:
    """Play the trials that are not ``known`` yet, and add them to it; each is journalled when it is finished."""
    tasks, entries = _pending_tasks(experiments, known, jobs), numbered_entries(experiments)
    done = sum(len(known.trials_of(number)) * entry.horizon for number, (_, entry) in enumerate(entries))
    plain = any(isinstance(entry.policy, PythonPolicy) for _, entry in entries)
    label = f"simulate{' (plain Python)' if plain else ''}"

    def store(finished: FinishedTrials) -> None:
        if journal is not None:
            journal.append(encode_trials(finished))
        known.add(finished)
        bar.advance(finished.size * entries[finished.entry][1].horizon)

    with ProgressBar(sum(x.n_rounds_in_all for x in experiments), done, shown=progress, label=label) as bar:
        try:
            for finished in _run_tasks(tasks, jobs, backend):
                store(finished)
        except TaskFailed as stopped:
            store(stopped.finished)
            cause = stopped.error.__cause__ or stopped.__cause__  # from another process: its traceback
            raise stopped.error from (None if cause is stopped.error else cause)
        finally:
            for run_key in {task.run_key for task in tasks}:
                _IDLE_PLAYERS.pop(run_key, None)
    return known


def _run_tasks(tasks: Sequence[Task], jobs: int, backend: str) -> Iterator[FinishedTrials]:
    """Run the tasks on the workers and yield their trials as they finish; what a worker leaves is handed out again."""
    queue = deque(tasks)
    if not queue:
        return
    if backend != "threads":
        _check_picklable(tasks)
    if backend != "dask" and (jobs == 1 or (len(queue) == 1 and len(queue[0].trials) == 1)):
        while queue:
            task = queue.popleft()
            yield (finished := play_trials_of_task(task))
            _requeue_rest_of_task(queue, task, finished.size)
        return
    with _task_starter_and_queue_size(backend, jobs) as (submit, at_once):
        running: dict[Future[FinishedTrials], Task] = {}
        while queue or running:
            while queue and len(running) < at_once:
                task = queue.popleft()
                running[submit(play_trials_of_task, task)] = task
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                yield (finished := future.result())
                _requeue_rest_of_task(queue, task, finished.size)


def _requeue_rest_of_task(queue: deque[Task], task: Task, done: int) -> None:
    """Put what is left of a task first, because its worker has all that it needs; the last one is split in two."""
    left = task.trials[done:]
    half = len(left) if queue else (len(left) + 1) // 2
    queue.extendleft(replace(task, trials=part) for part in (left[half:], left[:half]) if part)


@contextmanager
def _task_starter_and_queue_size(
    backend: str, jobs: int
) -> Iterator[tuple[Callable[..., Future[FinishedTrials]], int]]:
    """What starts a task on a worker, and how many tasks to start at once; who waits no longer leaves them behind."""
    if backend == "threads":
        yield _start_thread, jobs
    elif backend == "dask":
        client = _dask_client()
        with client.get_executor(pure=False) as pool:
            yield pool.submit, 2 * max(1, sum(client.ncores().values()))
    else:
        from joblib.externals.loky import get_reusable_executor

        pool = get_reusable_executor(max_workers=jobs)
        try:
            yield pool.submit, 2 * jobs
        except BaseException:
            pool.shutdown(kill_workers=True)
            raise


def _start_thread(function: Callable[[Task], FinishedTrials], task: Task) -> Future[FinishedTrials]:
    """Run a function in a thread of its own, which does not keep the process alive."""
    future: Future[FinishedTrials] = Future()

    def work() -> None:
        try:
            future.set_result(function(task))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=work, daemon=True).start()
    return future


def _check_picklable(tasks: Sequence[Task]) -> None:
    """Raise an error in one sentence if a plain Python policy cannot be sent to another process."""
    from joblib.externals.loky.backend.reduction import dumps

    for policy in {task.number: task.entry.policy for task in tasks}.values():
        if isinstance(policy, PythonPolicy):
            try:
                dumps(policy.factory)
            except Exception as error:
                raise ValueError(
                    f"{policy.label} cannot be sent to another process ({type(error).__name__}: {error}); define it at "
                    "the top of a module, without open files, locks or threads in it, or take backend='threads'."
                ) from None


def _dask_client() -> Any:
    try:
        from distributed import get_client
    except ImportError:
        raise ImportError("backend='dask' needs the extra: pip install 'pmbandits[distributed]'.") from None
    try:
        return get_client()
    except ValueError:
        raise ValueError(
            "backend='dask' plays on an existing cluster: open a dask.distributed.Client first, "
            "for example Client('tcp://scheduler:8786') or Client() for this machine."
        ) from None
