"""Many trials of several policies: played in parallel, journalled, put together."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import __version__, _validation
from pmbandits._extras import import_optional
from pmbandits._files import write_atomically
from pmbandits.arms import Bandit
from pmbandits.changing import Changing
from pmbandits.constraints import Shares
from pmbandits.metrics.distortion import Distortion
from pmbandits.simulation.assemble import Results, assemble
from pmbandits.simulation.delays import Delay
from pmbandits.simulation.files import why_impossible
from pmbandits.simulation.journal import Journal, TrialResult, decode, encode
from pmbandits.simulation.policy_specs import PolicySpec
from pmbandits.simulation.prepare import Experiment, PolicyAtHorizon, prepare
from pmbandits.simulation.progress import ProgressBar
from pmbandits.simulation.python_policy import PythonPlayer, PythonPolicy
from pmbandits.simulation.run import Run
from pmbandits.simulation.timeline import Timeline
from pmbandits.simulation.trial import Player
from pmbandits.state.fields import PHASE_ENDS

BACKENDS = ("threads", "processes", "dask")


@_validation.suggests_names
def simulate(
    metric: Distortion | str,
    bandit: Bandit | Changing,
    policies: PolicySpec | Sequence[PolicySpec] | Mapping[str, PolicySpec],
    horizon: int | Sequence[int],
    trials: int | Sequence[int] = 100,
    seed: int | None = 0,
    *,
    delay: Delay = 0,
    batch: int = 1,
    schedule: Sequence[Sequence[Any]] = (),
    checkpoints: int | ArrayLike | None = None,
    shares: Shares = None,
    cost: Mapping[str, float] | None = None,
    budget: float | None = None,
    n_jobs: int | None = None,
    backend: str = "threads",
    progress: bool | None = None,
    out: str | Path | None = None,
) -> Run:
    """Play policies against known arms, in many trials, and measure their regret.

    The regret after t rounds is the utility of the best mixture minus that of the shares that were played: V(α*) −
    V(τ_t/t).

    The n-th reward of an arm in a trial depends only on (seed, trial, arm, n), and on how the arm is in that round if
    it changes. So all policies of a trial get the same rewards, and can be compared in pairs. Results do not depend on
    the number of workers or on the backend, and a trial can be run alone.

    Parameters
    ----------
    metric : what is valued: a metric, its name, or text such as ``"0.7*mean + 0.3*upper_cvar(0.9)"``. A policy that was
        made with a metric of its own plays for that one, and is scored by this one.
    bandit : the true arms, or arms that change: :class:`Changing`.
    policies : one or several, or a mapping that names them. Each is a recipe such as ``PMUCB(horizon=20_000)`` (metric,
        arms and support need not be repeated), a name such as ``"pmucb"`` (a policy that needs its horizon gets this
        one), or a function or class that makes a policy in plain Python; see below.
    horizon : how many rounds to play, or several such numbers. With several, a policy that needs its horizon plays each
        of them as a run of its own (its ``horizon`` is replaced), and an anytime policy plays one run to the longest.
    trials : how many trials, or which ones (a list of their numbers, which begin with 0).
    seed : the seed of all rewards and of the policies' own random choices. ``None`` takes a new one, which ``run.seed``
        tells.
    delay : how many rounds rewards are late. The reward of round r comes after round r + delay, so 0 means before the
        next ask. It can be a number, or a frozen ``scipy.stats`` distribution, rounded to whole rounds. It can be a
        function of a numpy ``Generator`` and a count that returns that many delays, or a mapping from arms to any of
        these. Policies get rewards in the order in which they come. Those due after the last round never come.
    batch : how many arms to ask for at once. Policies get the rewards that have come together, after each batch.
    schedule : arms that come and go, as in ``[(5000, "add", "D"), (8000, "pause", "B")]``. Each event has a number of
        rounds after which it happens, a word (``add``, ``pause``, ``resume``, ``retire``) and an arm. The bandit has
        all arms; those that are added later do not play at first. Policies learn of an event by the method of that name
        (``add_arm`` for ``add``).
    checkpoints : the rounds at which to measure, or how many of them. The default is 40, and they are spaced evenly on
        a logarithmic scale; where arms change, or come and go, they are spaced evenly. The memory that results take
        grows with trials × checkpoints.
    shares, cost, budget : limits on the shares of the arms and on what a round costs, as in :func:`oracle`. Every
        policy that has none of its own keeps them, and regret is against the best mixture within them. (A policy in
        plain Python can ask for ``limits``, and must keep them itself.)
    n_jobs : how many workers; by default one for each core.
    backend : ``"threads"`` (compiled policies run in parallel in them), ``"processes"``, or ``"dask"`` for an existing
        cluster (a ``dask.distributed.Client`` must be open; it needs the extra ``distributed``). Policies in plain
        Python run faster in parallel only with processes.
    progress : whether to show a progress bar. By default it is shown on a terminal only.
    out : a folder in which finished trials are kept at once. The same call goes on where it was stopped, however it was
        stopped, and you may ask for more trials later. The run is saved there as ``run.parquet``.

    Notes
    -----
    Where arms change, or come and go, time falls into moments in which nothing changes. The regret of a moment is
    against the best mixture of the arms that play then: V*_m − V_m(shares played in the moment). The regret after t
    rounds is the mean of this over the rounds. The column ``declared`` has V*_m − V_m(mixture) at the checkpoint, with
    the policy's own mixture. So ``declared`` shows what the policy knows, and ``regret`` what it did.

    A policy in plain Python is any object with ``ask()`` (which returns the position of an arm), ``tell(arm, reward)``
    and ``mixture`` (the shares that it takes for the best). Give the class, or a function that makes an object: every
    trial gets a new one. The class or function is given what it asks for by name: ``n_arms``, ``seed`` (the policy's
    own, a different one in every trial), ``metric``, ``names``, ``support``, ``horizon``, ``limits``. Its rewards,
    checkpoints, journal and table are the same as for all others. It is slow: some hundred thousand rounds a second,
    where the compiled ones play tens of millions. The summary says how many.

    A journal identifies such a policy by where it is defined, and by a hash of its code and of your own code that it
    uses; installed packages count with their version. If the code has changed, the folder is refused.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> bandit = pmb.Bandit.bernoulli([0.4, 0.9])
    >>> run = pmb.simulate("gini", bandit, [pmb.CIRT(), "uniform"], horizon=2000, trials=20, seed=1)
    >>> run
    Run(CIRT, Uniform; 20 trials, up to 2,000 rounds, seed 1)
    >>> run.difference("CIRT", "Uniform").mean < 0
    True

    Arms that change places after half of the rounds, with rewards that are 100 rounds late:

    >>> world = pmb.Changing.steps([(0, bandit), (1000, pmb.Bandit.bernoulli([0.9, 0.4]))])
    >>> run = pmb.simulate("gini", world, ["track", "uniform"], horizon=2000, trials=20, delay=100)
    >>> run.changes
    (1000,)

    A policy of your own, in plain Python:

    >>> class InTurn:
    ...     def __init__(self, n_arms):
    ...         self.t, self.mixture = 0, [1 / n_arms] * n_arms
    ...     def ask(self):
    ...         self.t += 1
    ...         return self.t % len(self.mixture)
    ...     def tell(self, arm, reward):
    ...         pass
    >>> pmb.simulate("gini", bandit, {"mine": InTurn, "cirt": "cirt"}, horizon=1000, trials=5)
    Run(mine, cirt; 5 trials, up to 1,000 rounds, seed 0)
    """
    import_optional("pyarrow", "simulations")
    _validation.choice("backend", backend, BACKENDS)
    jobs = resolve_n_jobs(n_jobs)
    experiment = prepare(
        metric, bandit, policies, horizon, trials, seed, checkpoints, delay, batch, schedule,
        shares=shares, cost=cost, budget=budget,
    )  # fmt: skip
    if out is None:
        return assemble(experiment, play_missing_trials([experiment], {}, jobs, backend, progress, None))
    if seed is None:
        raise ValueError("with out=... give a seed: with a new one in every call, no run would ever go on.")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out={str(out)!r} is a file; give a folder.")
    with Journal(folder, experiment.identity) as journal:
        _write_spec(folder, experiment)
        known = _read_journal(journal, [experiment])
        run = assemble(experiment, play_missing_trials([experiment], known, jobs, backend, progress, journal))
        run.save(folder / "run.parquet")
    return run


# ---- playing it -----------------------------------------------------------------------------------------


def resolve_n_jobs(n_jobs: int | None) -> int:
    """The number of workers: as given, or one for each core."""
    if n_jobs is None or n_jobs == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _validation.whole("n_jobs", n_jobs, 1)


@dataclass(frozen=True)
class Task:
    """Trials of one policy at one horizon, as they are sent to a worker."""

    run_key: str
    number: int
    entry: PolicyAtHorizon = field(repr=False)
    timeline: Timeline = field(repr=False)
    seed: int
    trials: tuple[int, ...]


TIME_SLICE = 0.5  # seconds after which a worker hands over the trials that it has finished
_IDLE_PLAYERS: dict[str, list[Player | PythonPlayer]] = {}  # players between two tasks: they keep their tables of radii
_MAX_IDLE_RUNS = 1  # runs whose players are kept: a table of radii is as long as the run


class TaskFailed(Exception):
    """A trial of a task failed: holds the trials that finished before it, and the error."""

    def __init__(self, finished: list[TrialResult], error: Exception) -> None:
        super().__init__(finished, error)
        self.finished, self.error = finished, error


def make_player(
    entry: PolicyAtHorizon, timeline: Timeline | Bandit, seed: int, checkpoints: NDArray[np.int64]
) -> Player | PythonPlayer:
    """Make the object that plays trials of a policy, compiled or in plain Python."""
    timeline = Timeline(timeline) if isinstance(timeline, Bandit) else timeline
    if isinstance(entry.policy, PythonPolicy):
        return PythonPlayer(entry.policy, timeline, seed, checkpoints)
    return Player(entry.policy, timeline.bandit, seed, checkpoints, timeline)


def perform(task: Task) -> list[TrialResult]:
    """Play the first trials of a task, one at least, for about :data:`TIME_SLICE`: what a worker does.

    It ends before a trial that would take longer, so that no finished trial waits for another to be written to disk.
    """
    idle = _IDLE_PLAYERS.get(task.run_key)
    player = idle.pop() if idle else make_player(task.entry, task.timeline, task.seed, task.entry.checkpoints)
    finished: list[TrialResult] = []
    start = now = time.monotonic()
    longest = 0.0
    for trial in task.trials:
        try:
            found = player.play(trial)
        except Exception as error:
            if finished:
                raise TaskFailed(finished, error) from error
            raise
        finished.append(
            {
                "entry": task.number,
                "trial": trial,
                "pulls": np.concatenate((found.pulls, found.moment_ends)).ravel(),
                "mixture": found.mixture.ravel(),
                "ends": found.ends,
                "seconds": found.seconds,
            }
        )
        before, now = now, time.monotonic()
        longest = max(longest, now - before)
        if now - start + longest > TIME_SLICE:
            break
    for other in list(_IDLE_PLAYERS):  # a copy: other threads may play other runs
        if len(_IDLE_PLAYERS) >= _MAX_IDLE_RUNS and task.run_key not in _IDLE_PLAYERS:
            _IDLE_PLAYERS.pop(other, None)
    _IDLE_PLAYERS.setdefault(task.run_key, []).append(player)
    return finished


def _numbered_entries(experiments: Sequence[Experiment]) -> list[tuple[Experiment, PolicyAtHorizon]]:
    """Every policy at every horizon of all experiments; its place here is its number in the journal."""
    return [(experiment, entry) for experiment in experiments for entry in experiment.entries]


def _pending_tasks(experiments: Sequence[Experiment], known: Mapping[tuple[int, int], Any], jobs: int) -> list[Task]:
    """Return tasks for all trials that are missing, some for each policy, longest horizons first."""
    tasks = []
    for number, (experiment, entry) in enumerate(_numbered_entries(experiments)):
        missing = [trial for trial in experiment.trials if (number, trial) not in known]
        size = max(1, len(missing) // (2 * jobs))
        for at in range(0, len(missing), size):
            part = tuple(missing[at : at + size])
            run_key = f"{experiment.identity}/{number}"
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
    tasks, entries = _pending_tasks(experiments, known, jobs), _numbered_entries(experiments)
    done = sum(entries[number][1].horizon for number, _ in known)
    plain = any(isinstance(entry.policy, PythonPolicy) for _, entry in entries)
    label = f"simulate{' (plain Python)' if plain else ''}"

    def store(finished: list[TrialResult]) -> None:
        if journal is not None:
            journal.append(encode(finished))
        for row in finished:
            known[row["entry"], row["trial"]] = row
            bar.advance(entries[row["entry"]][1].horizon)

    with ProgressBar(sum(x.rounds for x in experiments), done, shown=progress, label=label) as bar:
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


def _run_tasks(tasks: Sequence[Task], jobs: int, backend: str) -> Iterator[list[TrialResult]]:
    """Run the tasks on the workers and yield their trials as they finish; what a worker leaves is handed out again."""
    queue = deque(tasks)
    if not queue:
        return
    if backend != "threads":
        _check_picklable(tasks)
    if backend != "dask" and (jobs == 1 or (len(queue) == 1 and len(queue[0].trials) == 1)):
        while queue:
            task = queue.popleft()
            yield (finished := perform(task))
            _hand_out_again(queue, task, len(finished))
        return
    with _workers(backend, jobs) as (submit, at_once):
        running: dict[Future[list[TrialResult]], Task] = {}
        while queue or running:
            while queue and len(running) < at_once:
                task = queue.popleft()
                running[submit(perform, task)] = task
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                yield (finished := future.result())
                _hand_out_again(queue, task, len(finished))


def _hand_out_again(queue: deque[Task], task: Task, done: int) -> None:
    """Put what is left of a task first, because its worker has all that it needs; the last one is split in two."""
    left = task.trials[done:]
    half = len(left) if queue else (len(left) + 1) // 2
    queue.extendleft(replace(task, trials=part) for part in (left[half:], left[:half]) if part)


@contextmanager
def _workers(backend: str, jobs: int) -> Iterator[tuple[Callable[..., Future[list[TrialResult]]], int]]:
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


def _start_thread(function: Callable[[Task], list[TrialResult]], task: Task) -> Future[list[TrialResult]]:
    """Run a function in a thread of its own, which does not keep the process alive."""
    future: Future[list[TrialResult]] = Future()

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


def _read_journal(journal: Journal, experiments: Sequence[Experiment]) -> Results:
    entries = _numbered_entries(experiments)
    wanted = {(number, trial) for number, (experiment, _) in enumerate(entries) for trial in experiment.trials}
    known: Results = {}
    for payload in journal.records():
        try:
            for row in decode(payload):
                if (row["entry"], row["trial"]) in wanted:
                    _check_journal_row(row, *entries[row["entry"]])
                    known[row["entry"], row["trial"]] = row
        except ValueError as error:
            raise ValueError(
                f"{journal.path} is not the journal of this simulation: {error} Give another folder, or delete it; "
                "nothing was overwritten."
            ) from None
    return known


def _check_journal_row(row: TrialResult, experiment: Experiment, entry: PolicyAtHorizon) -> None:
    """Refuse a finished trial that no simulation can have left behind."""
    k = experiment.bandit.n_arms
    t, moment_ends, problem = entry.checkpoints, experiment.moment_ends(entry.horizon), None
    if np.size(row["pulls"]) != (t.size + moment_ends.size) * k or np.size(row["mixture"]) != t.size * k:
        problem = "it has not one number for each arm and checkpoint"
    else:
        pulls, mixture = np.reshape(row["pulls"], (-1, k)), np.reshape(row["mixture"], (t.size, k))
        times = np.concatenate((t, moment_ends))
        order = np.argsort(times, kind="stable")
        problem = why_impossible(times[order], pulls[order], mixture)
    if problem is None and (np.size(row["ends"]) > PHASE_ENDS or not 0 <= row["seconds"] < np.inf):
        problem = "its phases or its seconds cannot be"
    if problem is None and not ((row["ends"] >= 0) & (row["ends"] <= entry.horizon)).all():
        problem = "its phases end after the last round"
    if problem is not None:
        raise ValueError(f"in trial {row['trial']} of {entry.label} {problem}.")


def _write_spec(folder: Path, experiment: Experiment) -> None:
    """Write ``spec.json``, a readable copy of the specification; the journal's first line is what is checked."""
    text = json.dumps({"library": __version__, "identity": experiment.identity, **experiment.spec}, indent=1)
    write_atomically(folder / "spec.json", lambda file: file.write(f"{text}\n".encode()))


# ---- estimating the cost --------------------------------------------------------------------------------------


def estimate_cost(experiment: Experiment, jobs: int) -> list[dict[str, Any]]:
    """Estimate rounds, rows and seconds of each policy on this many workers, from two short trials of each."""
    rows = []
    for entry in experiment.entries:
        short = sorted({min(entry.horizon, n) for n in (500, 2_000)})
        seconds = []
        for n in short:
            player = make_player(entry, experiment.timeline, experiment.seed, np.array([n], dtype=np.int64))
            player.play(0)  # the first warms up
            seconds.append(min(player.play(trial).seconds for trial in (1, 2)))
        growth = 1.0
        if len(short) > 1:
            growth = float(np.clip(np.log(seconds[1] / seconds[0]) / np.log(short[1] / short[0]), 0.5, 2.2))
        one = seconds[-1] * (entry.horizon / short[-1]) ** growth
        count = len(experiment.trials)
        rows.append(
            {
                "policy": entry.label,
                "horizon": entry.horizon,
                "trials": count,
                "rounds": entry.horizon * count,
                "rows": entry.checkpoints.size * count,
                "seconds": one * count / min(jobs, count),
            }
        )
    return rows
