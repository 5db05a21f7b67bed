"""The regret of a run in parts: by the policy's grid (``eq:regret_decomposition``), or by what the policy did."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit
from pmbandits.engine.registry import REGISTRY
from pmbandits.engine.share_constraints import do_options_have_limits
from pmbandits.mixtures import etc_grid, ucb_grid
from pmbandits.optimize import utilities
from pmbandits.schedules import refinement_phases

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pmbandits.simulation.run import Run

_GRID_POLICIES = ("pmetc", "pmucb", "ceucb", "fixed_grid")  # policies that choose among the points of one grid


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Regret = estimation + selection, at every checkpoint (``eq:regret_decomposition``).

    Attributes
    ----------
    policy, horizon : which run it is.
    grid : the mixtures among which the policy chooses, in words.
    best : the utility of the best mixture of all.
    best_of_grid : the utility of the i-th best mixture of the grid.
    t, regret : the checkpoints, and the regret at them, one row for each trial.
    """

    policy: str
    horizon: int
    grid: str
    best: float
    best_of_grid: float
    t: NDArray[np.int64] = field(repr=False)
    regret: FloatArray = field(repr=False)

    @property
    def estimation(self) -> float:
        """δ_0i: utility of the best mixture of all, minus that of the i-th best of the grid."""
        return self.best - self.best_of_grid

    @property
    def selection(self) -> FloatArray:
        """Utility of the i-th best mixture of the grid, minus that of the shares played; one row for each trial.

        It can be negative, because the shares that were played may lie between grid points, and be better than all of
        them.
        """
        return self.regret - self.estimation

    def plot(self, ax: Axes | None = None, *, path: str | Path | None = None) -> Axes:
        """Draw the regret and its two parts against rounds."""
        from pmbandits.plots import plot_decomposition

        return plot_decomposition(self, ax, path=path)

    def __str__(self) -> str:
        end, error = self.regret[:, -1], self.regret[:, -1].std(ddof=1) / np.sqrt(max(len(self.regret), 1))
        return (
            f"{self.policy}, {self.grid}: regret {end.mean():.3g} ± {error:.1g} at t = {int(self.t[-1]):,} is "
            f"{self.estimation:.3g} (estimation) + {end.mean() - self.estimation:.3g} (selection)"
        )


@dataclass(frozen=True, eq=False)
class RegretParts:
    """Regret = estimation + tracking + exploration, at every checkpoint; one row for each trial.

    Each part says how much utility is lost in one step, from the best mixture to the shares that were played. A part
    can be negative where such a step gains by chance.

    Attributes
    ----------
    policy, horizon : which run it is.
    t, regret : the checkpoints, and the regret at them.
    estimation : utility of the best mixture, minus that of the mixture that the policy had found by then.
    tracking : utility of that mixture, minus that of the shares played of its arms. This is what whole pulls, delays,
        and earlier mixtures cost.
    exploration : utility of these shares, minus that of all shares played. This is what pulls of arms cost that have
        no place in the mixture.
    """

    policy: str
    horizon: int
    t: NDArray[np.int64] = field(repr=False)
    regret: FloatArray = field(repr=False)
    estimation: FloatArray = field(repr=False)
    tracking: FloatArray = field(repr=False)
    exploration: FloatArray = field(repr=False)

    def __str__(self) -> str:
        means = [float(part[:, -1].mean()) for part in (self.regret, self.estimation, self.tracking, self.exploration)]
        return (
            f"{self.policy}: regret {means[0]:.3g} at t = {int(self.t[-1]):,} is {means[1]:.3g} (estimation) + "
            f"{means[2]:.3g} (tracking) + {means[3]:.3g} (exploration)"
        )


def split_regret(run: Run, policy: str, horizon: int | None = None) -> RegretParts:
    """Split the regret of a policy into what it did, as :meth:`Run.regret_parts` documents."""
    _require_stationary(run)
    t, regret = run.regret(policy, horizon)
    shares = run.column("pulls", policy, horizon)[1] / t[:, None]
    mixture = run.column("mixture", policy, horizon)[1]
    inside = np.where(mixture > 0.0, shares, 0.0)
    total = inside.sum(axis=-1, keepdims=True)
    none_yet = total == 0.0  # none of its arms was pulled
    inside = np.where(none_yet, mixture, inside) / np.where(none_yet, 1.0, total)
    bandit = run.bandit
    assert isinstance(bandit, Bandit)
    rows = np.concatenate([part.reshape(-1, bandit.n_arms) for part in (mixture, inside, shares)])
    found, of_inside, played = utilities(run.metric, bandit, rows).reshape(3, *regret.shape)
    exploration, tracking = of_inside - played, found - of_inside
    horizon = int(t[-1]) if horizon is None else horizon
    return RegretParts(policy, horizon, t, regret, regret - tracking - exploration, tracking, exploration)


def _require_stationary(run: Run) -> None:
    if run.population is not None:
        raise ValueError(
            "in this run people come from segments, so its regret has no such parts; simulate one segment."
        )
    if not run.is_stationary:
        raise ValueError(
            "in this run arms change, or come and go, so its regret has no such parts; simulate arms that do not."
        )


def decompose_regret(
    run: Run,
    policy: str,
    horizon: int | None = None,
    *,
    epsilon: float | None = None,
    grid: Literal["etc", "ucb"] | None = None,
    rank: int = 1,
) -> Decomposition:
    """Split the regret of a policy into estimation and selection, as :meth:`Run.decomposition` documents."""
    rank = _validation.check_whole_number("rank", rank, 1)
    _require_stationary(run)
    t, regret = run.regret(policy, horizon)
    horizon = int(t[-1]) if horizon is None else horizon
    bandit, metric = run.bandit, run.metric
    assert isinstance(bandit, Bandit)
    points: FloatArray | None
    if epsilon is not None:
        kind = "etc" if grid is None else _validation.check_choice("grid", grid, ["etc", "ucb"])
        points = etc_grid(bandit.n_arms, epsilon) if kind == "etc" else ucb_grid(bandit.n_arms, epsilon)
        text = f"{len(points)} mixtures of the {kind} grid with ε = {epsilon:.4g}"
    elif grid is not None:
        raise ValueError(f"grid={grid!r} was given without epsilon; give the spacing of the grid, too.")
    else:
        points, text = _grid_of_policy_and_description(run, policy, horizon)
    best = run.best.value
    of_grid = best
    if points is not None:
        values = np.sort(utilities(metric, bandit, points))[::-1]
        if rank > values.size:
            raise ValueError(f"the grid has {values.size} mixtures, fewer than rank = {rank}.")
        best, of_grid = max(best, float(values[0])), float(values[rank - 1])
    return Decomposition(policy, horizon, text, best, of_grid, t, regret)


def _grid_of_policy_and_description(run: Run, label: str, horizon: int) -> tuple[FloatArray | None, str]:
    """Return the grid from which a policy of the run chose (``None`` for all mixtures), and its description."""
    entry: dict[str, Any] = next(p for p in run.spec["policies"] if p["label"] == label)
    name, count = entry["policy"], run.bandit.n_arms
    if name == "cirt":
        options = entry["options"]
        half = options["branching"] // 2
        total = options["branching"] * half ** refinement_phases(options["epsilon"], options["branching"])
        return ucb_grid(count, 1.0 / total), f"all grids that it can track, half steps of 1/{total}"
    if name not in _GRID_POLICIES:
        return None, "all mixtures"
    options = dict(entry["options"])
    if not isinstance(options.get("confidence", ""), str):
        options["confidence"] = "auto"  # one of your own; it has no say in the grid
    if "horizon" in options:
        options["horizon"] = horizon
    if "shares" in run.spec and not do_options_have_limits(options):
        options["shares"] = run.spec["shares"]
    made = REGISTRY[name](run.metric, n_arms=count, support=run.bandit.support, names=run.bandit.names, **options)
    memory = made._memory
    if memory.continuous == 1 and memory.min_share > 0.0:
        raise ValueError(
            f"{label} searched all mixtures with weights of at least {memory.min_share:.3g}, not a grid; give epsilon= "
            "to compare with a grid."
        )
    if memory.continuous == 1:
        return None, "all mixtures"
    points = np.array(memory.grid[: memory.n_grid_used])
    return points, f"{len(points)} mixtures of its grid, ε = {made.epsilon:.4g}"
