"""The promise table: how often each statement with a probability is wrong, and how often verdicts still decide.

``make validity`` plays 1,000 runs of each row, prints the table, and writes ``docs/validity.md`` from what it kept in
``docs/validity.json``; ``python -m benchmarks.validity --quick`` plays 40 and writes no page. A run that was stopped
goes on where it was (``out/validity.json``). Words choose rows: ``python -m benchmarks.validity done bounds``. A
promise is broken if it was wrong more often than promised beyond chance: by a one-sided binomial test at 1 % for all
rows together, so at 1 % divided by the number of rows for each (Bonferroni).
"""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats as st

import pmbandits as pmb

RUNS, QUICK_RUNS = 1_000, 40
UNIT = pmb.Interval(0, 1)
OUT = Path("out/validity.json")
KEPT, PAGE = Path("docs/validity.json"), Path("docs/validity.md")
BEGIN, END = "<!-- written by benchmarks/validity.py: begin -->", "<!-- written by benchmarks/validity.py: end -->"


class Row(NamedTuple):
    """A promise: its name, the most that it may be wrong, and one run: whether it was wrong (or decided)."""

    group: str
    name: str
    promised: float | None  # None: power, which is reported only
    run: Callable[[np.random.Generator, int], bool]


# ---- certainty of policies ---------------------------------------------------------------------------------
def bounds_fail(law: Any, support: pmb.Support, metric: str, last: int = 400, **options: Any) -> Callable[..., bool]:
    """Whether the true utility of an arm is ever outside its bounds, at looks that grow by a fifth."""
    truth = float(pmb.metric(metric).value(law))
    looks = np.unique(np.geomspace(2, last, 24).astype(int))

    def run(rng: np.random.Generator, seed: int) -> bool:
        x = np.asarray(law.rvs(last, random_state=rng), dtype=float)
        policy, told = pmb.Track(metric, n_arms=1, support=support, **options), 0
        for n in looks.tolist():
            policy.tell(0, x[told:n])
            told = n
            low, _, high = policy.utility_bounds([1.0])
            if not low - 1e-9 <= truth <= high + 1e-9:
                return True
        return False

    return run


def stops_wrongly(
    arms: list[Any], support: pmb.Support, metric: str, regret: float, last: int = 600, certify: float = 0.1
) -> Callable[..., bool]:
    """Whether ``done`` stops with a mixture whose regret is larger than it says; looks in every tenth round."""
    bandit = pmb.Bandit(arms, support=support)
    best = pmb.oracle(metric, bandit).value

    def run(rng: np.random.Generator, seed: int) -> bool:
        policy = pmb.Track(metric, n_arms=len(arms), support=support, certify=certify, seed=seed)
        rewards = [np.asarray(arm.rvs(last, random_state=rng), dtype=float) for arm in arms]
        for t in range(last):
            arm = policy.ask()
            policy.tell(arm, float(rewards[arm][t]))
            if t % 10 == 9 and policy.done(regret):
                return best - float(pmb.utility(metric, bandit, policy.mixture)) > regret
        return False

    return run


# ---- advice ------------------------------------------------------------------------------------------------
def shops(rng: np.random.Generator, sizes: np.ndarray, alike: float, lead: float) -> pd.DataFrame:
    """Two arms with units of these sizes and this intraclass correlation; the second is ahead by ``lead``."""
    out = []
    for k, arm in enumerate("ab"):
        for shop, n in enumerate(sizes.tolist()):
            noise = np.sqrt(alike) * rng.normal() + np.sqrt(1 - alike) * rng.normal(size=n)
            out.append(pd.DataFrame({"arm": arm, "shop": f"{arm}{shop}", "reward": 0.5 + 0.12 * noise + lead * k}))
    table = pd.concat(out)
    return table.assign(reward=table["reward"].clip(0, 1))


def sizes_of(kind: str, units: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "equal":
        return np.full(units, 50)
    if kind == "one has half":
        return np.array([20 * (units - 1)] + [20] * (units - 1))
    return np.minimum(np.ceil(6 * (1 + rng.pareto(1.1, units))), 2_000).astype(int)


def sure_of_units(kind: str, units: int, alike: float, lead: float = 0.0, metric: str = "mean") -> Callable[..., bool]:
    few = metric.startswith("var")  # the search for the best mixture takes long where h jumps

    def run(rng: np.random.Generator, seed: int) -> bool:
        sizes = np.full(units, 8) if few else sizes_of(kind, units, rng)
        table = shops(rng, sizes, alike, lead)
        return pmb.advise(table, metric, unit="shop", support=UNIT, splits=1 if few else 8).proven

    return run


def median_missed(units: int) -> Callable[..., bool]:
    def run(rng: np.random.Generator, seed: int) -> bool:
        table = shops(rng, np.full(units, 5), 0.5, 0.0)
        arms = pmb.advise(table, "var(0.5)", unit="shop", support=UNIT, splits=1).arms
        return not arms[0].interval[0] <= 0.5 <= arms[0].interval[1]

    return run


def sure_of_series(n: int, depends: float, lead: float = 0.0) -> Callable[..., bool]:
    def run(rng: np.random.Generator, seed: int) -> bool:
        noise, state = rng.normal(size=(n, 2)), rng.normal(size=2)
        reward = np.empty((n, 2))
        for t in range(n):
            state = depends * state + np.sqrt(1 - depends**2) * noise[t]
            reward[t] = np.clip(0.5 + 0.12 * state + [0, lead], 0, 1)
        table = pd.DataFrame({"arm": ["a", "b"] * n, "reward": reward.ravel(), "day": np.repeat(np.arange(n), 2)})
        return pmb.advise(table, "mean", time="day", support=UNIT, splits=8).proven

    return run


def sure_after_a_shift(overlap: float) -> Callable[..., bool]:
    """Arms that overlap in this share of the time, in a world that gets better once, in the middle."""

    def run(rng: np.random.Generator, seed: int) -> bool:
        n = 200
        day = np.concatenate((rng.uniform(0, 0.5 + overlap / 2, n), rng.uniform(0.5 - overlap / 2, 1, n)))
        reward = np.clip(rng.normal(0.4 + 0.05 * (day > 0.5), 0.1), 0, 1)
        table = pd.DataFrame({"arm": np.repeat(["a", "b"], n), "reward": reward, "day": day})
        return pmb.advise(table, "mean", time="day", support=UNIT, splits=8).proven

    return run


def sure_of_rare_events(few: int, many: int, p: float, level: float) -> Callable[..., bool]:
    def run(rng: np.random.Generator, seed: int) -> bool:
        data = {"few": rng.random(few) < p, "many": rng.random(many) < p}
        return pmb.advise(data, "mean", level=level, splits=1).proven

    return run


def rows() -> list[Row]:
    out = [
        Row("bounds", f"N(0, 1), Heavy({order:g}, {bound:g}), {metric}", 0.05,
            bounds_fail(st.norm(), pmb.Heavy(order, bound), metric, 200))
        for order, bound in ((2, 1.1), (4, 3.3), (6, 16.0))
        for metric in ("mean", "lower_cvar(0.5)", "upper_cvar(0.9)")
    ]  # fmt: skip
    out += [
        Row("bounds", f"{name}, {metric}", 0.05, bounds_fail(law, support, metric))
        for name, law, support in (
            ("Beta(2, 5), Interval", st.beta(2, 5), UNIT),
            ("Beta(10, 30), Interval", st.beta(10, 30), UNIT),
            ("coin .1, Interval", st.bernoulli(0.1), UNIT),
            ("coin .3, Binary", st.bernoulli(0.3), pmb.Binary()),
            ("0, 1, 2, 3, Finite", st.binom(3, 0.2), pmb.Finite([0, 1, 2, 3])),
            ("N(0, 1), Real(1)", st.norm(), pmb.Real(1.0)),
        )
        for metric in ("mean", "gini", "upper_cvar(0.9)")
    ]
    out += [
        Row("bounds", f"{name}, {metric}", 0.05, bounds_fail(law, support, metric))
        for name, law, support, metric in (
            ("Beta(2, 5), Interval", st.beta(2, 5), UNIT, "lower_cvar(0.1)"),
            ("Beta(.3, 1), Interval", st.beta(0.3, 1), UNIT, "lower_cvar(0.3)"),
            ("Beta(2, 5), Interval", st.beta(2, 5), UNIT, "0.5*mean + 0.5*lower_cvar(0.1)"),
            ("0 to 10, Finite", st.binom(10, 0.3), pmb.Finite(range(11)), "lower_cvar(0.3)"),
        )
    ]
    coins = [st.bernoulli(0.4), st.bernoulli(0.9)]
    betas = [st.beta(2, 8), st.beta(5, 5), st.beta(8, 2)]
    out += [
        Row("done", "coins (.4, .9), Gini, .02", 0.05, stops_wrongly(coins, pmb.Binary(), "gini", 0.02)),
        Row("done", "coins (.4, .9), mean, .1", 0.05, stops_wrongly(coins, pmb.Binary(), "mean", 0.1)),
        Row("done", "coins (.45, .5, .55), quadratic, .02", 0.05,
            stops_wrongly([st.bernoulli(p) for p in (0.45, 0.5, 0.55)], pmb.Binary(), "quadratic(0.5)", 0.02, 400, .9)),
        Row("done", "coins (.45, .55), Gini, .002", 0.05,
            stops_wrongly([st.bernoulli(p) for p in (0.45, 0.55)], pmb.Binary(), "gini", 0.002, 400, 0.5)),
        Row("done", "coins (.02, .03), lower CVaR(.5), .005", 0.05,
            stops_wrongly([st.bernoulli(p) for p in (0.02, 0.03)], pmb.Binary(), "lower_cvar(0.5)", 0.005, 400, 0.5)),
        Row("done", "Beta arms, mean, .1", 0.05, stops_wrongly(betas, UNIT, "mean", 0.1)),
        Row("done", "Beta(2, 4), (2.1, 4), (2.2, 4), lower CVaR(.3), .04", 0.05,
            stops_wrongly([st.beta(a, 4) for a in (2, 2.1, 2.2)], UNIT, "lower_cvar(0.3)", 0.04, 600, 0.5)),
        Row("done", "Beta arms, quadratic, .1", 0.05, stops_wrongly(betas, UNIT, "quadratic(0.5)", 0.1)),
        Row("done", "N(0), N(.3), Heavy(4, 4), lower CVaR(.5), .25", 0.05,
            stops_wrongly([st.norm(0), st.norm(0.3)], pmb.Heavy(4, 4.0), "lower_cvar(0.5)", 0.25, 400)),
    ]  # fmt: skip
    for kind in ("equal", "one has half", "Pareto"):
        for units in (5, 10, 20, 40):
            out.append(Row("advise, units", f"{units} units, {kind}, ICC .3", 0.05, sure_of_units(kind, units, 0.3)))
            out.append(
                Row("power, units", f"{units} units, {kind}, ICC .3", None, sure_of_units(kind, units, 0.3, 0.12))
            )
    out += [
        Row("advise, units", "12 units, equal, ICC .9", 0.05, sure_of_units("equal", 12, 0.9)),
        Row("advise, units", "20 units, equal, Gini", 0.05, sure_of_units("equal", 20, 0.3, metric="gini")),
        Row("advise, units", "20 units, equal, median", 0.05, sure_of_units("equal", 20, 0.3, metric="var(0.5)")),
        Row("advise, units", "interval of the median, 12 units", 0.05, median_missed(12)),
        Row("advise, units", "interval of the median, 30 units", 0.05, median_missed(30)),
    ]
    for depends in (0.0, 0.3, 0.6, 0.9):
        out.append(Row("advise, time", f"AR(1) {depends:g}, n = 300", 0.05, sure_of_series(300, depends)))
        out.append(Row("power, time", f"AR(1) {depends:g}, n = 300", None, sure_of_series(300, depends, 0.1)))
    out += [
        Row("advise, time", f"arms that change, overlap {overlap:g}", 0.05, sure_after_a_shift(overlap))
        for overlap in (0.0, 0.3, 0.6, 0.9)
    ]
    out += [
        Row("advise, level", f"coins .02, n = {few:,} and {many:,}, level {level:g}", 1 - level,
            sure_of_rare_events(few, many, 0.02, level))
        for few, many in ((200, 200), (200, 20_000))
        for level in (0.95, 0.99, 0.999)
    ]  # fmt: skip
    return out


def verdict(row: Row, wrong: int, runs: int, tests: int) -> str:
    if row.promised is None:
        return f"{100 * wrong / runs:.0f} % decided"
    broken = st.binomtest(wrong, runs, row.promised, alternative="greater").pvalue < 0.01 / tests
    return f"{100 * wrong / runs:.2g} % of at most {100 * row.promised:.3g} %{' — BROKEN' if broken else ''}"


def table(kept: dict[str, list[Any]], every: list[Row]) -> tuple[str, int]:
    """The rows that were played, as Markdown, and how many promises are broken."""
    tests = sum(row.promised is not None for row in every)
    lines, broken = ["| promise | data | wrong | runs | version |", "|---|---|---|---|---|"], 0
    for row in every:
        wrong, done, commit = kept.get(f"{row.group}: {row.name}", [0, 0, ""])
        if done:
            said = verdict(row, wrong, done, tests)
            broken += "BROKEN" in said
            lines.append(f"| {row.group} | {row.name} | {said} | {done:,} | {commit} |")
    return "\n".join(lines), broken


def write_page() -> int:
    """Write the table into the page, from what is kept; returns how many promises are broken."""
    shown, broken = table(json.loads(KEPT.read_text()), rows())
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{shown}\n\n{END}{rest.partition(END)[2]}")
    return broken


def main() -> None:
    if "--page" in sys.argv:
        print(f"{write_page()} promises broken beyond their level")
        return
    runs = QUICK_RUNS if "--quick" in sys.argv else RUNS
    wanted, every = [word for word in sys.argv[1:] if not word.startswith("-")], rows()
    kept: dict[str, list[Any]] = json.loads(OUT.read_text()) if OUT.exists() else {}
    commit = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True).stdout.strip()
    for row in every:
        key = f"{row.group}: {row.name}"
        if wanted and not any(word in key for word in wanted):
            continue
        wrong, done, _ = kept.get(key, [0, 0, ""])
        while done < runs:
            wrong += bool(row.run(np.random.default_rng([done, zlib.crc32(key.encode())]), done))
            done += 1
            if done % 20 == 0 or done == runs:
                kept[key] = [wrong, done, commit]
                OUT.parent.mkdir(exist_ok=True)
                OUT.with_suffix(".part").write_text(json.dumps(kept, indent=1))
                OUT.with_suffix(".part").replace(OUT)
        print(f"{key}: {verdict(row, wrong, done, len(every))} ({done:,} runs)", flush=True)
    shown, broken = table(kept, every)
    print(f"{shown}\n\n{broken} promises broken beyond their level")
    if runs == RUNS and not wanted:
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
        write_page()
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
