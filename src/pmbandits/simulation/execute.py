"""Many trials of several policies: played in parallel, journalled, put together."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import __version__, _check
from pmbandits._extras import need
from pmbandits._files import write_whole
from pmbandits.arms import Bandit
from pmbandits.changing import Changing
from pmbandits.estimates._rewards import SAMPLES
from pmbandits.limits import Shares
from pmbandits.metrics.distortion import Distortion
from pmbandits.simulation.assemble import Results, assemble
from pmbandits.simulation.checks import impossible
from pmbandits.simulation.course import Course
from pmbandits.simulation.delays import Delay
from pmbandits.simulation.journal import Journal, decode, encode
from pmbandits.simulation.plain import PlainPlayer, PlainPolicy
from pmbandits.simulation.prepare import Entry, Experiment, prepare
from pmbandits.simulation.progress import Bar
from pmbandits.simulation.recipes import Recipe
from pmbandits.simulation.run import Run
from pmbandits.simulation.trial import Player
from pmbandits.state.layout import PHASE_ENDS

BACKENDS = ("threads", "processes", "dask")


def simulate(
    bandit: Bandit | Changing,
    metric: Distortion | str,
    policies: Recipe | Sequence[Recipe] | Mapping[str, Recipe],
    horizon: int | Sequence[int],
    trials: int | Sequence[int] = 100,
    seed: int = 0,
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

    The regret after t rounds is how much less the shares that were played are worth than the best mixture: V(α*) −
    V(τ_t/t).

    The n-th reward of an arm in a trial depends only on (seed, trial, arm, n), and on how the arm is in that round if
    it changes. So all policies of a trial get the same rewards, and can be compared in pairs. Results do not depend on
    the number of workers or on the backend, and a trial can be run alone.

    Parameters
    ----------
    bandit : the true arms, or arms that change: :class:`Changing`.
    metric : what is valued: a metric, its name, or text such as ``"0.7*mean + 0.3*cvar(0.9)"``. A policy that was made
        with a metric of its own plays for that one, and is scored by this one.
    policies : one or several, or a mapping that names them. Each is a recipe such as ``PMUCB(horizon=20_000)`` (metric,
        arms and support need not be repeated), a name such as ``"pmucb"`` (a policy that needs its horizon gets this
        one), or a function or class that makes a policy in plain Python; see below.
    horizon : how many rounds to play, or several such numbers. With several, a policy that needs its horizon plays each
        of them as a run of its own (its ``horizon`` is replaced), and an anytime policy plays one run to the longest.
    trials : how many trials, or which ones (a list of their numbers, which begin with 0).
    seed : the seed of all rewards and of the policies' own random choices.
    delay : how many rounds rewards are late. The reward of round r is told after round r + delay, so 0 means before the
        next ask. It can be a number, or a frozen ``scipy.stats`` distribution, rounded to whole rounds. It can be a
        function of a numpy ``Generator`` and a count that returns that many delays, or a mapping from arms to any of
        these. Rewards are told in the order in which they come. Those that would come after the last round never come.
    batch : how many arms to ask for at once. Rewards that have come are told when a batch is over, all together.
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
    >>> run = pmb.simulate(bandit, "gini", [pmb.CIRT(), "uniform"], horizon=2000, trials=20, seed=1)
    >>> run
    Run(CIRT, Uniform; 20 trials, up to 2,000 rounds, seed 1)
    >>> run.difference("CIRT", "Uniform").mean < 0
    True

    Arms that change places after half of the rounds, with rewards that are 100 rounds late:

    >>> world = pmb.Changing.steps([(0, bandit), (1000, pmb.Bandit.bernoulli([0.9, 0.4]))])
    >>> run = pmb.simulate(world, "gini", ["track", "uniform"], horizon=2000, trials=20, delay=100)
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
    >>> pmb.simulate(bandit, "gini", {"mine": InTurn, "cirt": "cirt"}, horizon=1000, trials=5)
    Run(mine, cirt; 5 trials, up to 1,000 rounds, seed 0)
    """
    need("pyarrow", "simulations")
    _check.choice("backend", backend, BACKENDS)
    jobs = workers(n_jobs)
    experiment = prepare(
        bandit, metric, policies, horizon, trials, seed, checkpoints, delay, batch, schedule,
        shares=shares, cost=cost, budget=budget,
    )  # fmt: skip
    if out is None:
        return assemble(experiment, _play(experiment, {}, jobs, backend, progress, None))
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out={str(out)!r} is a file; give a folder.")
    with Journal(folder, experiment.identity) as journal:
        _write_spec(folder, experiment)
        known = _read(journal, experiment)
        run = assemble(experiment, _play(experiment, known, jobs, backend, progress, journal))
        run.save(folder / "run.parquet")
    return run


# ---- playing it -----------------------------------------------------------------------------------------


def workers(n_jobs: int | None) -> int:
    """The number of workers: as given, or one for each core."""
    if n_jobs is None or n_jobs == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _check.whole("n_jobs", n_jobs, 1)


@dataclass(frozen=True)
class Task:
    """Some trials of one entry; small enough to send anywhere."""

    token: str
    number: int
    entry: Entry = field(repr=False)
    course: Course = field(repr=False)
    seed: int
    trials: tuple[int, ...]


_IDLE: dict[str, list[Player | PlainPlayer]] = {}  # players between two tasks: their tables of radii are worth keeping
_MOST_IDLE = 1  # runs whose players are kept: a table of radii is as long as the run


class Unfinished(Exception):
    """A trial of a task failed: the record of those before it, and the error."""

    def __init__(self, payload: bytes, error: Exception) -> None:
        super().__init__(payload, error)
        self.payload, self.error = payload, error


def player(entry: Entry, course: Course | Bandit, seed: int, checkpoints: NDArray[np.int64]) -> Player | PlainPlayer:
    """What plays trials of this policy."""
    course = Course(course) if isinstance(course, Bandit) else course
    if isinstance(entry.policy, PlainPolicy):
        return PlainPlayer(entry.policy, course, seed, checkpoints)
    return Player(entry.policy, course.bandit, seed, checkpoints, course)


def perform(task: Task) -> bytes:
    """Play the trials of a task: what a worker does. The answer is what the journal keeps."""
    waiting = _IDLE.get(task.token, [])
    plays = waiting.pop() if waiting else player(task.entry, task.course, task.seed, task.entry.checkpoints)
    rows: list[dict[str, Any]] = []
    for trial in task.trials:
        try:
            found = plays.play(trial)
        except Exception as error:
            if rows:
                raise Unfinished(encode(rows), error) from error
            raise
        rows.append(
            {
                "entry": task.number,
                "trial": trial,
                "pulls": np.concatenate((found.pulls, found.turns)).ravel(),
                "mixture": found.mixture.ravel(),
                "ends": found.ends,
                "seconds": found.seconds,
            }
        )
    for other in list(_IDLE):  # a copy: other threads may play other runs
        if len(_IDLE) >= _MOST_IDLE and task.token not in _IDLE:
            _IDLE.pop(other, None)
    _IDLE.setdefault(task.token, []).append(plays)
    return encode(rows)


def _tasks(experiment: Experiment, known: Mapping[tuple[int, int], Any], jobs: int) -> list[Task]:
    """What is missing, in pieces of some tenths of a second, the longest runs first."""
    tasks = []
    for e, entry in enumerate(experiment.entries):
        missing = [trial for trial in experiment.trials if (e, trial) not in known]
        cost = entry.horizon * _cost(entry)
        size = int(min(max(1, 5_000_000 / cost), max(1, len(missing) // (2 * jobs))))
        token = f"{experiment.identity}/{e}"
        for at in range(0, len(missing), size):
            part = tuple(missing[at : at + size])
            tasks.append(Task(token, e, entry, experiment.course, experiment.seed, part))
    return sorted(tasks, key=lambda task: -task.entry.horizon)


def _cost(entry: Entry) -> float:
    """About how many times longer a round takes than that of a compiled policy that only counts rewards."""
    if isinstance(entry.policy, PlainPolicy):
        return 50.0
    return 1.0 if entry.policy._memory.mode != SAMPLES else max(1.0, entry.horizon / 50.0)


def _play(
    experiment: Experiment,
    known: Results,
    jobs: int,
    backend: str,
    progress: bool | None,
    journal: Journal | None,
) -> Results:
    tasks = _tasks(experiment, known, jobs)
    done = sum(experiment.entries[e].horizon for e, _ in known)
    plain = any(isinstance(entry.policy, PlainPolicy) for entry in experiment.entries)

    def keep(payload: bytes) -> None:
        if journal is not None:
            journal.append(payload)
        for row in decode(payload):
            known[row["entry"], row["trial"]] = row
            bar.advance(experiment.entries[row["entry"]].horizon)

    with Bar(experiment.rounds, done, shown=progress, label=f"simulate{' (plain Python)' if plain else ''}") as bar:
        try:
            for payload in _stream(tasks, jobs, backend):
                keep(payload)
        except Unfinished as stopped:
            keep(stopped.payload)
            cause = stopped.error.__cause__ or stopped.__cause__  # from another process: its traceback
            raise stopped.error from (None if cause is stopped.error else cause)
        finally:
            for e in range(len(experiment.entries)):
                _IDLE.pop(f"{experiment.identity}/{e}", None)
    return known


def _stream(tasks: Sequence[Task], jobs: int, backend: str) -> Iterator[bytes]:
    """The tasks' answers as they come."""
    if not tasks:
        return
    if backend != "dask" and (jobs == 1 or len(tasks) == 1):
        yield from map(perform, tasks)
        return
    import joblib

    if backend != "threads":
        _must_travel(tasks)
    if backend == "dask":
        _need_cluster()
        with joblib.parallel_config(backend="dask"):
            pool = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="all")
    else:
        kind = "threading" if backend == "threads" else "loky"
        pool = joblib.Parallel(n_jobs=jobs, backend=kind, return_as="generator_unordered", batch_size=1)
    results = pool(joblib.delayed(perform)(task) for task in tasks)
    try:
        yield from results
    finally:
        results.close()


def _must_travel(tasks: Sequence[Task]) -> None:
    """Raise an error in one sentence if a plain Python policy cannot be sent to another process."""
    from joblib.externals.loky.backend.reduction import dumps

    for policy in {task.number: task.entry.policy for task in tasks}.values():
        if isinstance(policy, PlainPolicy):
            try:
                dumps(policy.factory)
            except Exception as error:
                raise ValueError(
                    f"{policy.label} cannot be sent to another process ({type(error).__name__}: {error}); define it at "
                    "the top of a module, without open files, locks or threads in it, or take backend='threads'."
                ) from None


def _need_cluster() -> None:
    try:
        from distributed import get_client
    except ImportError:
        raise ImportError("backend='dask' needs the extra: pip install 'pmbandits[distributed]'.") from None
    try:
        get_client()
    except ValueError:
        raise ValueError(
            "backend='dask' plays on an existing cluster: open a dask.distributed.Client first, "
            "for example Client('tcp://scheduler:8786') or Client() for this machine."
        ) from None


def _read(journal: Journal, experiment: Experiment) -> Results:
    wanted = {(e, trial) for e in range(len(experiment.entries)) for trial in experiment.trials}
    known: Results = {}
    for payload in journal.records():
        try:
            for row in decode(payload):
                if (row["entry"], row["trial"]) in wanted:
                    _must_be_possible(row, experiment)
                    known[row["entry"], row["trial"]] = row
        except ValueError as error:
            raise ValueError(
                f"{journal.path} is not the journal of this simulation: {error} Give another folder, or delete it; "
                "nothing was overwritten."
            ) from None
    return known


def _must_be_possible(row: Mapping[str, Any], experiment: Experiment) -> None:
    """Refuse a finished trial that no simulation can have left behind."""
    entry, k = experiment.entries[row["entry"]], experiment.bandit.n_arms
    t, turns, said = entry.checkpoints, experiment.turns(entry.horizon), None
    if np.size(row["pulls"]) != (t.size + turns.size) * k or np.size(row["mixture"]) != t.size * k:
        said = "it has not one number for each arm and checkpoint"
    else:
        pulls, mixture = np.reshape(row["pulls"], (-1, k)), np.reshape(row["mixture"], (t.size, k))
        times = np.concatenate((t, turns))
        order = np.argsort(times, kind="stable")
        said = impossible(times[order], pulls[order], mixture)
    if said is None and (np.size(row["ends"]) > PHASE_ENDS or not 0 <= row["seconds"] < np.inf):
        said = "its phases or its seconds cannot be"
    if said is None and not ((row["ends"] >= 0) & (row["ends"] <= entry.horizon)).all():
        said = "its phases end after the last round"
    if said is not None:
        raise ValueError(f"in trial {row['trial']} of {entry.label} {said}.")


def _write_spec(folder: Path, experiment: Experiment) -> None:
    """What this folder holds, for people; the journal's first line decides."""
    text = json.dumps({"library": __version__, "identity": experiment.identity, **experiment.spec}, indent=1)
    write_whole(folder / "spec.json", lambda file: file.write(f"{text}\n".encode()))


# ---- what it costs --------------------------------------------------------------------------------------


def estimate(experiment: Experiment, jobs: int) -> list[dict[str, Any]]:
    """What each run would cost: rounds, rows, and seconds on this many workers, from two short trials of each."""
    rows = []
    for entry in experiment.entries:
        short = sorted({min(entry.horizon, n) for n in (500, 2_000)})
        seconds = []
        for n in short:
            plays = player(entry, experiment.course, experiment.seed, np.array([n], dtype=np.int64))
            plays.play(0)  # the first warms up
            seconds.append(min(plays.play(trial).seconds for trial in (1, 2)))
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
