"""Studies: the same policies on several problems and metrics, played and journalled as one, with one table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits import _text_tables, _validation
from pmbandits._extras import import_optional
from pmbandits._files import write_atomically
from pmbandits._intervals import CONFIDENCE_LEVEL
from pmbandits.arms import Bandit
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.simulation.assemble import Results, assemble_run
from pmbandits.simulation.prepare import Experiment, prepare_experiment
from pmbandits.simulation.run import Run
from pmbandits.simulation.summary import Difference, Summary

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

Key = tuple[str, str]  # the name of a problem, and that of a metric
INDEX = "study.json"


class Study:
    """The result of :func:`simulate` for several bandits or metrics: one :class:`Run` for each pair, and one table.

    Attributes
    ----------
    runs : by the names of problem and metric, the run. ``study["coins", "gini"]`` is the same as
        ``study.runs["coins", "gini"]``.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> problems = {"far": pmb.Bandit.bernoulli([0.4, 0.9]), "near": pmb.Bandit.bernoulli([0.45, 0.6])}
    >>> study = pmb.simulate(["gini", "mean"], problems, ["track", "uniform"], horizon=200, trials=5)
    >>> study
    Study(2 problems × 2 metrics; Track, Uniform; 5 trials)
    >>> study["far", "gini"].policies
    ('Track', 'Uniform')
    """

    def __init__(self, runs: Mapping[Key, Run]) -> None:
        self.runs = dict(runs)

    def __getitem__(self, key: Key) -> Run:
        if key not in self.runs:
            problems, metrics = ", ".join(map(repr, self.problems)), ", ".join(map(repr, self.metrics))
            raise _validation.MissingKey(
                f"there is no run {_validation.short_repr(key)} in this study; write study[problem, metric] with a "
                f"problem of {problems} and a metric of {metrics}."
            )
        return self.runs[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def problems(self) -> tuple[str, ...]:
        """The names of the problems."""
        return tuple(dict.fromkeys(problem for problem, _ in self.runs))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics."""
        return tuple(dict.fromkeys(metric for _, metric in self.runs))

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the policies."""
        return next(iter(self.runs.values())).policies

    @property
    def trials(self) -> tuple[int, ...]:
        """The numbers of the trials."""
        return next(iter(self.runs.values())).trials

    def summary(self, t: int | None = None) -> Summary:
        """The mean regret of every policy for each problem and metric, in one table; see :meth:`Run.summary`."""
        rows = []
        for (problem, metric), run in self.runs.items():
            rows += [{"problem": problem, "metric": metric, **row} for row in run.summary(t).rows]
        return Summary("Mean regret by problem and metric", rows, [])

    def rescore(self, metric: Distortion | str, bandit: Bandit | Mapping[str, Bandit] | None = None) -> Study:
        """Score the pulls of all runs by another metric; nothing is played again.

        The metric of each key then says both: ``"gini, scored by mean"`` was played for the first.

        Parameters
        ----------
        metric : the metric by which to score; see :meth:`Run.rescore`.
        bandit : by the names of problems, their arms. They are only needed for a study from files, where an arm is a
            distribution of your own. If there is one problem only, its arms.
        """
        given = {} if bandit is None else bandit
        if not isinstance(given, Mapping):
            if len(self.problems) > 1:
                raise TypeError(
                    f"this study has {len(self.problems)} problems; name them: {{{self.problems[0]!r}: ...}}."
                )
            given = {self.problems[0]: given}
        for problem in given:
            _validation.check_choice("problem", problem, self.problems)
        text = metric if isinstance(metric, str) else repr(metric)
        return Study(
            {
                (problem, f"{name}, scored by {text}"): run.rescore(metric, given.get(problem))
                for (problem, name), run in self.runs.items()
            }
        )

    def difference(
        self, policy: str, other: str, t: int | None = None, *, level: float = CONFIDENCE_LEVEL
    ) -> dict[Key, Difference]:
        """For each problem and metric, the regret of one policy minus that of another; see :meth:`Run.difference`.

        Each interval holds by itself. If you look for a problem in which two policies differ, take a higher ``level``:
        1 − 0.05/m for m runs.
        """
        return {key: run.difference(policy, other, t, level=level) for key, run in self.runs.items()}

    # ---- other forms -----------------------------------------------------------------------------------
    def to_arrow(self) -> pa.Table:
        """All runs as one pyarrow table, with the columns ``problem`` and ``metric``, and one column for each arm."""
        import pyarrow as pa

        parts = []
        for (problem, metric), run in self.runs.items():
            table = run.wide_table()
            for place, (name, value) in enumerate((("problem", problem), ("metric", metric))):
                table = table.add_column(place, name, pa.array([value] * table.num_rows, pa.string()))
            parts.append(table)
        return pa.concat_tables(parts, promote_options="default")

    def to_pandas(self) -> pd.DataFrame:
        """All runs as one pandas data frame, with the columns of :meth:`to_arrow`."""
        import_optional("pandas", "frames of pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """All runs as one polars data frame, with the columns of :meth:`to_arrow`."""
        return import_optional("polars", "frames of polars").from_arrow(self.to_arrow())

    def to_xarray(self) -> Any:
        """All runs as one xarray data set: the dimensions of :meth:`Run.to_xarray`, and ``problem`` and ``metric``.

        ``arm`` has the arms of all problems, and numbers of arms that a problem does not have are NaN.
        """
        xarray = import_optional("xarray", "data sets of xarray")
        runs = self.runs.values()
        times = sorted({t for run in runs for t in run.checkpoints})
        arms = list(dict.fromkeys(name for run in runs for name in run.names))
        variables: dict[str, Any] = {}
        for (problem, metric), run in self.runs.items():
            place = self.problems.index(problem), self.metrics.index(metric)
            for name, (axes, values) in run.labelled_arrays(times, arms).items():
                empty = np.full((len(self.problems), len(self.metrics), *values.shape), np.nan)
                variables.setdefault(name, (("problem", "metric", *axes), empty))[1][place] = values
        return xarray.Dataset(
            variables,
            {
                "problem": list(self.problems), "metric": list(self.metrics), "policy": list(self.policies),
                "trial": list(self.trials), "t": times, "arm": arms,
            },
        )  # fmt: skip

    def plot(
        self,
        axes: Any = None,
        *,
        column: str = "regret",
        policies: Sequence[str] | None = None,
        title: str | None = None,
        path: str | Path | None = None,
    ) -> NDArray[np.object_]:
        """Draw the regret of every problem (rows) and metric (columns) in small pictures; returns their axes.

        Parameters
        ----------
        axes : a table of axes to draw on, with a row for each problem and a column for each metric, such as
            ``plt.subplots(2, 3, squeeze=False)[1]``; by default those of a new figure.
        column : ``"regret"``, or ``"arm_regret"``, the cumulative regret to the best single arm.
        policies : the policies to draw; by default all.
        title : a title above all pictures.
        path : a file to which the picture is written, if given.
        """
        from pmbandits._plot_style import pyplot_in_library_style, save_figure
        from pmbandits.plots import plot_regret

        rows, columns = len(self.problems), len(self.metrics)
        with pyplot_in_library_style() as plt:
            if axes is None:
                size = (3.1 * columns + 1.6, 2.5 * rows + 0.3)
                axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, sharex="col")[1]
            made: NDArray[np.object_] = np.atleast_1d(np.asarray(axes, dtype=object))
            if made.size != rows * columns:
                raise ValueError(f"axes must be a table of {rows} × {columns} axes, got {made.size} in all.")
            made = made.reshape(rows, columns)
            for (problem, metric), run in self.runs.items():
                i, j = self.problems.index(problem), self.metrics.index(metric)
                ax = plot_regret(run, made[i, j], column=column, policies=policies, title=f"{problem}: {metric}")
                ax.set_xlabel("rounds" if i == rows - 1 else "")
                if j > 0:
                    ax.set_ylabel("")
                legend = ax.get_legend()
                if legend is not None:
                    _shorten_legend(ax, legend, run.policies, shown=(i, j) == (0, columns - 1))
            figure = made[0, 0].get_figure(root=True)
            if title is not None:
                figure.suptitle(title)
        save_figure(figure, path)
        return made

    def save(self, folder: str | Path) -> None:
        """Write one file for each run into a folder, and a list of them, ``study.json``."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        files = {}
        for number, (key, run) in enumerate(self.runs.items()):
            files[f"run-{number}.parquet"] = list(key)
            run.save(folder / f"run-{number}.parquet")
        text = json.dumps(files, ensure_ascii=False, indent=1)
        write_atomically(folder / INDEX, lambda file: file.write(f"{text}\n".encode()))

    @classmethod
    def load(cls, folder: str | Path) -> Study:
        """Load a study that was saved, or played with ``out=folder``."""
        index = Path(folder) / INDEX
        if not index.is_file():
            raise FileNotFoundError(f"there is no study in {str(folder)!r}; it would have a file {INDEX}.")
        try:
            files = {Path(name).name: tuple(map(str, key)) for name, key in json.loads(index.read_bytes()).items()}
            if not files or any(len(key) != 2 for key in files.values()):
                raise ValueError("names")
        except (ValueError, AttributeError, TypeError):
            raise ValueError(f"{str(index)!r} is not the list of a study, or it is damaged.") from None
        return cls({(key[0], key[1]): Run.load(Path(folder) / name) for name, key in files.items()})

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def __repr__(self) -> str:
        problems, metrics = len(self.problems), len(self.metrics)
        sizes = f"{problems} problem{'s' * (problems > 1)} × {metrics} metric{'s' * (metrics > 1)}"
        return f"Study({sizes}; {', '.join(self.policies)}; {len(self.trials)} trials)"


def _shorten_legend(ax: Any, legend: Any, policies: Sequence[str], *, shown: bool) -> None:
    """Keep one legend of several pictures, with plain names; what it says of regrets of 0 goes into each picture."""
    notes = []
    for text in legend.get_texts():
        name = next((p for p in policies if p == text.get_text()), text.get_text().rpartition(" (")[0])
        if name != text.get_text():
            notes.append(text.get_text())
            text.set_text(name)
    if notes:
        ax.text(0.03, 0.03, "\n".join(notes), transform=ax.transAxes, fontsize=7, va="bottom")
    if not shown:
        legend.remove()


class CostEstimate:
    """What a simulation would cost: the answer of :func:`simulate` with ``dry_run=True``. It prints as a table.

    Attributes
    ----------
    rows : one for each problem, metric, policy and horizon: trials, rounds, rows of the result, and seconds.
    workers : how many workers the seconds are for.
    seconds : about how long all of it takes on these workers if nothing else keeps them busy, without compiling. It is
        worked out from at most a quarter of a second of play for each row.
    cpu_seconds : the computing time of all workers together.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> cost = pmb.simulate("gini", pmb.Bandit.bernoulli([0.4, 0.9]), "uniform", horizon=100, trials=3, dry_run=True)
    >>> cost.rows[0]["rounds"]
    300
    """

    def __init__(self, rows: list[dict[str, Any]], workers: int) -> None:
        self.rows, self.workers = rows, workers

    @property
    def seconds(self) -> float:
        """About how long all of it takes on the workers, in seconds."""
        return float(sum(row["seconds"] for row in self.rows))

    @property
    def cpu_seconds(self) -> float:
        """The computing time of all workers together, in seconds."""
        return float(sum(row["seconds"] * min(self.workers, row["trials"]) for row in self.rows))

    def __str__(self) -> str:
        heads = list(self.rows[0])
        lines = [[f"{v:.3g}" if isinstance(v, float) else f"{v:,}" if isinstance(v, int) else v for v in row.values()]
                 for row in self.rows]  # fmt: skip
        right = [place for place, head in enumerate(heads) if head not in ("problem", "metric", "policy")]
        table = _text_tables.aligned_columns([tuple(heads), *map(tuple, lines)], right, rule=True)
        workers = f"{self.workers} worker{'s' * (self.workers > 1)}"
        return "\n".join(
            [
                *table,
                f"In all about {self.seconds:.3g} seconds on {workers}, or {self.cpu_seconds:.3g} CPU seconds, without "
                "compiling. Nothing was played for the result.",
            ]
        )

    __repr__ = __str__


def are_several_given(given: Any) -> bool:
    """Whether several metrics or bandits were given: a list, a tuple or a mapping of them."""
    return isinstance(given, (list, tuple, Mapping))


def metrics_or_bandits_by_name(given: Any, what: str) -> dict[str, Any]:
    """Metrics or bandits by their names: those of a mapping, or made from what they are."""
    if isinstance(given, Mapping):
        out = {str(name): value for name, value in given.items()}
    else:
        many = list(given) if are_several_given(given) else [given]
        if what == "metric":
            out = {value if isinstance(value, str) else repr(value): value for value in many}
        else:
            out = {f"problem {k}": value for k, value in enumerate(many)}
        if len(out) < len(many):
            raise ValueError(f"a {what} is given twice; give each once, or name them: {{'first': …, 'second': …}}.")
    if not out:
        raise ValueError(f"there is no {what}; give at least one.")
    strange = next((name for name in out if _validation.escape_control_characters(name) != name), None)
    if strange is not None:
        raise ValueError(f"the name {strange!r} has control characters in it; take them out.")
    return out


def prepare_study(metric: Any, bandit: Any, *arguments: Any, **options: Any) -> dict[Key, Experiment]:
    """The checked experiment of each pair of a problem and a metric."""
    metrics = {name: as_metric(one) for name, one in metrics_or_bandits_by_name(metric, "metric").items()}
    out = {}
    for problem, arms in metrics_or_bandits_by_name(bandit, "bandit").items():
        for name, one in metrics.items():
            with errors_that_name_problem((problem, name)):
                out[problem, name] = prepare_experiment(one, arms, *arguments, **options)
    return out


@contextmanager
def errors_that_name_problem(key: Key) -> Iterator[None]:
    """Let errors begin with the problem and the metric that they are about; not if the names are empty."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if key == ("", ""):
            raise
        raise type(error)(f"problem {key[0]!r}, metric {key[1]!r}: {error}") from None


def study_identity(experiments: Mapping[Key, Experiment]) -> str:
    """SHA-256 of everything that the results of a study depend on, except the choice of trials."""
    what = [[*key, experiment.identity_hash] for key, experiment in experiments.items()]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def assemble_study(experiments: Mapping[Key, Experiment], results: Results) -> Study:
    """Put the trials of all experiments together; they are numbered through."""
    runs, first = {}, 0
    for key, experiment in experiments.items():
        runs[key] = assemble_run(experiment, results, first)
        first += len(experiment.entries)
    return Study(runs)
