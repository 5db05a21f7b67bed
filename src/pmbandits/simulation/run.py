"""The result of a simulation: a table with one row for each policy, trial and checkpoint, and what made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits._extras import import_optional
from pmbandits._files import write_atomically
from pmbandits._intervals import CONFIDENCE_LEVEL
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit
from pmbandits.changing import Changing
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize import OracleResult
from pmbandits.population import Population
from pmbandits.simulation.files import read_run, table_with_provenance
from pmbandits.simulation.summary import Difference, Summary, paired_difference, summarise_run

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from matplotlib.axes import Axes

    from pmbandits.simulation.decomposition import Decomposition, RegretParts


class Run:
    """The result of :func:`simulate`: what each policy played, and its regret.

    It has one row for each policy, horizon, trial and checkpoint. The columns are ``regret`` V(α*) − V(τ_t/t),
    ``utility`` V(τ_t/t), ``pulls``, the policy's own ``mixture``, and the rounds after which its phases ended
    (``phase_ends``).

    Where arms change, or come and go, time falls into periods in which nothing changes. Then ``utility`` is the mean
    over the rounds of the utility of the shares that were played in each period. ``regret`` is how much more the best
    mixtures of the periods reach. There is one more column: ``declared``, by how much the policy's own mixture
    falls short of the best mixture of the period.

    With segments, the arms of a run are pairs of a segment and an arm, such as ``new: A``, and ``population`` has the
    segments. ``utility`` is that of the whole population: of the shares that were played within each segment, and the
    true frequencies of segments.

    Attributes
    ----------
    policies : the names of the policies, in the order given.
    best : the best mixture, as :func:`oracle` answers it. Where things change, its utility and weights are means over
        the rounds, and ``periods`` has those of each period.
    arm_utilities : the utility of every arm alone.
    names, n_arms, horizon, trials, seed, metric, bandit, shares, library : facts about the run; ``horizon`` is the
        longest.
    changes : the rounds after which something changed.
    spec : what made this run: bandit, metric, policies, horizons, trials and seed, in a form that can be written as
        JSON.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> run = pmb.simulate("gini", pmb.Bandit.bernoulli([0.4, 0.9]), ["uniform"], horizon=100, trials=3)
    >>> run.policies, round(run.best.value, 6)
    (('Uniform',), 0.25)
    """

    def __init__(
        self, table: pa.Table, provenance: Mapping[str, Any], seconds: NDArray[np.float64] | None = None,
        *, metric: Distortion | None = None, bandit: Bandit | Changing | None = None,
    ) -> None:  # fmt: skip
        self._table = table
        self._metric, self._bandit = metric, bandit  # those that were played, if this is no run from a file
        self.provenance = dict(provenance)
        self._seconds = seconds  # seconds of each trial, in the order of the table

    # ---- reading ---------------------------------------------------------------------------------------
    @property
    def spec(self) -> dict[str, Any]:
        """The specification of this run, as JSON."""
        return dict(self.provenance["spec"])

    @property
    def seed(self) -> int:
        """The seed of all rewards."""
        return int(self.provenance["spec"]["seed"])

    @property
    def best(self) -> OracleResult:
        """The best mixture of the true arms; where things change, the mean over the rounds."""
        found, alone = self.provenance["best"], self.arm_utilities
        gap = found["gap"]
        return OracleResult(
            weights=np.array(found["weights"], dtype=np.float64), value=float(found["value"]),
            gap=np.nan if gap is None else float(gap), certified=gap is not None, best_arm=int(np.argmax(alone)),
            best_arm_value=float(alone.max()), unique=None, alternative=None, method="simulate", names=self.names,
        )  # fmt: skip

    @property
    def arm_utilities(self) -> FloatArray:
        """The utility of every arm alone; where things change, the mean over the periods in which it plays."""
        return np.array(self.provenance["best"]["arms"], dtype=np.float64)

    def _arm_gaps(self) -> FloatArray:
        """By how much each arm alone falls short of the best one; 0 for what is rounding only."""
        gaps = self.arm_utilities.max() - self.arm_utilities
        return np.where(gaps > 1e-14 * np.abs(self.arm_utilities).max(), gaps, 0.0)

    @property
    def periods(self) -> list[dict[str, Any]]:
        """Where things change: the start of each period, and the utility (``value``) and weights of its best mix."""
        return list(self.provenance["best"].get("periods", ()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arms."""
        return tuple(self.provenance["spec"]["bandit"]["names"])

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return len(self.names)

    @property
    def horizon(self) -> int:
        """The longest horizon."""
        return max(h for horizons in self._horizons_by_policy().values() for h in horizons)

    @property
    def shares(self) -> str | None:
        """The limits on the shares of the arms, as text; ``None`` if there are none."""
        return self.provenance["spec"].get("shares")

    @property
    def library(self) -> str:
        """The version of the library that made the run."""
        return str(self.provenance["library"])

    @property
    def changes(self) -> tuple[int, ...]:
        """The rounds after which the arms changed, or came, or went; empty if nothing changes."""
        return tuple(period["start"] for period in self.provenance["best"].get("periods", ())[1:])

    @property
    def is_stationary(self) -> bool:
        """Whether the arms and their schedule are stationary. Then regret is that of the paper."""
        return "periods" not in self.provenance["best"]

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies' names."""
        return tuple(p["label"] for p in self.provenance["spec"]["policies"])

    @property
    def trials(self) -> tuple[int, ...]:
        """The trials' numbers."""
        return tuple(self.provenance["spec"]["trials"])

    @property
    def bandit(self) -> Bandit | Changing:
        """The arms; of a run from a file they are made again, which cannot be done for distributions of your own."""
        data = self.provenance["spec"]["bandit"]
        return self._bandit or (Changing.from_dict(data) if "changing" in data else Bandit.from_dict(data))

    @property
    def population(self) -> Population | None:
        """With segments: who comes how often, and the arms of each segment; ``None`` without segments."""
        found = self.provenance["spec"].get("segments")
        return None if found is None else Population.from_dict(found, cast(Bandit, self.bandit))

    @property
    def metric(self) -> Distortion:
        """The metric; in a run from a file it is made again, which cannot be done for a function of your own."""
        data = self.provenance["spec"]["metric"]
        if self._metric is None and "custom" in data:
            raise ValueError(
                f"the metric was a function, {data['custom']}; code is never stored, so it cannot be made again."
            )
        return self._metric or Distortion.from_dict(data)

    def horizons(self, policy: str) -> tuple[int, ...]:
        """The horizons that a policy was run for; only one for an anytime policy."""
        return self._horizons_by_policy()[_validation.check_choice("policy", policy, self.policies)]

    def _given_or_longest_horizon(self, policy: str, horizon: int | None) -> int:
        known = self.horizons(policy)
        if horizon is None:
            return max(known)
        if horizon not in known:
            raise ValueError(f"{policy} was not run for {horizon} rounds, but for {', '.join(map(str, known))}.")
        return horizon

    def _horizons_by_policy(self) -> dict[str, tuple[int, ...]]:
        return {p["label"]: tuple(p["horizons"]) for p in self.provenance["spec"]["policies"]}

    def _rows(self, policy: str, horizon: int | None) -> pa.Table:
        """The rows of a policy, of one horizon; by default of the longest."""
        import pyarrow.compute as pc

        horizon = self._given_or_longest_horizon(policy, horizon)
        return self._table.filter(
            pc.and_(pc.equal(self._table["policy"], policy), pc.equal(self._table["horizon"], horizon))
        )

    def column(self, name: str, policy: str, horizon: int | None = None) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The checkpoints, and the values of a column at them: one row for each trial, one column for each checkpoint.

        Parameters
        ----------
        name : ``"regret"``, ``"utility"``, ``"pulls"`` or ``"mixture"`` (the last two have the arms as a third axis);
            where things change also ``"declared"``. ``"arm_regret"`` is the cumulative regret to the best single arm
            that papers on CVaR bandits report: the sum over rounds of its utility less that of the arm pulled.
        policy, horizon : which run; by default the one with the longest horizon.
        """
        known = ["regret", "utility", "pulls", "mixture"]
        _validation.check_choice("column", name, [*known, "arm_regret"] if self.is_stationary else [*known, "declared"])
        if name == "arm_regret":
            t, pulls = self.column("pulls", policy, horizon)
            return t, pulls @ self._arm_gaps()
        part = self._rows(policy, horizon)
        t = part["t"].to_numpy()
        per_trial = t.size // len(self.trials)
        values = part[name].combine_chunks()
        if name in ("pulls", "mixture"):
            flat = values.flatten().to_numpy(zero_copy_only=False)
            return t[:per_trial], flat.reshape(len(self.trials), per_trial, -1)
        return t[:per_trial], values.to_numpy(zero_copy_only=False).reshape(len(self.trials), per_trial)

    def phase_ends(self, policy: str, trial: int, horizon: int | None = None) -> tuple[int, ...]:
        """The rounds after which a policy's phases ended in one trial."""
        import pyarrow.compute as pc

        rows = self._rows(policy, horizon)
        found = rows.filter(pc.equal(rows["trial"], trial))["phase_ends"]
        return tuple(sorted({int(t) for ends in found.to_pylist() for t in ends or ()}))

    def regret(self, policy: str, horizon: int | None = None) -> tuple[NDArray[np.int64], FloatArray]:
        """The checkpoints, and the regret at them: one row for each trial.

        A row is the regret of the shares that were played in that trial (``eq:any_regret``); the mean of the rows
        estimates the expected regret (``eq:regret``).

        >>> import pmbandits as pmb
        >>> run = pmb.simulate(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), pmb.Uniform(), 100, trials=3)
        >>> t, regret = run.regret("Uniform")
        >>> regret.shape == (3, t.size)
        True
        """
        return self.column("regret", policy, horizon)

    def decomposition(
        self,
        policy: str,
        horizon: int | None = None,
        *,
        epsilon: float | None = None,
        grid: Literal["etc", "ucb"] | None = None,
        rank: int = 1,
    ) -> Decomposition:
        """Split the regret in two parts: what the grid costs, and what the policy's choices cost.

        The first part, estimation, is what the best mixture of the grid loses to the best of all, δ_01(ε). The second
        part, arm selection, is the rest (``eq:regret_decomposition``).

        For CIRT the grid is the union of all that it can end with. (The paper takes the mixture that CIRT plays at T in
        place of the grid's best: that is the column ``mixture``.)

        Parameters
        ----------
        policy, horizon : which run; by default the one with the longest horizon.
        epsilon, grid : the spacing and the kind of the grid to compare with. By default it is the policy's own grid
            (none, if it chooses among all mixtures).
        rank : i of δ_0i: 1 for the best mixture of the grid, 2 for its second best.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> run = pmb.simulate(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.85]),
        ...                    pmb.PMETC(horizon=2000, epsilon=0.25), 2000, trials=5)
        >>> parts = run.decomposition("PMETC")
        >>> round(parts.estimation, 6), bool(abs(parts.estimation + parts.selection - parts.regret).max() < 1e-15)
        (0.000156, True)
        """
        from pmbandits.simulation.decomposition import decompose_regret

        return decompose_regret(self, policy, horizon, epsilon=epsilon, grid=grid, rank=rank)

    def regret_parts(self, policy: str, horizon: int | None = None) -> RegretParts:
        """Split the regret by what the policy did: estimation, tracking and exploration.

        Estimation is what the mixture lacks that the policy had found by then. Tracking is what it costs that the
        shares of the mixture's arms are not exactly those of the mixture. Exploration is what pulls of other arms cost.
        Policies whose mixture is the shares that they played (such as :class:`UCFW`) have estimation only.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> run = pmb.simulate(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.6, 0.9]), pmb.Track(), 2000, trials=5)
        >>> parts = run.regret_parts("Track")
        >>> bool(abs(parts.estimation + parts.tracking + parts.exploration - parts.regret).max() < 1e-12)
        True
        """
        from pmbandits.simulation.decomposition import split_regret

        return split_regret(self, policy, horizon)

    def seconds(self, policy: str, horizon: int | None = None) -> FloatArray:
        """The computing time of each trial in seconds, without compiling.

        It is NaN where it was not kept: files do not keep it, because the same run must always give the same file.
        """
        known = [(label, h) for label, horizons in self._horizons_by_policy().items() for h in horizons]
        place = known.index((policy, self._given_or_longest_horizon(policy, horizon)))
        count = len(self.trials)
        if self._seconds is None:
            return np.full(count, np.nan)
        return self._seconds[place * count : (place + 1) * count]

    def difference(
        self, policy: str, other: str, t: int | None = None, *, level: float = CONFIDENCE_LEVEL
    ) -> Difference:
        """The regret of one policy minus that of another on the same rewards, with an interval for its mean.

        Parameters
        ----------
        policy, other : the two policies.
        t : the checkpoint at which they are compared; by default the last one that both have.
        level : how often the interval should hold. It is for two policies that you named before you saw the run. If you
            compare many, or with the best one, take :meth:`summary`, whose intervals allow for that.
        """
        found = []
        for label in (policy, other):
            series: dict[int, FloatArray] = {}
            for horizon in sorted(self.horizons(label), reverse=True):
                times, regret = self.regret(label, horizon)
                if not series:  # the longest run; each shorter horizon has a run of its own
                    series.update({int(x): regret[:, c] for c, x in enumerate(times)})
                series[int(times[-1])] = regret[:, -1]
            found.append(series)
        common = sorted(set(found[0]) & set(found[1]))
        if not common or (t is not None and t not in common):
            raise ValueError(f"{policy} and {other} have no common checkpoint{'' if t is None else f' {t}'}.")
        at = common[-1] if t is None else t
        gap = found[0][at] - found[1][at]
        return paired_difference(policy, other, at, gap, level)

    def summary(self, t: int | None = None) -> Summary:
        """A table with the mean regret of each policy, and what it played.

        The mean regret has a 95 % interval. The table also has quantiles, shares of pulls, the mixture, and time.

        Parameters
        ----------
        t : the checkpoint to look at; by default the end of every run.
        """
        return summarise_run(self, t)

    def rescore(self, metric: Distortion | str, bandit: Bandit | None = None) -> Run:
        """Score the pulls of this run by another metric: regret and utility are new, and nothing is played again.

        Parameters
        ----------
        metric : the metric by which to score. The policies played for the one that they had.
        bandit : the arms; only needed for a run from a file, if one of them is a distribution of your own.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> run = pmb.simulate("gini", pmb.Bandit.bernoulli([0.4, 0.9]), ["track"], horizon=300, trials=4)
        >>> run.rescore("mean").best.weights.tolist()
        [0.0, 1.0]
        """
        from pmbandits.simulation.assemble import rescored_run

        return rescored_run(self, as_metric(metric), bandit)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        column: str = "regret",
        policies: Sequence[str] | None = None,
        title: str | None = None,
        path: str | Path | None = None,
    ) -> Axes:
        """Draw the regret against rounds on logarithmic axes, with 95 % intervals as bands.

        Parameters
        ----------
        ax : the axes to draw on; by default new ones.
        column : ``"regret"``, or ``"arm_regret"``, the cumulative regret to the best single arm.
        policies : the policies to draw; by default all.
        title : the title of the picture.
        path : a file to which the picture is written, if given.
        """
        from pmbandits.plots import plot_regret

        return plot_regret(self, ax, column=column, policies=policies, title=title, path=path)

    # ---- other forms -----------------------------------------------------------------------------------
    def to_arrow(self) -> pa.Table:
        """The table as a pyarrow table, with what made it in the metadata."""
        return table_with_provenance(self._table, self.provenance)

    def wide_table(self) -> pa.Table:
        """The table with one column for each arm: ``pulls_A``, ``mixture_A`` for an arm A. The phases are left out."""
        import pyarrow as pa

        table, k = self._table, self.n_arms
        columns = {name: table[name] for name in table.column_names if name not in ("pulls", "mixture", "phase_ends")}
        numbers = {name: table[name].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(-1, k)
                   for name in ("pulls", "mixture")}  # fmt: skip
        if self.is_stationary:
            columns["arm_regret"] = numbers["pulls"] @ self._arm_gaps()
        for name, values in numbers.items():
            columns |= {f"{name}_{arm}": values[:, i] for i, arm in enumerate(self.names)}
        return pa.table(columns)

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas data frame, with one column for each arm: ``pulls_A``, ``mixture_A``."""
        import_optional("pandas", "frames of pandas")
        return self.wide_table().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The table as a polars data frame, with one column for each arm: ``pulls_A``, ``mixture_A``."""
        return import_optional("polars", "frames of polars").from_arrow(self.wide_table())

    def to_xarray(self) -> Any:
        """The run as an xarray data set with the dimensions policy, trial, t and arm; NaN where nothing was measured.

        Of a policy with several horizons it has the run with the longest.
        """
        xarray = import_optional("xarray", "data sets of xarray")
        coordinates = {"policy": list(self.policies), "trial": list(self.trials), "t": self.checkpoints,
                       "arm": list(self.names)}  # fmt: skip
        return xarray.Dataset(self.labelled_arrays(self.checkpoints, self.names), coordinates)

    @property
    def checkpoints(self) -> list[int]:
        """The rounds at which any of the policies was measured, in its longest run."""
        return sorted({int(t) for label in self.policies for t in self.column("regret", label)[0]})

    def labelled_arrays(
        self, times: Sequence[int], arms: Sequence[str]
    ) -> dict[str, tuple[tuple[str, ...], FloatArray]]:
        """Every column as an array over policy, trial, these times and these arms, with the names of its axes.

        It is NaN where nothing was measured, and for arms that this run does not have.
        """
        shape = (len(self.policies), len(self.trials), len(times))
        places = [list(arms).index(name) for name in self.names]
        variables: dict[str, tuple[tuple[str, ...], FloatArray]] = {}
        for name in ("regret", "utility", "arm_regret" if self.is_stationary else "declared", "pulls", "mixture"):
            per_arm = name in ("pulls", "mixture")
            values = np.full((*shape, len(arms)) if per_arm else shape, np.nan)
            for place, label in enumerate(self.policies):
                t, found = self.column(name, label)
                at = np.searchsorted(times, t)
                if per_arm:
                    values[place][:, at[:, None], places] = found
                else:
                    values[place][:, at] = found
            variables[name] = (("policy", "trial", "t", "arm") if per_arm else ("policy", "trial", "t"), values)
        return variables

    def save(self, path: str | Path) -> None:
        """Write the run as a Parquet file, completely or not at all.

        The same run always gives the same bytes, so computing times are left out.
        """
        import pyarrow.parquet as pq

        write_atomically(Path(path), lambda file: pq.write_table(self.to_arrow(), file, compression="zstd"))

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """Load a run that was saved. Files from strangers can do no harm: what cannot be a run is refused."""
        return cls(*read_run(Path(path)))

    def equals(self, other: Run) -> bool:
        """Whether two runs hold exactly the same (computing times aside).

        >>> import pmbandits as pmb
        >>> play = lambda jobs: pmb.simulate(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), pmb.CIRT(), 200,
        ...                                  trials=4, n_jobs=jobs)
        >>> play(1).equals(play(2))
        True
        """
        return self.provenance == other.provenance and bool(self._table.equals(other._table))

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def __repr__(self) -> str:
        rounds = f"{len(self.trials)} trials, up to {self.horizon:,} rounds"
        return f"Run({', '.join(self.policies)}; {rounds}, seed {self.seed})"
