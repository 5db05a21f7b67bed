"""How often intervals for a mean regret hold: ours (Student's and Hall's), and two standard errors.

Many trials of each policy stand for all that could be played; small sets of trials are drawn from them. The last table
asks what the correction for a leader that was picked from the same trials is worth: equal policies, none of which may
be called worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.stats as st
from rich.table import Table

import pmbandits as pmb
from pmbandits._intervals import mean_interval

DRAWS = 4000
TRIALS = (10, 20, 50, 100)
Ends = Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]]


def ours(values: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """What ``summary()`` and ``difference()`` give."""
    return mean_interval(values, level)[1:]


def two_errors(values: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The mean ± 2 standard errors, as it was before."""
    error = 2.0 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return values.mean(axis=0) - error, values.mean(axis=0) + error


def student(values: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Student's interval."""
    error = st.t.ppf(0.5 + level / 2, len(values) - 1) * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return values.mean(axis=0) - error, values.mean(axis=0) + error


METHODS: dict[str, Ends] = {"2 standard errors": two_errors, "Student": student, "ours": ours}


def runs() -> Iterator[tuple[str, pmb.Run]]:
    """Problems on which a mixture is best, and on which one arm is."""
    gini, far, near = pmb.GiniDeviation(), 5000, 1000
    mixing = [pmb.Vet(), pmb.Track(), pmb.CIRT(), pmb.PMUCB(horizon=far), pmb.PMETC(horizon=far)]
    yield (
        "two coins, Gini",
        pmb.simulate(gini, pmb.Bandit.bernoulli([0.4, 0.9]), [*mixing, pmb.UCB1()], far, trials=2000),
    )
    wang = pmb.WangRightTail()
    yield "two coins, Wang", pmb.simulate(wang, pmb.Bandit.bernoulli([0.2, 0.7]), mixing, far, trials=2000)
    coins = pmb.Bandit.bernoulli([0.3, 0.4, 0.5, 0.55, 0.6])
    means = [pmb.Vet(), pmb.Track(), pmb.UCB1(), pmb.Thompson()]
    yield "five coins, mean", pmb.simulate(pmb.Mean(), coins, means, far, trials=2000)
    beta = pmb.Bandit([st.beta(2, 8), st.beta(5, 5), st.beta(8, 2)])
    slopes = pmb.UCFW(bonus="variance")
    yield "Beta arms, Gini", pmb.simulate(gini, beta, [pmb.Vet(), pmb.Track(), slopes, pmb.UCB1()], near, trials=1000)
    kinds = {"safe": [0.4, 0.5, 0.5, 0.6], "risky": [0.0, 0.2, 0.8, 1.0, 1.0], "middle": [0.3, 0.5, 0.7, 0.7]}
    single = [pmb.Vet(), pmb.Track(), pmb.MCVTS(), pmb.CVaRUCB(horizon=near)]
    arms = pmb.Bandit.from_samples(kinds)
    yield "worst quarter", pmb.simulate(pmb.LowerCVaR(0.25), arms, single, near, trials=1000)


def tables() -> Iterator[Table]:
    rng = np.random.default_rng(5)
    means: dict[str, np.ndarray] = {}
    gaps: dict[str, np.ndarray] = {}
    for name, run in runs():
        found = {policy: run.regret(policy)[1][:, -1] for policy in run.policies}
        means |= {f"{policy}, {name}": values for policy, values in found.items() if np.ptp(values) > 1e-12}
        first, *others = found
        gaps |= {f"{first} − {other}, {name}": found[first] - found[other] for other in others}
    yield from _coverage("mean regrets", means, rng)
    yield from _coverage("paired differences", {k: v for k, v in gaps.items() if np.ptp(v) > 1e-12}, rng)
    yield _leaders(means, rng)


def _coverage(what: str, populations: dict[str, np.ndarray], rng: np.random.Generator) -> Iterator[Table]:
    table = Table(title=f"How often 95 % intervals miss (%), {len(populations)} {what}")
    for head in ("trials", "method", "average", "worst but two", "worst", "width"):
        table.add_column(head, justify="left" if head == "method" else "right")
    for n in TRIALS:
        missed: dict[str, list[float]] = {name: [] for name in METHODS}
        wide: dict[str, list[float]] = {name: [] for name in METHODS}
        for population in populations.values():
            values, truth = rng.choice(population, (n, DRAWS)), population.mean()
            slack = 1e-9 * np.abs(population).max()
            for name, ends in METHODS.items():
                low, high = ends(values, 0.95)
                missed[name].append(100 * float(1 - ((low - slack <= truth) & (truth <= high + slack)).mean()))
                wide[name].append(float(np.median(high - low)) / (4 * population.std() / np.sqrt(n)))
        for name in METHODS:
            worst = sorted(missed[name])
            table.add_row(str(n), name, f"{np.mean(worst):.1f}", f"{worst[-3]:.1f}", f"{worst[-1]:.1f}",
                          f"{np.median(wide[name]):.2f}")  # fmt: skip
    yield table


def _leaders(populations: dict[str, np.ndarray], rng: np.random.Generator) -> Table:
    """Policies that are all alike: how often is one of them called worse than the best of the trials?"""
    table = Table(title="Equal policies, the best of the trials is the leader: another is called worse (%)")
    for head in ("policies", "trials", "2 standard errors", "ours, all pairs together"):
        table.add_column(head, justify="right")
    for count in (3, 6):
        for n in (20, 50):
            pairs = count * (count - 1) // 2
            wrong = {"before": [], "after": []}
            for population in populations.values():
                values = rng.choice(population, (count, n, DRAWS // 4))
                leader = values.mean(axis=1).argmin(axis=0)
                best = np.take_along_axis(values, leader[None, None, :], axis=0)
                gaps = (values - best).transpose(1, 0, 2).reshape(n, -1)
                for name, ends, level in (("before", two_errors, 0.95), ("after", ours, 1 - 0.05 / pairs)):
                    low = ends(gaps, level)[0].reshape(count, -1)
                    wrong[name].append(100 * float((low > 1e-15).any(axis=0).mean()))
            table.add_row(str(count), str(n), *(f"{np.mean(wrong[name]):.1f}" for name in ("before", "after")))
    return table
