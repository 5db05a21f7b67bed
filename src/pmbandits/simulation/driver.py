"""Many trials of several policies: planned, played in parallel, journalled, put together."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from pmbandits import __version__, _check
from pmbandits.arms import Bandit, _agree, check_bandit
from pmbandits.best import Best, oracle, scorer
from pmbandits.estimates._rewards import SAMPLES
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.packed import pack
from pmbandits.policies.policy import Policy
from pmbandits.simulation._kernels import BLOCK
from pmbandits.simulation.journal import Journal
from pmbandits.simulation.progress import Bar
from pmbandits.simulation.rewards import BLOCK_SIZE, GENERATOR, source
from pmbandits.simulation.run import FORMAT, SCHEMA, Run, schema
from pmbandits.simulation.trial import Player

if TYPE_CHECKING:
    import pyarrow as pa

BACKENDS = ("threads", "processes", "dask")
DEFAULT_CHECKPOINTS = 40
_LARGEST_SEED = 2**63 - 1


def simulate(
    bandit: Bandit,
    metric: Distortion,
    policies: Policy | Sequence[Policy] | Mapping[str, Policy],
    horizon: int | Sequence[int],
    trials: int | Sequence[int] = 100,
    seed: int = 0,
    *,
    checkpoints: int | ArrayLike | None = None,
    n_jobs: int | None = None,
    backend: str = "threads",
    progress: bool | None = None,
    out: str | Path | None = None,
) -> Run:
    """Play policies against known arms and measure their regret V(α*) − V(τ_t/t).

    The n-th reward of an arm in a trial depends on (seed, trial, arm, n) alone. So all policies of a trial are paid
    the same rewards (compare them in pairs), results do not depend on workers or backend, and a trial can be run alone.

    Parameters
    ----------
    bandit : the true arms; independent rewards, all of an arm alike.
    metric : what is valued. A policy that was made with a metric of its own plays for that one, and is scored by this.
    policies : recipes such as ``PMUCB(horizon=20_000)``, or a mapping that names them. Metric, arms and support need
        not be repeated.
    horizon : how many rounds; or several. Of several, a policy that needs its horizon plays each as a run of its own
        (its ``horizon`` is replaced), and an anytime policy plays one run to the longest.
    trials : how many, or which ones (numbers from 0 on).
    seed : of all rewards and of the policies' own random choices.
    checkpoints : rounds at which to measure, or how many of them, log-spaced; default 40. Memory is trials ×
        checkpoints.
    n_jobs : workers; default all cores.
    backend : ``"threads"`` (the compiled loop runs free of the interpreter lock), ``"processes"``, or ``"dask"`` for
        an existing cluster (a ``dask.distributed.Client`` must be open; extra ``distributed``).
    progress : a progress bar; default on a terminal only.
    out : a folder. Finished trials are journalled there, and the same call goes on where it was stopped, however it
        was stopped; more trials may be asked for later. The run is saved there as ``run.parquet``.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> bandit = pmb.Bandit.bernoulli([0.4, 0.9])
    >>> run = pmb.simulate(bandit, pmb.GiniDeviation(), [pmb.CIRT(), pmb.Uniform()], horizon=2000, trials=20, seed=1)
    >>> run
    Run(CIRT, Uniform; 20 trials, up to 2,000 rounds, seed 1)
    >>> run.difference("CIRT", "Uniform").mean < 0
    True
    """
    _check.choice("backend", backend, BACKENDS)
    jobs = _jobs(n_jobs)
    experiment = prepare(bandit, metric, policies, horizon, trials, seed, checkpoints)
    if out is None:
        return experiment.assemble(_play(experiment, {}, jobs, backend, progress, None))
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out={str(out)!r} is a file; give a folder.")
    with Journal(folder, experiment.identity) as journal:
        _write_spec(folder, experiment)
        known = _read(journal, experiment)
        run = experiment.assemble(_play(experiment, known, jobs, backend, progress, journal))
        run.save(folder / "run.parquet")
    return run


# ---- what is to be played -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One policy at one horizon."""

    label: str
    policy: Policy = field(repr=False)
    horizon: int
    checkpoints: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True)
class Experiment:
    """A simulation that was checked and can be played."""

    bandit: Bandit
    metric: Distortion
    entries: tuple[Entry, ...]
    trials: tuple[int, ...]
    seed: int
    best: Best
    spec: dict[str, Any]

    @property
    def identity(self) -> str:
        """A hash of everything that results depend on, but which trials are wanted."""
        what = {k: v for k, v in self.spec.items() if k != "trials"}
        what |= {"library": __version__, "generator": GENERATOR, "block": BLOCK_SIZE}
        if (source(self.bandit).kinds == BLOCK).any():  # these rewards are scipy's and numpy's
            what |= {"scipy": scipy.__version__, "numpy": np.__version__}
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    @property
    def rounds(self) -> int:
        """How many rounds there are to play in all."""
        return sum(entry.horizon for entry in self.entries) * len(self.trials)

    def assemble(self, results: Mapping[tuple[int, int], dict[str, Any]]) -> Run:
        """The table of all results, in the order of policies, horizons, trials and checkpoints.

        Regret is worked out here, trial by trial, from the pulls: the same numbers wherever the pulls came from.
        """
        import pyarrow as pa

        score, k = scorer(self.metric, self.bandit), self.bandit.n_arms
        parts: dict[str, list[Any]] = {name: [] for name in ("t", "regret", "utility", "pulls", "mixture")}
        ends: list[list[int]] = []
        seconds = []
        for e, entry in enumerate(self.entries):
            t = entry.checkpoints
            for trial in self.trials:
                found = results[e, trial]
                pulls = np.asarray(found["pulls"], dtype=np.int64).reshape(t.size, k)
                utility = score(pulls / t[:, None])
                parts["t"].append(t)
                parts["utility"].append(utility)
                parts["regret"].append(self.best.value - utility)
                parts["pulls"].append(pulls.ravel())
                parts["mixture"].append(np.asarray(found["mixture"], dtype=np.float64))
                ends += [[int(x) for x in found["ends"] if x <= now] for now in t]
                seconds.append(found["seconds"])
        flat = {name: np.concatenate(arrays) for name, arrays in parts.items()}
        rows = [(e.label, e.horizon, trial, e.checkpoints.size) for e in self.entries for trial in self.trials]
        counts = [size for *_, size in rows]
        table = pa.table(
            {
                "policy": pa.array(np.repeat([label for label, *_ in rows], counts), pa.string()),
                "horizon": pa.array(np.repeat([horizon for _, horizon, *_ in rows], counts), pa.int64()),
                "trial": pa.array(np.repeat([trial for *_, trial, _ in rows], counts), pa.int64()),
                "t": pa.array(flat["t"], pa.int64()),
                "regret": pa.array(flat["regret"], pa.float64()),
                "utility": pa.array(flat["utility"], pa.float64()),
                "pulls": pa.FixedSizeListArray.from_arrays(pa.array(flat["pulls"], pa.int64()), k),
                "mixture": pa.FixedSizeListArray.from_arrays(pa.array(flat["mixture"], pa.float64()), k),
                "phase_ends": pa.array(ends, pa.list_(pa.int64())),
            },
            schema=schema(k),
        )
        provenance = {
            "format": FORMAT,
            "schema": SCHEMA,
            "library": __version__,
            "generator": GENERATOR,
            "spec": self.spec,
            "best": {
                "value": self.best.value,
                "weights": self.best.weights.tolist(),
                "gap": self.best.gap if self.best.certified else None,
            },
        }
        return Run(table, provenance, np.array(seconds))


def prepare(
    bandit: Bandit,
    metric: Distortion,
    policies: Policy | Sequence[Policy] | Mapping[str, Policy],
    horizon: int | Sequence[int],
    trials: int | Sequence[int],
    seed: int,
    checkpoints: int | ArrayLike | None,
) -> Experiment:
    """Check everything before anything is played."""
    check_bandit(bandit)
    metric = as_metric(metric)
    horizons = _horizons(horizon)
    numbers = _trials(trials)
    seed = _check.whole("seed", seed, 0, _LARGEST_SEED)
    recipes = _recipes(policies)
    best = oracle(metric, bandit)  # also says so if a utility is infinite
    wanted = _Checkpoints(checkpoints, horizons)
    entries, described = [], []
    for label, recipe in recipes.items():
        mine = horizons if "horizon" in recipe.options else [max(horizons)]
        for rounds in mine:
            policy = _bound(label, recipe, bandit, metric, rounds, several=len(horizons) > 1)
            entries.append(Entry(label, policy, rounds, wanted.up_to(rounds)))
        described.append({"label": label, **_describe(recipe, metric), "horizons": mine})
    spec = {
        "bandit": bandit.to_dict(),
        "metric": _metric_to_dict(metric),
        "metric_text": repr(metric),
        "policies": described,
        "horizons": horizons,
        "trials": list(numbers),
        "seed": seed,
        "checkpoints": wanted.spec,
    }
    return Experiment(bandit, metric, tuple(entries), numbers, seed, best, spec)


def _bound(label: str, recipe: Policy, bandit: Bandit, metric: Distortion, rounds: int, *, several: bool) -> Policy:
    support = recipe.support if recipe.support is not None else bandit.support
    if support is None:
        raise ValueError(
            f"the support of {bandit!r} is not known; say Bandit(..., support=Interval(lo, hi)), or Real(sigma)."
        )
    if recipe.names and recipe.n_arms != bandit.n_arms:
        raise ValueError(f"{label} was made for {recipe.n_arms} arms, but the bandit has {bandit.n_arms}.")
    if recipe.support is not None:
        _agree(recipe.support, bandit.laws, bandit.names)
    options = dict(recipe.options)
    if "horizon" in options:
        if several:
            options["horizon"] = rounds
        elif options["horizon"] < rounds:
            raise ValueError(
                f"{label} was made for {options['horizon']:,} rounds but is to play {rounds:,}; "
                f"give it horizon={rounds} or more."
            )
    try:
        policy: Policy = type(recipe)(  # type: ignore[call-arg]
            recipe.metric if recipe.metric is not None else metric,
            n_arms=bandit.n_arms,
            support=support,
            names=bandit.names,
            seed=recipe.seed,
            **options,
        )
    except (ValueError, IndexError) as error:
        raise ValueError(f"{label} cannot play {rounds:,} rounds here: {error}") from None
    explored = policy.explore_rounds
    if explored > rounds:
        raise ValueError(
            f"{label} explores for {explored:,} rounds, more than the horizon of {rounds:,}; "
            "take a longer horizon, or less exploration."
        )
    return policy


def _recipes(policies: Any) -> dict[str, Policy]:
    if isinstance(policies, (Policy, type)) or not hasattr(policies, "__iter__"):
        policies = [policies]
    if isinstance(policies, Mapping):
        named = {str(label): recipe for label, recipe in policies.items()}
        if len(named) < len(policies):
            raise ValueError(f"policies need different names, got {', '.join(map(repr, policies))}.")
    else:
        given = list(policies)
        for recipe in given:
            _must_be_policy(recipe)
        named = dict(zip(_labels(given), given, strict=True))
    if not named:
        raise ValueError("there is no policy to play; give at least one, such as CIRT().")
    for recipe in named.values():
        _must_be_policy(recipe)
    return named


def _must_be_policy(recipe: Any) -> None:
    if isinstance(recipe, type) and issubclass(recipe, Policy):
        raise TypeError(f"{recipe.__name__} is a class; write {recipe.__name__}(...).")
    if not isinstance(recipe, Policy):
        raise TypeError(f"a policy is an object such as CIRT() or PMUCB(horizon=10_000), got {recipe!r}.")


def _labels(recipes: Sequence[Policy]) -> list[str]:
    """The class names; policies of one class are told apart by the options that differ."""
    labels: list[str] = []
    for recipe in recipes:
        name = type(recipe).__name__
        alike = [other for other in recipes if type(other) is type(recipe)]
        differ = [o for o in recipe.options if len({repr(other.options.get(o)) for other in alike}) > 1]
        shown = [f"{o}={_short(recipe.options[o])}" for o in differ]
        if len({other.seed for other in alike}) > 1:
            shown.append(f"seed={recipe.seed}")
        if len({repr(other.metric) for other in alike}) > 1:
            shown.insert(0, repr(recipe.metric))
        label = f"{name}({', '.join(shown)})" if shown else name
        same = sum(known == label or known.startswith(f"{label} #") for known in labels)
        labels.append(f"{label} #{same + 1}" if same else label)
    return labels


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value) if isinstance(value, (int, str, type(None))) else type(value).__name__


def _describe(recipe: Policy, metric: Distortion) -> dict[str, Any]:
    options = {name: _option(value) for name, value in recipe.options.items()}
    own = None if recipe.metric is None or recipe.metric is metric else _metric_to_dict(recipe.metric)
    support = None if recipe.support is None else recipe.support.to_dict()
    described = {"policy": recipe.name, "options": options, "seed": recipe.seed, "metric": own, "support": support}
    if not type(recipe).__module__.startswith("pmbandits."):  # of your own: the code is part of what it is
        steps = (type(recipe)._choose.py_func.__code__, type(recipe)._update.py_func.__code__)
        code = [step.co_code + repr((step.co_consts, step.co_names)).encode() for step in steps]
        described["class"] = f"{type(recipe).__module__}.{type(recipe).__qualname__}"
        described["code"] = hashlib.sha256(b"".join(code)).hexdigest()
    return described


def _option(value: Any) -> Any:
    """An option as JSON; a confidence set of one's own is known by its radii."""
    if isinstance(value, (int, float, str, bool, type(None))):
        return value
    if callable(getattr(value, "radius", None)):
        radii = np.asarray(value.radius(np.arange(1.0, 1001.0)), dtype=np.float64)
        return {"custom": type(value).__qualname__, "values": hashlib.sha256(radii.tobytes()).hexdigest()}
    return repr(value)


def _metric_to_dict(metric: Distortion) -> dict[str, Any]:
    try:
        return metric.to_dict()
    except ValueError:  # made from a function: its values stand for it
        return {"custom": repr(metric), "values": hashlib.sha256(pack(metric).tobytes()).hexdigest()}


def _horizons(horizon: Any) -> list[int]:
    many = [horizon] if np.ndim(horizon) == 0 else list(horizon)
    if not many:
        raise ValueError("horizon is empty; give a number of rounds, or several.")
    return sorted({_check.whole("horizon", h, 1, 2**53) for h in many})


def _trials(trials: Any) -> tuple[int, ...]:
    if np.ndim(trials) == 0:
        return tuple(range(_check.whole("trials", trials, 1, 10_000_000)))
    numbers = tuple(sorted({_check.whole("trial", k, 0, _LARGEST_SEED) for k in trials}))
    if not numbers:
        raise ValueError("trials is empty; say how many, or which ones.")
    return numbers


class _Checkpoints:
    def __init__(self, given: Any, horizons: list[int]) -> None:
        self.horizons = horizons
        self.times: list[int] | None = None
        self.count = DEFAULT_CHECKPOINTS
        if given is None:
            pass
        elif np.ndim(given) == 0:
            self.count = _check.whole("checkpoints", given, 1)
        else:
            self.times = sorted({_check.whole("checkpoint", t, 1, max(horizons)) for t in np.asarray(given).tolist()})
            if not self.times:
                raise ValueError("checkpoints is empty; give rounds, or how many.")

    @property
    def spec(self) -> int | list[int]:
        """As it goes into the specification."""
        return self.count if self.times is None else self.times

    def up_to(self, rounds: int) -> NDArray[np.int64]:
        """The checkpoints of a run; its end is always one, and so are shorter horizons."""
        if self.times is None:
            times = np.unique(np.round(np.geomspace(min(10, rounds), rounds, self.count)).astype(np.int64))
        else:
            times = np.array([t for t in self.times if t <= rounds], dtype=np.int64)
        ends = [h for h in self.horizons if h <= rounds]
        return np.union1d(times, np.array([*ends, rounds], dtype=np.int64)).astype(np.int64)


def estimate(experiment: Experiment, jobs: int) -> list[dict[str, Any]]:
    """What each run would cost: rounds, rows, and seconds on so many workers, from two short trials of each."""
    rows = []
    for entry in experiment.entries:
        short = sorted({min(entry.horizon, n) for n in (500, 2_000)})
        seconds = []
        for n in short:
            player = Player(entry.policy, experiment.bandit, experiment.seed, np.array([n], dtype=np.int64))
            player.play(0)  # the first compiles
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


# ---- playing it -----------------------------------------------------------------------------------------


def _jobs(n_jobs: int | None) -> int:
    if n_jobs is None or n_jobs == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _check.whole("n_jobs", n_jobs, 1)


@dataclass(frozen=True)
class Task:
    """Some trials of one entry; small enough to send anywhere."""

    token: str
    number: int
    entry: Entry = field(repr=False)
    bandit: Bandit = field(repr=False)
    seed: int
    trials: tuple[int, ...]


_IDLE: dict[str, list[Player]] = {}  # players between two tasks: their tables of radii are worth keeping
_MOST_IDLE = 1  # runs whose players are kept: a table of radii is as long as the run


def perform(task: Task) -> bytes:
    """Play the trials of a task: what a worker does. The answer is what the journal keeps."""
    waiting = _IDLE.get(task.token, [])
    player = waiting.pop() if waiting else Player(task.entry.policy, task.bandit, task.seed, task.entry.checkpoints)
    rows = []
    for trial in task.trials:
        found = player.play(trial)
        rows.append(
            {
                "entry": task.number,
                "trial": trial,
                "pulls": found.pulls.ravel(),
                "mixture": found.mixture.ravel(),
                "ends": found.ends,
                "seconds": found.seconds,
            }
        )
    while len(_IDLE) >= _MOST_IDLE and task.token not in _IDLE:
        _IDLE.pop(next(iter(_IDLE)), None)
    _IDLE.setdefault(task.token, []).append(player)
    return _encode(rows)


def _tasks(experiment: Experiment, known: Mapping[tuple[int, int], Any], jobs: int) -> list[Task]:
    """What is missing, in pieces of some tenths of a second, the longest runs first."""
    tasks = []
    for e, entry in enumerate(experiment.entries):
        missing = [trial for trial in experiment.trials if (e, trial) not in known]
        counts = entry.policy._memory.mode != SAMPLES
        cost = entry.horizon * (1.0 if counts else max(1.0, entry.horizon / 50.0))
        size = int(min(max(1, 5_000_000 / cost), max(1, len(missing) // (2 * jobs))))
        token = f"{experiment.identity}/{e}"
        for at in range(0, len(missing), size):
            part = tuple(missing[at : at + size])
            tasks.append(Task(token, e, entry, experiment.bandit, experiment.seed, part))
    return sorted(tasks, key=lambda task: -task.entry.horizon)


def _play(
    experiment: Experiment,
    known: dict[tuple[int, int], dict[str, Any]],
    jobs: int,
    backend: str,
    progress: bool | None,
    journal: Journal | None,
) -> dict[tuple[int, int], dict[str, Any]]:
    tasks = _tasks(experiment, known, jobs)
    done = sum(experiment.entries[e].horizon for e, _ in known)
    with Bar(experiment.rounds, done, shown=progress) as bar:
        try:
            for payload in _stream(tasks, jobs, backend):
                if journal is not None:
                    journal.append(payload)
                for row in _decode(payload):
                    known[row["entry"], row["trial"]] = row
                    bar.advance(experiment.entries[row["entry"]].horizon)
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


# ---- the journal's records ------------------------------------------------------------------------------


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("entry", pa.int64()),
            ("trial", pa.int64()),
            ("pulls", pa.list_(pa.int64())),
            ("mixture", pa.list_(pa.float64())),
            ("ends", pa.list_(pa.int64())),
            ("seconds", pa.float64()),
        ]
    )


def _encode(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa

    schema = _schema()
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _decode(payload: bytes) -> list[dict[str, Any]]:
    import pyarrow as pa

    with pa.ipc.open_stream(payload) as reader:
        table = reader.read_all()
    columns = [table[name].combine_chunks() for name in table.column_names]
    rows = []
    for j in range(table.num_rows):
        values = [c[j].values.to_numpy() if hasattr(c[j], "values") else c[j].as_py() for c in columns]
        rows.append(dict(zip(table.column_names, values, strict=True)))
    return rows


def _read(journal: Journal, experiment: Experiment) -> dict[tuple[int, int], dict[str, Any]]:
    wanted = {(e, trial) for e in range(len(experiment.entries)) for trial in experiment.trials}
    known = {}
    for payload in journal.records():
        for row in _decode(payload):
            if (row["entry"], row["trial"]) in wanted:
                known[row["entry"], row["trial"]] = row
    return known


def _write_spec(folder: Path, experiment: Experiment) -> None:
    """What this folder holds, for people; the journal's first line decides."""
    text = json.dumps({"library": __version__, "identity": experiment.identity, **experiment.spec}, indent=1)
    (folder / "spec.json").write_text(text + "\n", encoding="utf-8")
