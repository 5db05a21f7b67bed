"""Vet with segments beside its alternatives, on instances that were fixed before the first run.

    python -m benchmarks.segments                    # 20 trials, regret after 1,000 and 10,000 rounds
    python -m benchmarks.segments F-gini-S2K3 B-.5m+g-S2K3 --rounds 100000
    python -m benchmarks.segments --trials 5 --table

A run that was stopped goes on where it was (``out/segments.json``). ``docs/segments.json`` has the numbers.

Instances
---------
Sixteen have the names of those in the note on the rule: rewards, metric, segments S and arms K. What drew them was not
kept, so they are drawn anew. Twelve are new, among them optima that mix within a segment, and convex traps: plans that
no change of one segment improves, beside a better one in which several segments must change together.

The rule: ``rng = default_rng([36, crc32(name), attempt])``; frequencies are Dirichlet(3, …, 3). Then segment by segment
and arm by arm: coins have means U(.05, .95) (B), few atoms 0, ¼, ½, ¾, 1 have Dirichlet(1, …, 1) probabilities (F), and
Beta rewards have parameters U(.5, 5) (b: on the grid 0, .01, …, 1; c: continuous). Attempts are 0, 1, 2, …: the first
that is what the name says (``mix``, ``trap``). Only the oracle and lists of plans decide that, never a run. Traps with
such Beta rewards were looked for first, and 10,000 attempts had none (mean − 0.9·Gini, S = 4, K = 3; LowerCVaR(0.4),
S = 3, K = 2); so traps have parameters exp(U(−2, 3.5)).

Alternatives
------------
One Vet for each segment, a Vet that ignores segments, Uniform, and Frank-Wolfe: pull the arm whose slope at the played
distribution is best by an optimistic index. The index is that of IMED (Honda and Takemura 2015), a sample of NPTS (Riou
and Honda 2020), or a mean with UCB-tuned's bonus. These three are written here alone, and share no code with policies.
All of them meet the same people and get the same rewards.
"""

from __future__ import annotations

import argparse
import json
import math
import zlib
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numba as nb
import numpy as np
import scipy.stats as st
from rich.console import Console
from rich.progress import track
from rich.table import Table

import pmbandits as pmb
from pmbandits.optimize import SegmentOracleResult, utilities
from pmbandits.population import Population
from pmbandits.simulation.segments import draw_arrivals
from pmbandits.tables.distributions import Atoms

OUT, KEPT = Path("out/segments.json"), Path("docs/segments.json")
SEED, TRIALS, ROUNDS = 36, 20, (1_000, 10_000)
GRID = 1 << 16  # steps of the table from which Frank-Wolfe reads h
CELLS = 200  # of continuous rewards, for Frank-Wolfe
LIBRARY = ("Vet", "Vet per segment", "Vet ignoring", "Uniform")
IMED, NPTS, TUNED = 0, 1, 2
FRANK_WOLFE = {"FW-IMED": IMED, "FW-TS": NPTS, "FW-UCB": TUNED}
METHODS = ("Vet", *FRANK_WOLFE, "Vet per segment", "Vet ignoring", "Uniform")


# ---- instances ---------------------------------------------------------------------------------------------
class Case(NamedTuple):
    """What is drawn: a name, a metric, the kind of rewards, how many segments and arms, and what it must be."""

    name: str
    metric: str
    kind: str
    n_segments: int
    n_arms: int
    must: str = ""


class Instance(NamedTuple):
    """A case that was drawn."""

    case: Case
    arms: dict[str, pmb.Bandit]
    often: dict[str, float]
    best: SegmentOracleResult
    attempt: int


def _case(name: str, metric: str) -> Case:
    kind, *words, size = name.split("-")
    s, k = size[1:].split("K")
    return Case(name, metric, kind, int(s), int(k), next((word for word in words if word in ("mix", "trap")), ""))


NOTE = [
    _case("B-gini-S2K2", "gini"),
    _case("B-.5m+g-S2K3", "0.5*mean + gini"),
    _case("B-wang-S5K3", "wang_right_tail"),
    _case("B-.5m+g-S20K5", "0.5*mean + gini"),
    _case("F-gini-S2K3", "gini"),
    _case("F-.5m+g-S5K3", "0.5*mean + gini"),
    _case("F-wang-S5K5", "wang_right_tail"),
    _case("b-cvar.9-S2K3", "upper_cvar(0.9)"),
    _case("b-cvar.9-S5K3", "upper_cvar(0.9)"),
    _case("b-lcvar.1-S5K3", "lower_cvar(0.1)"),
    _case("F-lcvar.5-S5K3", "lower_cvar(0.5)"),
    _case("b-pht.5-S5K3", "pht(0.5)"),
    _case("F-invS-S2K3", "inverted_s(0.7)"),
    _case("b-.5m+g-S20K5", "0.5*mean + gini"),
    _case("b-lcvar.5-S20K5", "lower_cvar(0.5)"),
    _case("b-gini-S20K2", "gini"),
]
NEW = [
    _case("B-mmd-S4K3", "mean_median_deviation"),  # concave, 0/1, a corner in h
    _case("F-mix-gini-S3K3", "gini"),  # concave, few atoms, mixes within a segment
    _case("b-mix-mmd-S3K3", "mean_median_deviation"),  # concave, Beta on a grid, mixes
    _case("c-mix-wang-S3K3", "wang_right_tail"),  # concave, continuous, mixes
    _case("c-.5m+g-S5K4", "0.5*mean + gini"),  # concave, continuous
    _case("b-pht.5-S10K4", "pht(0.5)"),  # concave, vertical at 0
    _case("c-lcvar.25-S5K3", "lower_cvar(0.25)"),  # convex, continuous
    _case("F-trap-lcvar.5-S3K2", "lower_cvar(0.5)"),  # convex, coordinated optimum
    _case("b-trap-lcvar.4-S3K2", "lower_cvar(0.4)"),  # convex, coordinated optimum
    _case("c-trap-lcvar.3-S3K3", "lower_cvar(0.3)"),  # convex, coordinated optimum, continuous
    _case("F-tk.65-S4K3", "tversky_kahneman(0.65)"),  # neither
    _case("c-invS-S3K3", "inverted_s(0.7)"),  # neither, continuous
]
CHOOSE = [  # drawn by the same rule under other names: on these, versions of the rule are chosen, and not on the 28
    _case("F-trap-lcvar.3-S3K2", "lower_cvar(0.3)"),
    _case("F-trap-lcvar.4-S3K3", "lower_cvar(0.4)"),
    _case("F-trap-lcvar.6-S3K2", "lower_cvar(0.6)"),
    _case("F-trap-lcvar.5-S4K2", "lower_cvar(0.5)"),
    _case("F-trap-lcvar.5-S2K3", "lower_cvar(0.5)"),
    _case("c-trap-lcvar.5-S3K3", "lower_cvar(0.5)"),
    _case("F-lcvar.4-S5K3", "lower_cvar(0.4)"),
    _case("b-lcvar.3-S4K3", "lower_cvar(0.3)"),
]
# First attempts that are what they must be, to start from: looking for them takes a minute (``instance(name, 0)``).
ATTEMPTS = {"F-trap-lcvar.5-S3K2": 131, "b-trap-lcvar.4-S3K2": 6697, "c-trap-lcvar.3-S3K3": 1071}
ATTEMPTS |= {"F-trap-lcvar.3-S3K2": 23, "F-trap-lcvar.4-S3K3": 184, "F-trap-lcvar.6-S3K2": 162}  # of ``CHOOSE``
ATTEMPTS |= {"F-trap-lcvar.5-S4K2": 305, "F-trap-lcvar.5-S2K3": 811, "c-trap-lcvar.5-S3K3": 102}
CASES = {case.name: case for case in [*NOTE, *NEW]}
ALL = CASES | {case.name: case for case in CHOOSE}


def _law(kind: str, rng: np.random.Generator, *, trap: bool) -> Any:
    if kind == "B":
        p = float(rng.uniform(0.05, 0.95))
        return Atoms(np.array([0.0, 1.0]), np.array([1.0 - p, p]))
    if kind == "F":
        return Atoms(np.linspace(0.0, 1.0, 5), rng.dirichlet(np.ones(5)))
    law = st.beta(*(np.exp(rng.uniform(-2.0, 3.5, 2)) if trap else rng.uniform(0.5, 5.0, 2)))
    if kind == "c":
        return law
    edges = np.concatenate(([0.0], np.linspace(0.005, 0.995, 100), [1.0]))
    mass = np.diff(law.cdf(edges))
    return Atoms(np.linspace(0.0, 1.0, 101), mass / mass.sum())


def _support(kind: str) -> pmb.Support:
    if kind == "c":
        return pmb.Interval(0.0, 1.0)
    return pmb.Binary() if kind == "B" else pmb.Finite(np.linspace(0.0, 1.0, 5 if kind == "F" else 101))


def _plans(population: Population, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """All plans of one arm for each segment, and their utilities; for few segments only."""
    s, k = population.segments.column_at.shape
    plans = np.array(list(product(range(k), repeat=s)))
    weights = np.zeros((len(plans), s * k))
    for segment, often in enumerate(population.frequencies):
        weights[np.arange(len(plans)), segment * k + plans[:, segment]] = often
    return plans, utilities(pmb.metric(metric), population.columns, weights)


def mixes(best: SegmentOracleResult, metric: str) -> bool:
    """Whether a segment must mix: it has two arms of 10 % or more, and no plan of single arms comes within 0.2 %."""
    second = np.sort(best.weights, axis=1)[:, -2].max()
    return bool(second >= 0.1 and _plans(best.population, metric)[1].max() <= 0.998 * best.value)


def is_trap(population: Population, metric: str) -> bool:
    """Whether a plan that is 0.3 % to 3 % worse than the best is better than all that differ from it in one segment."""
    plans, values = _plans(population, metric)
    away = (plans[:, None] != plans[None]).sum(axis=2)
    local = np.array([values[i] > values[away[i] == 1].max() for i in range(len(plans))])
    lost = 1.0 - values / values.max()
    return bool((local & (lost >= 0.003) & (lost <= 0.03)).any())


@cache
def instance(name: str, first: int | None = None) -> Instance:
    """Draw the case of this name: the first attempt that is what it must be."""
    case = ALL[name]
    for attempt in range(ATTEMPTS.get(name, 0) if first is None else first, 20_000):
        rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), attempt])
        often = rng.dirichlet(np.full(case.n_segments, 3.0))
        arms = {
            f"s{s}": pmb.Bandit(
                [_law(case.kind, rng, trap=case.must == "trap") for _ in range(case.n_arms)],
                support=_support(case.kind),
            )
            for s in range(case.n_segments)
        }
        shares = dict(zip(arms, often.tolist(), strict=True))
        if case.must == "trap" and not is_trap(Population.from_arguments(arms, shares), case.metric):
            continue
        best = pmb.oracle(case.metric, arms, segments=shares)
        if case.must != "mix" or mixes(best, case.metric):
            return Instance(case, arms, shares, best, attempt)
    raise RuntimeError(f"no attempt at {name} was what it must be")


# ---- Frank-Wolfe -------------------------------------------------------------------------------------------
@nb.njit(cache=True)
def h_at(h, u):
    """H at u, from its table, by straight lines."""
    x = min(max(u, 0.0), 1.0) * (h.size - 1)
    i = min(int(x), h.size - 2)
    return h[i] + (x - i) * (h[i + 1] - h[i])


@nb.njit(cache=True)
def kl_inf(mass, phi, level, top):
    """The least relative entropy to a distribution under which phi, at most ``top``, has the mean ``level``.

    It is the largest of Σ mass·log(1 − ν·(phi − level)) over 0 ≤ ν ≤ 1/(top − level), found by bisection of the slope.
    """
    if top - level <= 1e-14 * (abs(top) + abs(level)):
        return 1e9  # no change is enough
    low, high = 0.0, 1.0 / (top - level)
    for _ in range(40):
        nu, slope = 0.5 * (low + high), 0.0
        for c in range(mass.size):
            if mass[c] > 0.0:
                slope -= mass[c] * (phi[c] - level) / (1.0 - nu * (phi[c] - level))
        if slope > 0.0:
            low = nu
        else:
            high = nu
    total = 0.0
    for c in range(mass.size):
        if mass[c] > 0.0:
            total += mass[c] * math.log(max(1.0 - low * (phi[c] - level), 1e-300))
    return max(total, 0.0)


@nb.njit(cache=True)
def imed_distance(points, mass, phi, level, n):
    """The distance of an IMED index, as in the note: with many atoms, rewards far from those seen count a third."""
    mean, square, top = 0.0, 0.0, -np.inf
    for c in range(mass.size):
        mean += mass[c] * points[c]
        square += mass[c] * points[c] ** 2
        top = max(top, phi[c])
    if mass.size <= 20:
        return kl_inf(mass, phi, level, top)
    own = math.sqrt((n * max(square - mean * mean, 0.0) + 0.1) / (n + 1.0))
    reach, near = own * (math.sqrt(2.0 * math.log(n)) + 2.0 / math.sqrt(n)), -np.inf
    for c in range(mass.size):
        if mass[c] > 0.0 or abs(points[c] - mean) <= reach:
            near = max(near, phi[c])
    return min(kl_inf(mass, phi, level, near), 3.0 * kl_inf(mass, phi, level, top))


@nb.njit(cache=True)
def play_frank_wolfe(index_kind, h, points, n_arms, arrivals, rewards, starts, checkpoints, rng):
    """Pulls by checkpoint and column. ``rewards[starts[column] + n]`` is the place in ``points`` of the n-th reward."""
    n_columns, m = starts.size - 1, points.size
    counts, pulls = np.zeros((n_columns, m)), np.zeros(n_columns, np.int64)
    seen, phi, mass = np.zeros(m), np.zeros(m), np.zeros(m)
    out, row = np.zeros((checkpoints.size, n_columns), np.int64), 0
    for t in range(arrivals.size):
        first, n_own = arrivals[t] * n_arms, 0
        column = first
        for k in range(first, first + n_arms):
            n_own += pulls[k]
            if pulls[k] < pulls[column]:
                column = k
        if pulls[column] > 0:  # all arms of the segment have a reward
            above, e = 1.0, 0.5 / t * max(1.0, math.log(t))
            least = most = phi[0] = 0.0
            for c in range(m - 1):  # phi' = h' at the survival of what was played
                above -= seen[c] / t
                a, b = max(above - e, 0.0), min(above + e, 1.0)
                phi[c + 1] = phi[c] + (points[c + 1] - points[c]) * (h_at(h, b) - h_at(h, a)) / (b - a)
                least, most = min(least, phi[c + 1]), max(most, phi[c + 1])
            level = -np.inf
            for k in range(first, first + n_arms):
                level = max(level, np.dot(counts[k], phi) / pulls[k])
            log, best = math.log(n_own + 1.0), -np.inf
            for k in range(first, first + n_arms):
                n = float(pulls[k])
                if index_kind == IMED:
                    mass[:] = counts[k] / n
                    value = -math.log(n)
                    if np.dot(mass, phi) < level - 1e-12 * (most - least):  # else it leads, up to rounding
                        value -= n * imed_distance(points, mass, phi, level, n)
                elif index_kind == NPTS:
                    total = rng.standard_exponential()
                    value = total * most
                    for c in range(m):
                        if counts[k, c] > 0.0:
                            weight = rng.standard_gamma(counts[k, c])
                            total += weight
                            value += weight * phi[c]
                    value /= total
                else:
                    mean = np.dot(counts[k], phi) / n
                    width = most - least
                    variance = max(np.dot(counts[k], phi * phi) / n - mean * mean, 0.0)
                    variance += width * width * math.sqrt(2.0 * log / n)
                    value = mean + math.sqrt(log / n * min(0.25 * width * width, variance))
                if value > best:
                    best, column = value, k
        place = rewards[starts[column] + pulls[column]]
        pulls[column] += 1
        counts[column, place] += 1.0
        seen[place] += 1.0
        if t + 1 == checkpoints[row]:
            out[row] = pulls
            row += 1
    return out


def frank_wolfe_regret(made: Instance, method: str, rounds: tuple[int, ...], trial: int) -> np.ndarray:
    """Regret at the checkpoints in one trial, with the arrivals and rewards that ``simulate`` has in it."""
    case, population = made.case, made.best.population
    points = np.array([0.0, 1.0]) if case.kind == "B" else np.linspace(0.0, 1.0, 5 if case.kind == "F" else 101)
    if case.kind == "c":
        points = (np.arange(CELLS) + 0.5) / CELLS
    arrivals = draw_arrivals(population.frequencies, max(rounds), SEED, trial)
    source = pmb.simulation.Rewards(population.columns, seed=SEED, trial=trial)
    count = np.bincount(arrivals, minlength=case.n_segments)[population.segments.segment_of]
    starts = np.append(0, np.cumsum(count))
    drawn = np.concatenate([source.next(column, int(n)) for column, n in enumerate(count)])
    if case.kind == "c":
        places = np.minimum((drawn * CELLS).astype(np.int64), CELLS - 1)
    else:
        places = np.searchsorted(points, drawn - 1e-9)
    h = np.asarray(pmb.metric(case.metric)(np.linspace(0.0, 1.0, GRID + 1)), dtype=np.float64)
    kind, rng = FRANK_WOLFE[method], np.random.default_rng([SEED, trial])
    pulls = play_frank_wolfe(kind, h, points, case.n_arms, arrivals, places, starts, np.array(rounds), rng)
    shares = np.array([population.weights_of_columns(population.shares_within(row)) for row in pulls])
    return made.best.value - utilities(pmb.metric(case.metric), population.columns, shares)


# ---- the comparison ----------------------------------------------------------------------------------------
def library_regrets(made: Instance, methods: list[str], rounds: tuple[int, ...], trials: int) -> dict[str, np.ndarray]:
    """Regret of the library's policies: by method, a row for each trial and an entry for each checkpoint."""
    known: dict[str, Any] = {
        "Vet": pmb.Vet(),
        "Vet per segment": pmb.simulation.PerSegment(pmb.Vet()),
        "Vet ignoring": pmb.simulation.IgnoringSegments(pmb.Vet()),
        "Uniform": pmb.Uniform(),
    }
    run = pmb.simulate(
        made.case.metric,
        made.arms,
        {method: known[method] for method in methods},
        max(rounds),
        trials,
        SEED,
        segments=made.often,
        checkpoints=list(rounds),
        n_jobs=1,
        progress=False,
    )
    return {method: run.regret(method)[1] for method in methods}


def measure(names: list[str], methods: list[str], rounds: tuple[int, ...], trials: int) -> dict[str, Any]:
    """All regrets, as ``kept[name][method][rounds]``: a list with one number for each trial."""
    kept: dict[str, Any] = json.loads(OUT.read_text()) if OUT.exists() else {}
    for name in track(names, description="segments"):
        rows = kept.setdefault(name, {})
        missing = [
            method for method in methods if any(len(rows.get(method, {}).get(str(t), ())) < trials for t in rounds)
        ]
        found: dict[str, np.ndarray] = {}
        for method in missing:
            if method in FRANK_WOLFE:
                found[method] = np.array(
                    [frank_wolfe_regret(instance(name), method, rounds, trial) for trial in range(trials)]
                )
        mine = [method for method in missing if method in LIBRARY]
        if mine:
            found |= library_regrets(instance(name), mine, rounds, trials)
        for method, regret in found.items():
            rows.setdefault(method, {}).update({str(t): regret[:, i].tolist() for i, t in enumerate(rounds)})
            OUT.parent.mkdir(exist_ok=True)
            OUT.write_text(json.dumps(kept))
    return kept


def summarise(kept: dict[str, Any]) -> dict[str, Any]:
    """What the page shows: mean, standard error, median and worst regret, times 10,000."""
    rows = []
    for name, case in CASES.items():
        for method in METHODS:
            for t, regret in kept.get(name, {}).get(method, {}).items():
                x = 1e4 * np.array(regret)
                rows.append(
                    {
                        "instance": name,
                        "new": case in NEW,
                        "method": method,
                        "rounds": int(t),
                        "trials": x.size,
                        "mean": round(float(x.mean()), 4),
                        "error": round(float(x.std(ddof=1) / math.sqrt(x.size)), 4) if x.size > 1 else None,
                        "median": round(float(np.median(x)), 4),
                        "worst": round(float(x.max()), 4),
                    }
                )
    facts = {
        name: {
            "metric": instance(name).case.metric,
            "shape": pmb.metric(instance(name).case.metric).shape,
            "value": instance(name).best.value,
            "gap": instance(name).best.gap,
            "separate_regret": instance(name).best.gain,
            "mixes": instance(name).best.is_mixture,
        }
        for name in CASES
        if name in kept
    }
    return {"unit": "regret times 10,000", "seed": SEED, "instances": facts, "rows": rows, "goals": goals(rows, facts)}


def goals(rows: list[dict[str, Any]], facts: dict[str, Any]) -> dict[str, Any]:
    """How the goals are met, by the number of rounds: against the best alternative, and against one Vet per segment."""
    out: dict[str, Any] = {}
    for t in sorted({row["rounds"] for row in rows}):
        mean: dict[str, dict[str, float]] = {}
        for row in rows:
            if row["rounds"] == t:
                mean.setdefault(row["instance"], {})[row["method"]] = row["mean"]
        full = {name: means for name, means in mean.items() if set(METHODS) <= set(means)}
        if not full:
            continue
        to_best = {n: m["Vet"] / min(m[x] for x in METHODS if x != "Vet") for n, m in full.items()}
        own = {n: m["Vet"] / m["Vet per segment"] for n, m in full.items() if facts[n]["separate_regret"] > 1e-5}
        mean_ratio = {
            method: float(np.exp(np.mean([math.log(m[method] / m["Vet"]) for m in full.values()])))
            for method in METHODS[1:]
        }
        out[str(t)] = {
            "instances": len(full),
            "within_1.2_of_best": sum(ratio <= 1.2 for ratio in to_best.values()),
            "beyond": {n: round(r, 2) for n, r in to_best.items() if r > 1.2},
            "own_optima_keep_a_regret": len(own),
            "at_most_0.3_of_per_segment": sum(ratio <= 0.3 for ratio in own.values()),
            "above_0.3": {n: round(r, 2) for n, r in own.items() if r > 0.3},
            "geometric_mean_ratio_to_vet": {method: round(ratio, 3) for method, ratio in mean_ratio.items()},
        }
    return out


def table_of(summary: dict[str, Any], t: int) -> Table:
    """Means of all methods after t rounds; of Vet also median and worst trial."""
    table = Table(title=f"Regret × 10,000 after {t:,} rounds")
    for head in ("instance", METHODS[0], "median", "worst", *METHODS[1:]):
        table.add_column(head, justify="left" if head == "instance" else "right")
    for name in CASES:
        found = {r["method"]: r for r in summary["rows"] if r["instance"] == name and r["rounds"] == t}
        if found:

            def cell(method: str, what: str = "mean", found: dict[str, Any] = found) -> str:
                return f"{found[method][what]:.3g}" if method in found else "–"

            first = METHODS[0]
            table.add_row(
                name, cell(first), cell(first, "median"), cell(first, "worst"), *(cell(m) for m in METHODS[1:])
            )
    return table


def oracle_time() -> Table:
    """Seconds of the processor for 40 segments of 5 arms on 101 atoms (goal: under 0.1)."""
    import time

    rng, points = np.random.default_rng(2), np.linspace(0.0, 1.0, 101)
    arms = {f"s{s}": pmb.Bandit([Atoms(points, rng.dirichlet(np.full(101, 0.3))) for _ in range(5)]) for s in range(40)}
    often = dict(zip(arms, rng.dirichlet(np.ones(40)).tolist(), strict=True))
    table = Table(title="Oracle, S = 40, K = 5, 101 atoms (goal: under 0.1 s)")
    for head in ("metric", "seconds", "gap", "method"):
        table.add_column(head)
    for metric in ("gini", "upper_cvar(0.8)", "pht(0.5)", "lower_cvar(0.3)", "mean - 0.5*gini", "inverted_s(0.7)"):
        pmb.oracle(metric, arms, segments=often)
        begun = time.process_time()
        best = pmb.oracle(metric, arms, segments=often)
        table.add_row(metric, f"{time.process_time() - begun:.3f}", f"{best.gap:.1e}", best.method)
    return table


def tables() -> list[Table]:
    """The oracle's time, and the comparison as far as it was played."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"rows": []}
    return [oracle_time(), *(table_of(kept, t) for t in sorted({row["rounds"] for row in kept["rows"]}))]


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("names", nargs="*", help="instances; all, if none is given")
    reader.add_argument("--trials", type=int, default=TRIALS)
    reader.add_argument("--rounds", type=int, nargs="+", default=list(ROUNDS))
    reader.add_argument("--methods", nargs="+", default=list(METHODS))
    reader.add_argument("--table", action="store_true", help="show the table, and write no data")
    given = reader.parse_args()
    kept = measure(given.names or list(CASES), given.methods, tuple(sorted(given.rounds)), given.trials)
    summary = summarise(kept)
    console = Console(width=150)
    for t in sorted({row["rounds"] for row in summary["rows"]}):
        console.print(table_of(summary, t))
    console.print_json(data=summary["goals"])
    if not given.table:
        KEPT.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
