"""The published risk-sensitive bandits beside the paper's algorithms (section ``sec: risk_application``).

Four parts: lower-tail CVaR on random laws, many arms with continuous rewards, distortion risk measures, and instances
whose best decision is a mixture. Every policy is scored alike, by V(α*) − V(τ_T/T). MV-LCB has another objective and a
table of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.arms import Bandit, utility
from pmbandits.best import oracle
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.families import LowerCVaR, Mean
from pmbandits.paper import risk_arms as arms
from pmbandits.paper.outcome import Claim, Context, Outcome, Shown
from pmbandits.plots import COLOURS, STYLE
from pmbandits.policies import (
    BCVTS,
    CEUCB,
    CIRT,
    MCVTS,
    MVLCB,
    PMETC,
    PMUCB,
    UCB1,
    UUCB,
    WUCB,
    BrownUCB,
    CVaRUCB,
    Policy,
    RhoNPTS,
    SolitaryUCB,
    Thompson,
    Track,
    Uniform,
)
from pmbandits.simulation import simulate

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS_UCB, OURS_CE, OURS_ETC = "PM-UCB-M, ε = 1", "CE-UCB-M, ε = 1", "PM-ETC-M, ε = 1"
OURS = (OURS_UCB, OURS_CE, OURS_ETC, "PM-ETC-M", "PM-UCB-M", "CE-UCB-M", "CIRT")  # the paper's
TRACK = "Track"  # this library's own: shown where a mixture is best, not judged
# One look for each policy in all figures: colour, dash, mark. The paper's are blue and drawn thicker.
LOOKS: dict[str, tuple[str, Any, str]] = {
    "UCB1": ("0.55", ":", "x"),
    "Thompson": ("0.55", "-", "+"),
    "CVaR-UCB": (COLOURS[4], "--", "s"),
    "Brown-UCB": (COLOURS[3], ":", "v"),
    "U-UCB": (COLOURS[3], "--", "D"),
    "W-UCB": (COLOURS[2], "--", "P"),
    "M-CVTS": (COLOURS[2], "-", "^"),
    "B-CVTS": (COLOURS[1], "-", "o"),
    "ρ-NPTS": (COLOURS[1], "-", "o"),
    OURS_UCB: (COLOURS[0], "-", "*"),
    OURS_CE: (COLOURS[0], "--", "h"),
    OURS_ETC: (COLOURS[0], ":", "d"),
    "PM-ETC-M": (COLOURS[0], ":", "d"),
    "PM-UCB-M": (COLOURS[0], "-", "*"),
    "CE-UCB-M": (COLOURS[0], "--", "h"),
    "CIRT": (COLOURS[5], "-", "<"),
    TRACK: ("black", "-", "p"),
}


@dataclass(frozen=True)
class Sizes:
    """How much is played."""

    instances: int
    trials: int
    horizon: int
    long_trials: int
    long_horizon: int
    drm_trials: int
    drm_horizon: int
    mixed_trials: int
    mixed_horizon: int


FULL = Sizes(20, 5, 10_000, 12, 10_000, 16, 5_000, 30, 50_000)
QUICK = Sizes(2, 2, 1_000, 2, 1_000, 2, 600, 4, 5_000)
CHECKPOINTS = 16


@dataclass(frozen=True)
class Series:
    """Regret of the policies on one setting: rows are trials (or instances), columns checkpoints."""

    title: str
    t: NDArray[np.int64]
    regret: Mapping[str, FloatArray]
    shares: Mapping[str, FloatArray]
    floor: float | None = None

    def last(self, label: str) -> tuple[float, float]:
        """Mean and standard error at the end."""
        return _mean_error(self.regret[label][:, -1])

    def ranking(self) -> list[str]:
        """From the least regret to the most."""
        return sorted(self.regret, key=lambda label: self.last(label)[0])

    def tied(self) -> list[str]:
        """The winner, and whoever is within two standard errors of it on the same rewards."""
        leader = self.ranking()[0]
        out = []
        for label in self.ranking():
            gap, error = _mean_error(self.regret[label][:, -1] - self.regret[leader][:, -1])
            if gap <= 2.0 * error or label == leader:
                out.append(label)
        return out


def risk(context: Context) -> Outcome:
    """All four parts, the mean–variance table, and what they say."""
    sizes = QUICK if context.quick else FULL
    cvar = [_cvar(context, sizes, level) for level in arms.LEVELS]
    many = _many_arms(context, sizes)
    drms = [_drm(context, sizes, metric) for metric in arms.DISTORTIONS]
    mixed = [_mixed(context, sizes, case) for case in arms.mixture_optimal()]
    figures = {
        "risk-cvar": _figure(cvar, "Lower-tail CVaR: 5 random laws on {0, 0.1, …, 1}"),
        "risk-many-arms": _figure([many], "30 truncated Gaussian mixtures"),
        "risk-drm": _figure(drms, "Distortion risk measures on Beta(1, 3), Beta(3, 3), Beta(3, 1)"),
        "risk-mixtures": _figure(mixed, "Where a mixture is best"),
    }
    shown = [
        _table("Part 1: lower-tail CVaR, 5 arms drawn uniformly from all laws on {0, 0.1, …, 1}, "
               f"{sizes.instances} instances × {sizes.trials} trials, T = {sizes.horizon:,}. "
               "Regret ± standard error over instances.", cvar),
        _table(f"Part 2: lower-tail CVaR at α = {arms.MIXTURES_METRIC.alpha:g}, 30 truncated Gaussian mixtures, "
               f"{sizes.long_trials} trials, T = {sizes.long_horizon:,}.", [many]),
        _table("Part 3: distortion risk measures on Beta(1, 3), Beta(3, 3), Beta(3, 1), "
               f"{sizes.drm_trials} trials, T = {sizes.drm_horizon:,}.", drms),
        _table("Part 4: instances where a mixture is best, "
               f"{sizes.mixed_trials} trials, T = {sizes.mixed_horizon:,}. Floor: what the best single arm leaves. "
               "Track is this library's own policy; no claim is about it.",
               mixed),
        _winners([*cvar, many, *drms, *mixed]),
        _mean_variance(context, sizes),
    ]  # fmt: skip
    claims = [_claim_solitary_is_cvar_ucb([*cvar, many]), _claim_thompson_wins([*cvar, many, *drms]),
              *_claims_drm(drms), _claim_floor(mixed), _claim_below_floor(mixed)]  # fmt: skip
    return Outcome(
        name="risk",
        title="Risk-sensitive bandits: the published algorithms, on equal terms",
        text=_text(cvar, many, drms, mixed),
        claims=claims,
        figures=figures,
        data={"risk": _data({"cvar": cvar, "many-arms": [many], "drm": drms, "mixtures": mixed})},
        shown=shown,
        notes={"sizes": vars(sizes), "seed": context.seed},
    )


# ---- what is played --------------------------------------------------------------------------------------


def _solitary(horizon: int) -> dict[str, Policy]:
    """The paper's algorithms when they must decide for one arm.

    PM-ETC-M takes ε = 1 as it stands; its default would explore for half of all rounds, so it is given a tenth.
    """
    return {
        OURS_UCB: SolitaryUCB(horizon=horizon),
        OURS_CE: SolitaryUCB(horizon=horizon, index="additive"),
        OURS_ETC: PMETC(horizon=horizon, epsilon=1.0, n_explore=horizon // 10),
    }


def _for_the_mean() -> dict[str, Policy]:
    return {"UCB1": UCB1(), "Thompson": Thompson()}


def _for_cvar(horizon: int) -> dict[str, Policy]:
    return {
        **_for_the_mean(),
        "CVaR-UCB": CVaRUCB(horizon=horizon),
        "Brown-UCB": BrownUCB(horizon=horizon),
        "U-UCB": UUCB(),
        "B-CVTS": BCVTS(),
        **_solitary(horizon),
    }


def _for_any(horizon: int) -> dict[str, Policy]:
    return {**_for_the_mean(), "U-UCB": UUCB(), "W-UCB": WUCB(), "ρ-NPTS": RhoNPTS()}


def _for_mixtures(horizon: int) -> dict[str, Policy]:
    return {
        **_for_any(horizon),
        "PM-ETC-M": PMETC(horizon=horizon, epsilon=1 / 16),
        "PM-UCB-M": PMUCB(horizon=horizon, epsilon=1 / 16),
        "CE-UCB-M": CEUCB(horizon=horizon, epsilon=1 / 16),
        "CIRT": CIRT(epsilon=0.12),
        TRACK: Track(),
    }


def _play(
    context: Context, name: str, bandit: Bandit, metric: Distortion, policies: Mapping[str, Policy], horizon: int,
    trials: int,
) -> Any:  # fmt: skip
    return simulate(
        bandit, metric, policies, horizon, trials, context.seed, checkpoints=CHECKPOINTS, n_jobs=context.jobs,
        progress=context.progress, out=context.folder / "risk" / name,
    )  # fmt: skip


def _series(run: Any, title: str, floor: float | None = None) -> Series:
    regret = {label: run.regret(label)[1] for label in run.policies}
    shares = {label: run.column("pulls", label)[1][:, -1].mean(axis=0) for label in run.policies}
    shares = {label: pulls / pulls.sum() for label, pulls in shares.items()}
    return Series(title, run.regret(run.policies[0])[0], regret, shares, floor)


def _cvar(context: Context, sizes: Sizes, level: float) -> Series:
    parts = []
    for number in range(sizes.instances):
        policies = {**_for_cvar(sizes.horizon), "M-CVTS": MCVTS()}
        run = _play(context, f"cvar-{level:g}-{number}", arms.simplex_arms(number), LowerCVaR(level), policies,
                    sizes.horizon, sizes.trials)  # fmt: skip
        parts.append(_series(run, ""))
    regret = {label: np.stack([p.regret[label].mean(axis=0) for p in parts]) for label in parts[0].regret}
    return Series(f"CVaR, α = {level:g}", parts[0].t, regret, {})


def _many_arms(context: Context, sizes: Sizes) -> Series:
    run = _play(context, "many-arms", arms.gaussian_mixtures(), arms.MIXTURES_METRIC, _for_cvar(sizes.long_horizon),
                sizes.long_horizon, sizes.long_trials)  # fmt: skip
    return _series(run, f"CVaR, α = {arms.MIXTURES_METRIC.alpha:g}, K = 30")


def _drm(context: Context, sizes: Sizes, metric: Distortion) -> Series:
    policies = {**_for_any(sizes.drm_horizon), **_solitary(sizes.drm_horizon)}
    run = _play(context, f"drm-{metric.name}", arms.beta_arms(), metric, policies, sizes.drm_horizon, sizes.drm_trials)
    return _series(run, repr(metric))


def _mixed(context: Context, sizes: Sizes, case: arms.Mixed) -> Series:
    policies = _for_mixtures(sizes.mixed_horizon)
    run = _play(context, case.key, case.arms, case.metric, policies, sizes.mixed_horizon, sizes.mixed_trials)
    best = oracle(case.metric, case.arms)
    corners = [utility(case.metric, case.arms, row) for row in np.eye(case.arms.n_arms)]
    return _series(run, case.title, best.value - max(corners))


# ---- mean–variance: another objective, another score ------------------------------------------------------


def mean_variance(bandit: Bandit, weights: FloatArray, rho: float) -> float:
    """Variance − ρ·mean of the mixture of the arms: what MV-LCB makes small, scored for what was played.

    >>> import scipy.stats as st
    >>> mean_variance(Bandit([st.uniform(0, 1)]), np.ones(1), 1.0).__round__(12)
    -0.416666666667
    """
    moments = np.array([law.frozen.stats(moments="mv") for law in bandit.laws])  # type: ignore[union-attr]
    mean = float(weights @ moments[:, 0])
    second = float(weights @ (moments[:, 1] + moments[:, 0] ** 2))
    return second - mean**2 - rho * mean


def _mean_variance(context: Context, sizes: Sizes) -> Shown:
    bandit, rho, horizon = arms.safe_and_risky(), 0.1, sizes.horizon
    policies = {"MV-LCB": MVLCB(horizon=horizon, rho=rho), **_for_the_mean(), "Uniform": Uniform()}
    run = _play(context, "mean-variance", bandit, Mean(), policies, horizon, sizes.long_trials)
    best = min(mean_variance(bandit, row, rho) for row in np.eye(bandit.n_arms))
    rows = []
    for label in run.policies:
        t, pulls = run.column("pulls", label)
        scores = np.array([mean_variance(bandit, p / t[-1], rho) - best for p in pulls[:, -1]])
        mean, error = _mean_error(scores)
        shares = " / ".join(f"{100 * s:.0f}" for s in pulls[:, -1].mean(axis=0) / t[-1])
        rows.append([label, f"{mean:.4f} ± {error:.4f}", shares])
    return Shown(
        f"Mean–variance (σ² − ρμ, ρ = {rho:g}, minimised; of the average mixture played, above that of the best arm), "
        f"{', '.join(bandit.names)}, T = {horizon:,}. MV-LCB's bonus (5 + ρ)√(ln T/n) is larger than every variance on "
        "[0, 1] until n is some thousands, so it has hardly begun to choose.",
        ["policy", "mean–variance regret ± s.e.", "shares of the arms (%)"],
        rows,
    )


# ---- tables and text ---------------------------------------------------------------------------------------


def _mean_error(values: FloatArray) -> tuple[float, float]:
    n = values.shape[0]
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0


def _table(caption: str, parts: list[Series]) -> Shown:
    labels = sorted(parts[0].regret, key=lambda label: float(np.mean([p.ranking().index(label) for p in parts])))
    rows = []
    for label in labels:
        cells = []
        for part in parts:
            mean, error = part.last(label)
            mark = " ←" if label in part.tied() else ""
            cells.append(f"{mean:.2e} ± {error:.0e}{mark}")
        rows.append([label, *cells])
    if parts[0].floor is not None:
        rows.append(["floor of any single arm", *(f"{part.floor:.2e}" for part in parts)])
    caption += " ← marks the least, and what cannot be told from it."
    return Shown(caption, ["policy", *(p.title for p in parts)], rows)


def _best_of(part: Series, ours: bool) -> str:
    return next(label for label in part.ranking() if label != TRACK and (label in OURS) == ours)


def _winners(parts: list[Series]) -> Shown:
    rows = []
    for part in parts:
        mine, theirs = _best_of(part, True), _best_of(part, False)
        a, b = part.last(mine)[0], part.last(theirs)[0]
        rows.append([part.title, f"{theirs} {b:.2e}", f"{mine} {a:.2e}", _factor(a, b)])
    return Shown("Who wins where.", ["setting", "best published", "best of the paper's", "outcome"], rows)


def _factor(ours: float, theirs: float) -> str:
    if min(ours, theirs) <= 0.0:
        return "equal" if ours == theirs else "published" if theirs < ours else "ours"
    ratio = ours / theirs
    return f"published, {ratio:.1f} times less regret" if ratio > 1.0 else f"ours, {1 / ratio:.1f} times less regret"


def _text(cvar: list[Series], many: Series, drms: list[Series], mixed: list[Series]) -> list[str]:
    def ratios(parts: list[Series]) -> str:
        found = [part.last(_best_of(part, True))[0] / part.last(_best_of(part, False))[0] for part in parts]
        return f"{min(found):.1f}" if len(found) == 1 else f"{min(found):.1f}–{max(found):.1f}"

    best = " and ".join(dict.fromkeys(_best_of(p, False) for p in cvar))
    return [
        "The paper compares regret orders with CVaR and distortion-risk bandits; here the algorithms play. "
        "All published ones settle on one arm. The paper's are run with ε = 1, so that they decide for one arm too: "
        "PM-ETC-M takes ε = 1 as it stands (exploring a tenth of the rounds; its default would explore half of them); "
        "PM-UCB-M's grid keeps a share ε/2 for every arm and needs ε ≤ 2/K, so PM-UCB-M and CE-UCB-M play the same "
        "indices over the K vertices (SolitaryUCB).",
        f"Parts 1 and 2, lower-tail CVaR: {best} is best among the published, and has {ratios(cvar)} times less regret "
        f"than the best of ours on random laws, {ratios([many])} times with 30 arms. PM-UCB-M over vertices with its "
        "default band is CVaR-UCB to the letter (the same radius, found twice); ρ-NPTS with this metric is B-CVTS, so "
        "it is not listed again; W-UCB is U-UCB with a larger constant.",
        f"Part 3, distortion risk measures: ρ-NPTS has {ratios(drms)} times less regret than the best of ours. "
        "Among the confidence bounds, PM-UCB-M's exact optimism beats the additive bonuses (U-UCB, W-UCB, CE-UCB-M).",
        "Part 4: where a mixture is best, a policy that settles on one arm keeps the regret of the best arm for ever; "
        f"the paper's algorithms go below it, by a factor of "
        f"{min(_below(p) for p in mixed):.0f}–{max(_below(p) for p in mixed):.0f} at the end. "
        "A solitary policy below the floor is one that is still exploring, and mixes by accident: a bonus with Hölder "
        "exponent ½ (Wang right-tail) hardly ever lets it settle. PM-ETC-M plays its shares arm after arm and meets "
        "them at T only.",
        "What would close the gap on solitary instances: optimism pays for the whole band at every arm. The Thompson "
        "policies sample from the arm's own law and so explore at the rate of the lower bound (K_inf). Either a "
        "K_inf index in place of the band, or Dirichlet weights on the arms' rewards with the *mixture* that is best "
        "for the draw (the same draw as ρ-NPTS, then the oracle's solver, then tracking) would carry that over to "
        "mixtures; so would estimating and tracking without optimism.",
        "Cost: B-CVTS and ρ-NPTS draw a weight for every reward, O(n) a round and O(T²) a run, for all arms in one "
        "pass; on a finite support equal rewards share one gamma variate and a round costs O(K × atoms).",
    ]


def _below(part: Series) -> float:
    assert part.floor is not None
    return part.floor / part.last(_best_of(part, True))[0]


def _data(parts: Mapping[str, list[Series]]) -> pa.Table:
    import pyarrow as pa

    rows: dict[str, list[Any]] = {name: [] for name in ("part", "setting", "policy", "t", "regret", "standard_error")}
    for name, many in parts.items():
        for part in many:
            for label, regret in part.regret.items():
                for c, t in enumerate(part.t):
                    mean, error = _mean_error(regret[:, c])
                    values = (name, part.title, label, int(t), mean, error)
                    for key, value in zip(rows, values, strict=True):
                        rows[key].append(value)
    return pa.table(rows)


# ---- claims ------------------------------------------------------------------------------------------------


def _claim_solitary_is_cvar_ucb(parts: list[Series]) -> Claim:
    away = max(float(np.abs(p.regret[OURS_UCB] - p.regret["CVaR-UCB"]).max()) for p in parts)
    return Claim(
        "pm-ucb-is-cvar-ucb",
        "For CVaR the paper's framework matches the published confidence bounds: PM-UCB-M deciding for one arm does "
        "what CVaR-UCB does.",
        "holds" if away < 1e-3 else "does not hold",
        f"The largest difference of their regrets in any trial and at any checkpoint is {away:.1e}.",
        {"largest_difference": away},
    )


def _claim_thompson_wins(parts: list[Series]) -> Claim:
    sampled = ("M-CVTS", "B-CVTS", "ρ-NPTS")
    found = {p.title: min(p.last(s)[0] for s in sampled if s in p.regret) / p.last(_best_of(p, True))[0] for p in parts}
    lost = [title for title, ratio in found.items() if ratio >= 1.0]
    return Claim(
        "ours-match-the-best-known",
        "On solitary instances the paper's algorithms match the best known regret.",
        "does not hold" if len(lost) < len(found) else "holds",
        f"Thompson sampling (M-CVTS, B-CVTS, ρ-NPTS) has less regret than the best of ours on {len(found) - len(lost)} "
        f"of {len(found)} settings; its regret is {min(found.values()):.2f} to {max(found.values()):.2f} times ours.",
        {f"ratio {title}": ratio for title, ratio in found.items()},
    )


def _claims_drm(parts: list[Series]) -> list[Claim]:
    claims = []
    for key, label, why in (
        ("etc", OURS_ETC, " It explores a tenth of the rounds whatever the instance, and that is what it pays for."),
        ("ucb", OURS_UCB, ""),
    ):
        ratios = {p.title: p.last(label)[0] / p.last("W-UCB")[0] for p in parts}
        better = sum(ratio < 1.0 for ratio in ratios.values())
        claims.append(
            Claim(
                f"drm-{key}-better-than-w-ucb",
                f"For distortion risk measures {label}, improves on the risk-seeking baseline W-UCB.",
                "holds" if better == len(ratios) else "does not hold",
                f"Its regret is {_span(ratios)} times that of W-UCB, less on {better} of {len(ratios)} measures.{why}",
                ratios,
            )
        )
    return claims


def _span(ratios: Mapping[str, float]) -> str:
    return f"{min(ratios.values()):.2f} to {max(ratios.values()):.2f}"


SETTLED = 0.97  # of all pulls on one arm


def _claim_floor(parts: list[Series]) -> Claim:
    numbers: dict[str, float] = {}
    broken: list[str] = []
    exploring: dict[str, float] = {}
    waiting = 0
    for part in parts:
        assert part.floor is not None
        for label, shares in part.shares.items():
            if label in OURS or label == TRACK:
                continue
            mean, error = part.last(label)
            numbers[f"{part.title}: {label}"] = mean / part.floor
            if shares.max() < SETTLED:
                exploring[label] = max(exploring.get(label, 0.0), float(shares.max()))
                waiting += 1
            elif mean + 2.0 * error < 0.8 * part.floor:
                broken.append(label)
    settled = len(numbers) - waiting
    names = ", ".join(f"{label} (at most {100 * share:.0f} % on one arm)" for label, share in exploring.items())
    return Claim(
        "solitary-floor",
        "On mixture-optimal instances every policy that settles on one arm keeps the regret V(α*) − max U_h(F_i).",
        "does not hold" if broken else "holds" if settled else "not decidable",
        f"{settled} of {len(numbers)} runs of published policies have settled ({100 * SETTLED:.0f} % of pulls on one "
        f"arm); their regret is at least 0.8 of the floor{'' if not broken else ' but for ' + ', '.join(broken)}. "
        f"The other {waiting} still explore and are no test of it: {names or 'none'}.",
        numbers,
    )


def _claim_below_floor(parts: list[Series]) -> Claim:
    numbers = {p.title: _below(p) for p in parts}
    best = {p.title: _best_of(p, True) for p in parts}
    return Claim(
        "ours-below-the-floor",
        "The paper's algorithms go below the floor of every single arm.",
        "holds" if min(numbers.values()) > 1.0 else "does not hold",
        "; ".join(f"{title}: {best[title]} is {ratio:.1f} times below" for title, ratio in numbers.items()) + ".",
        numbers,
    )


# ---- pictures ----------------------------------------------------------------------------------------------


def _figure(parts: list[Series], title: str) -> Figure:
    import matplotlib
    import matplotlib.pyplot as plt

    columns = min(len(parts), 2 if len(parts) == 4 else 3)
    rows = -(-len(parts) // columns)
    with matplotlib.rc_context(STYLE):
        width = 5.0 if len(parts) == 1 else 3.6 * columns
        figure, axes = plt.subplots(rows, columns, figsize=(width, 3.3 * rows), squeeze=False, layout="constrained")
        for part, ax in zip(parts, axes.flat, strict=True):
            _draw(part, ax)
        for ax in axes[-1]:
            ax.set_xlabel("rounds")
        for ax in axes[:, 0]:
            ax.set_ylabel("regret per round")
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", fontsize=8.5, handlelength=3.2)
        figure.suptitle(title, x=0.01, ha="left", fontsize=11.5)
        plt.close(figure)
    return figure


def _draw(part: Series, ax: Axes) -> None:
    order: Callable[[str], int] = list(LOOKS).index
    start = int(np.searchsorted(part.t, 30))
    for label in sorted(part.regret, key=order):
        colour, dash, mark = LOOKS[label]
        t, regret = part.t[start:], part.regret[label][:, start:]
        mean = regret.mean(axis=0)
        error = regret.std(axis=0, ddof=1) / np.sqrt(regret.shape[0]) if regret.shape[0] > 1 else 0.0 * mean
        shown = np.where(mean > 1e-9, mean, np.nan)
        bars = np.stack((np.minimum(error, 0.9 * mean), error)).clip(min=0.0)
        ax.errorbar(t, shown, yerr=bars, color=colour, ls=dash, marker=mark, ms=4, capsize=2,
                    lw=1.9 if label in (*OURS, TRACK) else 1.2, elinewidth=0.8, label=label)  # fmt: skip
    if part.floor is not None:
        ax.axhline(part.floor, color="0.2", lw=0.9, ls=(0, (1, 2)), label="floor of single arms")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.grid(which="major", color="0.9", lw=0.6)
    ax.set_axisbelow(True)
    ax.set_title(part.title, fontsize=10)
