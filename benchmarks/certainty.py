"""How many rounds it takes to be certain, what certifying costs in regret, and how good forecasts are.

``python -m benchmarks certainty``; slow. The certified regret is looked at when 10 % more rounds were played.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import scipy.stats as st
from rich.progress import track
from rich.table import Table

import pmbandits as pmb
from pmbandits.engine.stopping import Forecast
from pmbandits.kit import best_mixture, due, explore_or_track, fewest, kernel, pull, ready, unpack
from pmbandits.simulation.trial import Player

SHARES = (0.1, 0.05, 0.01)
METRICS = {
    "Gini": pmb.GiniDeviation(),
    "Wang": pmb.WangRightTail(),
    "upper CVaR(.9)": pmb.UpperCVaR(0.9),
    "quadratic": pmb.Quadratic(0.5),
}
UNIT = pmb.Interval(0.0, 1.0)
# Arms, how rewards are kept (in bins for long runs), and the most rounds.
ARMS = {
    "Bernoulli (.4, .9)": (pmb.Bandit.bernoulli([0.4, 0.9]), "exact", 1_000_000),
    "Bernoulli (.2, .5, .7)": (pmb.Bandit.bernoulli([0.2, 0.5, 0.7]), "exact", 1_000_000),
    "Beta (2,8), (5,5), (8,2)": (
        pmb.Bandit([st.beta(2, 8), st.beta(5, 5), st.beta(8, 2)], support=UNIT),
        "binned:8192",
        10_000_000,
    ),
    "N(0), N(2)": (pmb.Bandit([st.norm(0, 1), st.norm(2, 1)], support=pmb.Real(1.0)), "exact", 300_000),
}
POLICIES = {
    "Track": pmb.Track(),
    "Track, certify 10 %": pmb.Track(certify=0.1),
    "Vet, certify 10 %": pmb.Vet(certify=0.1),
}


def marks(first: int, last: int, growth: float) -> np.ndarray:
    """Rounds that grow by a factor."""
    out = first * growth ** np.arange(np.log(last / first) / np.log(growth) + 1.0)
    return np.unique(np.append(out.astype(np.int64)[out < last], last))


def certified(
    recipe: pmb.Policy, bandit: pmb.Bandit, metric: pmb.Distortion, goal: float, at: np.ndarray, trial: int
) -> tuple[list[float], Player]:
    """The certified regret at each of these rounds, until it is at most the goal; and the policy then."""
    player = Player(recipe.bind(metric, bandit.n_arms, bandit.support), bandit, 5, at)
    found: list[float] = []

    def watch(policy: pmb.Policy) -> bool:
        found.append(policy.certainty().regret)
        return found[-1] <= goal

    player.play(trial, watch)
    return found, player


def until(found: list[float], at: np.ndarray, goal: float) -> float:
    """The first of these rounds at which the regret was certain."""
    return next((float(t) for t, regret in zip(at, found, strict=False) if regret <= goal), np.inf)


def rounds_needed(name: str, metric: pmb.Distortion, recipe: pmb.Policy, trials: int) -> tuple[list[float], int] | None:
    """The median number of rounds until 10, 5 and 1 % of the best utility are certain; None if no bound holds."""
    bandit, keep, cap = ARMS[name]
    at, value = marks(50, cap, 1.1), pmb.oracle(metric, bandit).value
    kept = type(recipe)(**{**recipe.options, "estimates": keep})
    rows = []
    for trial in range(trials):
        try:
            found, _ = certified(kept, bandit, metric, SHARES[-1] * value, at, trial)
        except ValueError:
            return None
        rows.append([until(found, at, share * value) for share in SHARES])
    return [float(np.median(column)) for column in zip(*rows, strict=True)], cap


def shown(rounds: float, cap: int) -> str:
    """A number of rounds, or that there were not enough."""
    return f"{rounds:,.0f}" if np.isfinite(rounds) else f"> {cap:,}"


def rounds(trials: int = 3) -> Table:
    """The table of rounds."""
    table = Table(title=f"rounds until a regret of 10, 5, 1 % of the best utility is certain (median of {trials})")
    for head in ("arms", "metric", "policy", *(f"{100 * share:g} %" for share in SHARES)):
        table.add_column(head, justify="right")
    cases = [(arms, metric, policy) for arms in ARMS for metric in METRICS for policy in POLICIES]
    for arms, metric, policy in track(cases, description="rounds"):
        found = rounds_needed(arms, METRICS[metric], POLICIES[policy], trials)
        cells = ["no bound holds"] * 3 if found is None else [shown(t, found[1]) for t in found[0]]
        table.add_row(arms, metric, policy, *cells)
    return table


# ---- another rule, to compare with ------------------------------------------------------------------------
@kernel
def choose_in_turn(memory):
    """Every tenth pull is of the arm with the fewest; else as Track does."""
    s = unpack(memory)
    if due(s) and ready(s):
        best_mixture(s)
    return pull(s, fewest(s) if s.t % 10 == 0 else explore_or_track(s))


class TrackInTurn(pmb.Track, name="benchmark_track_in_turn", choose=choose_in_turn):
    """Track with a tenth of all pulls spread evenly."""


def many_arms(count: int) -> pmb.Bandit:
    """Beta arms at random."""
    shapes = np.random.default_rng(count).uniform(0.5, 5.0, (count, 2))
    return pmb.Bandit([st.beta(*shape) for shape in shapes], support=UNIT)


def rules(trials: int = 3) -> Table:
    """Which arm to pull for certifying: rounds until a regret is certain."""
    table = Table(title=f"which arm to pull for certifying: rounds until certain (median of {trials})")
    for head in ("arms", "metric", "regret", "no such pulls", "10 %: fewest pulls", "10 %: largest gain"):
        table.add_column(head, justify="right")
    problems = {"Beta, 3": ARMS["Beta (2,8), (5,5), (8,2)"][0], "Beta, 10": many_arms(10)}
    cap = 3_000_000
    at = marks(50, cap, 1.1)
    recipes = [cls(estimates="binned:8192", certify=share)
               for cls, share in ((pmb.Track, 0.0), (TrackInTurn, 0.0), (pmb.Track, 0.1))]  # fmt: skip
    for name, metric in track([(a, m) for a in problems for m in METRICS], description="rules"):
        value = pmb.oracle(METRICS[metric], problems[name]).value
        goals = (0.1 * value, 0.05 * value)
        times = np.array([
            [[until(found, at, goal) for goal in goals] for found in
             (certified(recipe, problems[name], METRICS[metric], goals[-1], at, trial)[0] for trial in range(trials))]
            for recipe in recipes
        ])  # fmt: skip
        for g, share in enumerate(("10 %", "5 %")):
            table.add_row(name, metric, share, *(shown(float(np.median(row[:, g])), cap) for row in times))
    return table


def price(trials: int = 20) -> Table:
    """What certifying costs in regret."""
    horizon = 100_000
    table = Table(title=f"regret with pulls for certifying, T = {horizon:,}, mean of {trials}")
    shares = (0.0, 0.05, 0.1, 0.3)
    for head in ("arms", "metric", "policy", *(f"{100 * share:g} %" for share in shares)):
        table.add_column(head, justify="right")
    problems = {"Beta, 3": ARMS["Beta (2,8), (5,5), (8,2)"][0], "Beta, 10": many_arms(10)}
    cases = [(a, m, p) for a in problems for m in METRICS for p in (pmb.Track, pmb.Vet)]
    for name, metric, cls in track(cases, description="price"):
        recipes = {f"{share}": cls(certify=share, estimates="binned") for share in shares}
        run = pmb.simulate(METRICS[metric], problems[name], recipes, horizon, trials, checkpoints=1, progress=False)
        cells = [f"{run.regret(key)[1][:, -1].mean():.1e}" for key in recipes]
        table.add_row(name, metric, cls.__name__, *cells)
    return table


# ---- forecasts --------------------------------------------------------------------------------------------
def forecasts(trials: int = 20) -> Table:
    """How often the true number of rounds lies in a forecast's interval."""
    table = Table(
        title=f"forecasts after 300, 1,000 and 3,000 rounds, of a half and a quarter of the regret then ({trials} runs)"
    )
    for head in ("arms", "metric", "policy", "in the interval", "below it", "above it", "true / forecast, 10 to 90 %"):
        table.add_column(head, justify="right")
    cases = [(a, m, p) for a in ARMS for m in METRICS for p in POLICIES]
    everything = []
    for name, metric, policy in track(cases, description="forecasts"):
        bandit, cap = ARMS[name][0], 200_000
        keep = "binned:8192" if "Beta" in name else "exact"
        recipe = type(POLICIES[policy])(**{**POLICIES[policy].options, "estimates": keep})
        rows = []
        try:
            for trial in range(trials):
                rows += one_forecast(recipe, bandit, METRICS[metric], trial, (300, 1000, 3000)[trial % 3], cap)
        except ValueError:
            continue
        found = np.array(rows)
        if not found.size:
            continue
        everything.append(found)
        table.add_row(name, metric, policy, *judged(found))
    table.add_row("all", "", "", *judged(np.concatenate(everything)))
    return table


def judged(rows: np.ndarray) -> list[str]:
    """Shares inside, below and above, and the spread of true ÷ forecast."""
    middle, low, high, truth = rows.T
    ratio = np.quantile(truth / middle, [0.1, 0.9])
    shares = ((low <= truth) & (truth <= high), truth < low, truth > high)
    return [*(f"{100 * share.mean():.0f} %" for share in shares), f"{ratio[0]:.2f} to {ratio[1]:.2f}"]


def one_forecast(
    recipe: pmb.Policy, bandit: pmb.Bandit, metric: pmb.Distortion, trial: int, start: int, cap: int
) -> list[tuple[float, float, float, float]]:
    """Forecast and truth of one run; runs in which the truth would lie beyond the cap are left out."""
    at = np.concatenate(([start], marks(start + 1, cap, 1.02)))
    player = Player(recipe.bind(metric, bandit.n_arms, bandit.support), bandit, 11, at)
    goals: list[float] = []
    said: list[Forecast] = []
    true = [np.inf, np.inf]

    def watch(policy: pmb.Policy) -> bool:
        regret = policy.certainty().regret
        if not goals:
            if regret <= 0.0:
                return True
            goals.extend((0.5 * regret, 0.25 * regret))
            said.extend(policy.forecast(goal) for goal in goals)
            return all(not one.rounds < 0.5 * cap for one in said)
        for g, goal in enumerate(goals):
            if regret <= goal:
                true[g] = min(true[g], policy.t - start)
        return bool(np.isfinite(true).all())

    player.play(trial, watch)
    return [(*one[:3], t) for one, t in zip(said, true, strict=False) if one.rounds < 0.5 * cap and one.rounds > 0]


def reading() -> Table:
    """What the first reading after a change costs, beside one pass over the rewards in numpy."""
    table = Table(title="certainty() after a new reward, K = 10, 100,000 rewards, Interval(0, 1); CPU milliseconds")
    for head in ("metric", "exact", "binned", "numpy: sort these rewards"):
        table.add_column(head, justify="right")
    rng = np.random.default_rng(1)
    shapes, arms = rng.uniform(0.5, 5.0, (10, 2)), rng.integers(0, 10, 100_000)
    rewards = rng.beta(*shapes[arms].T)
    for name in ("gini", "wang_right_tail", "upper_cvar(0.9)", "lower_cvar(0.2)"):
        cells = []
        for keep in ("exact", "binned"):
            policy = pmb.Track(name, n_arms=10, support=UNIT, estimates=keep)
            policy.tell(arms, rewards)
            policy.certainty()
            cells.append(min(_first_reading(policy, rng) for _ in range(5)))
        cells.append(min(_clock(lambda: np.sort(rewards)) for _ in range(5)))
        table.add_row(name, *(f"{1e3 * cell:.1f}" for cell in cells))
    return table


def _clock(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _first_reading(policy: pmb.Policy, rng: np.random.Generator) -> float:
    policy.tell(policy.ask(), float(rng.random()))
    return _clock(policy.certainty)


def tables() -> Iterator[Table]:
    """All of them."""
    yield reading()
    yield rules()
    yield price()
    yield forecasts()
    yield rounds()
