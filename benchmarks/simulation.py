"""Rounds per second of whole simulations, beside a bare compiled loop and the peers, in one run on one core."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numba
import numpy as np
from rich.table import Table

import pmbandits as pmb

QUICK = bool(os.environ.get("BENCH_QUICK"))
MEANS = (0.4, 0.9)


def tables() -> Iterator[Table]:
    yield speed()
    yield many_trials()
    yield size()


@numba.njit
def _bare(rounds: int, p0: float, p1: float) -> int:
    """UCB1 on two Bernoulli arms with everything in registers: what a compiled loop can do at best."""
    n0, n1, s0, s1 = 1, 1, 0.0, 0.0
    for t in range(2, rounds):
        level = 2.0 * math.log(t)
        if s0 / n0 + math.sqrt(level / n0) >= s1 / n1 + math.sqrt(level / n1):
            n0 += 1
            s0 += np.random.random() < p0  # noqa: NPY002
        else:
            n1 += 1
            s1 += np.random.random() < p1  # noqa: NPY002
    return n0


def _vectorised(rounds: int, trials: int) -> None:
    """UCB1 in numpy, all trials side by side: the loop that people write themselves."""
    rng = np.random.default_rng(0)
    p, row = np.array(MEANS), np.arange(trials)
    n, s = np.ones((trials, 2)), (rng.random((trials, 2)) < p).astype(float)
    for t in range(2, rounds):
        arm = np.argmax(s / n + np.sqrt(2.0 * math.log(t) / n), axis=1)
        n[row, arm] += 1.0
        s[row, arm] += rng.random(trials) < p[arm]


@numba.njit
def _bare_trials(rounds: int, trials: int, p0: float, p1: float) -> int:
    """The bare loop, once for each trial."""
    total = 0
    for _ in range(trials):
        total += _bare(rounds, p0, p1)
    return total


def _jax_loops() -> dict[str, Callable[[int, int], Any]]:
    """UCB1 in JAX, in float32, in two forms: rounds and trials give what is to be timed. Empty without JAX.

    The first is how one writes it down: a trial is a scan, and trials are mapped. In the second a scan plays a round of
    all trials, with one call of the generator. Neither keeps checkpoints or makes a table.
    """
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return {}
    means = jnp.array(MEANS)

    def index(n: Any, s: Any, t: Any) -> Any:
        known = jnp.maximum(n, 1.0)
        return jnp.where(n > 0, s / known + jnp.sqrt(2.0 * jnp.log(jnp.maximum(t, 1.0)) / known), jnp.inf)

    @partial(jax.jit, static_argnums=(0, 1))
    def mapped(rounds: int, trials: int) -> Any:
        def trial(key: Any) -> Any:
            def one_round(state: Any, t: Any) -> Any:
                n, s, key = state
                key, own = jax.random.split(key)
                arm = jnp.argmax(index(n, s, t))
                pulled = jnp.arange(2) == arm
                return (n + pulled, s + pulled * (jax.random.uniform(own) < means[arm]), key), None

            start = jnp.zeros(2), jnp.zeros(2), key
            return jax.lax.scan(one_round, start, jnp.arange(rounds, dtype=jnp.float32))[0][0]

        return jax.vmap(trial)(jax.random.split(jax.random.key(0), trials))

    @partial(jax.jit, static_argnums=(0, 1))
    def together(rounds: int, trials: int) -> Any:
        def one_round(state: Any, t: Any) -> Any:
            n, s = state
            arm = jnp.argmax(index(n, s, t), axis=0)
            pulled = jnp.arange(2)[:, None] == arm
            u = jax.random.uniform(jax.random.fold_in(jax.random.key(0), t.astype(int)), (trials,))
            return (n + pulled, s + pulled * (u < means[arm])), None

        start = jnp.zeros((2, trials)), jnp.zeros((2, trials))
        return jax.lax.scan(one_round, start, jnp.arange(rounds, dtype=jnp.float32))[0][0]

    return {
        "JAX, scan and vmap": lambda rounds, trials: mapped(rounds, trials).block_until_ready(),
        "JAX, all trials in a round": lambda rounds, trials: together(rounds, trials).block_until_ready(),
    }


def _river(rounds: int) -> None:
    from river import bandit

    rng = np.random.default_rng(0)
    policy, arms = bandit.UCB(delta=1, seed=1), [0, 1]
    for u in rng.random(rounds).tolist():
        arm = policy.pull(arms)
        policy.update(arm, float(u < MEANS[arm]))


def _pymab(rounds: int, trials: int) -> None:
    import pymab
    from pymab.policies import UCBPolicy

    pymab.Experiment(
        environment=pymab.BanditEnvironment(np.array(MEANS), pymab.BernoulliReward()),
        policies={"ucb": UCBPolicy(n_arms=2)},
        config=pymab.ExperimentConfig(horizon=rounds, n_replicates=trials, seed=0),
    ).run()


def _mabwiser(rounds: int) -> None:
    from mabwiser.mab import MAB, LearningPolicy

    rng = np.random.default_rng(0)
    mab = MAB([0, 1], LearningPolicy.UCB1(alpha=1.0))
    mab.fit([0, 1], [0, 1])
    for u in rng.random(rounds).tolist():
        arm = mab.predict()
        mab.partial_fit([arm], [int(u < MEANS[arm])])


def _rate(work: Callable[[], Any], rounds: int, repeats: int = 3) -> float:
    work()
    shortest = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - start)
    return rounds / shortest


def _ours(recipe: pmb.Policy, rounds: int, trials: int) -> Callable[[], Any]:
    bandit, gini = pmb.Bandit.bernoulli(MEANS), pmb.GiniDeviation()
    return lambda: pmb.simulate(gini, bandit, recipe, rounds, trials, n_jobs=1, progress=False)


def speed() -> Table:
    rounds, trials = 1_000_000, 2 if QUICK else 4
    table = Table(title=f"Rounds a second, one core, 2 Bernoulli arms {MEANS}, T = {rounds:,} (ours: all of simulate)")
    for head in ("what", "M rounds/s", "of the bare loop", "of the fastest peer"):
        table.add_column(head, justify="left" if head == "what" else "right")
    peers = {
        "river UCB": _rate(lambda: _river(20_000), 20_000, 1),
        "pymab UCB (Rust)": _rate(lambda: _pymab(10_000, 20), 200_000, 1),
        "MABWiser UCB1": _rate(lambda: _mabwiser(1_000), 1_000, 1),
    }
    fastest = max(peers.values())

    def row(name: str, rate: float, bare: float) -> None:
        table.add_row(name, f"{rate / 1e6:.3g}", f"{rate / bare:.2f}", f"{rate / fastest:.3g}×")

    recipes = {
        "UCB1": pmb.UCB1(),
        "PM-ETC-M, 33-point grid": pmb.PMETC(horizon=rounds, epsilon=1 / 32),
        "PM-UCB-M, 33-point grid": pmb.PMUCB(horizon=rounds, epsilon=1 / 33),
        "CE-UCB-M, 33-point grid": pmb.CEUCB(horizon=rounds, epsilon=1 / 33),
        "CIRT, ε = .06": pmb.CIRT(),
        "CIRT, ε = .03": pmb.CIRT(epsilon=0.03),
        "fixed grid": pmb.FixedGrid(),
    }
    highest = 0.0
    for name, recipe in recipes.items():  # in turns with the bare loop: what disturbs one disturbs the other
        ours = _ours(recipe, rounds, trials)
        ours()
        rates = [(_rate(ours, rounds * trials, 1), _rate(_loop(rounds * trials), rounds * trials, 1)) for _ in range(4)]
        rate, bare = (max(column) for column in zip(*rates, strict=True))
        highest = max(highest, bare)
        row(name, rate, bare)
    table.add_section()
    row("bare compiled UCB1 loop", highest, highest)
    row("numpy, UCB1, 1,000 trials side by side", _rate(lambda: _vectorised(1_000, 1_000), 1_000_000, 2), highest)
    for name, rate in peers.items():
        row(name, rate, highest)
    return table


def many_trials() -> Table:
    """UCB1 on two coins in many trials, in turns and in seconds of computing time, which other work disturbs less."""
    shapes = [(1_000, 10_000), (10_000, 1_000), (20_000, 100), (64, 100_000)]
    bandit = pmb.Bandit.bernoulli(MEANS)
    work: dict[str, Callable[[int, int], Any]] = {
        "simulate, with checkpoints and table": lambda rounds, trials: pmb.simulate(
            "mean", bandit, pmb.UCB1(), rounds, trials, n_jobs=1, progress=False
        ),
        "bare compiled loop": lambda rounds, trials: _bare_trials(rounds, trials, *MEANS),
        "numpy, all trials in a round": _vectorised,
        **_jax_loops(),
    }
    table = Table(title="UCB1 on two Bernoulli arms, million rounds per second of computing time, by trials × rounds")
    table.add_column("what")
    for trials, rounds in shapes:
        table.add_column(f"{trials:,} × {rounds:,}", justify="right")
    cells: dict[str, list[str]] = {name: [] for name in work}
    for trials, rounds in shapes:
        seconds = dict.fromkeys(work, math.inf)
        for turn in range(3 if QUICK else 6):
            for name, play in work.items():
                start = time.process_time()
                play(rounds, trials)
                seconds[name] = (
                    min(seconds[name], time.process_time() - start) if turn else math.inf
                )  # the first compiles
        for name in work:
            cells[name].append(f"{rounds * trials / seconds[name] / 1e6:.1f}")
    for name, row in cells.items():
        table.add_row(name, *row)
    if not any(name.startswith("JAX") for name in work):
        table.caption = "JAX is not installed: pip install jax"
    return table


def _loop(rounds: int) -> Callable[[], Any]:
    return lambda: _bare(rounds, *MEANS)


_SIZE = """
import resource, time, pmbandits as pmb
start = time.perf_counter()
recipes = [pmb.CIRT(epsilon=e) for e in (0.12, 0.06, 0.03)]
pmb.simulate(pmb.GiniDeviation(), pmb.Bandit.bernoulli({means}), recipes, {rounds}, {trials})
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def size() -> Table:
    rounds, trials = 3_000_000, 10 if QUICK else 100
    table = Table(title=f"CIRT, ε = .12, .06, .03, {trials} trials × {rounds:,} rounds each, all cores, in a process")
    for head in ("seconds", "M rounds/s", "largest memory of the process"):
        table.add_column(head, justify="right")
    code = _SIZE.format(means=list(MEANS), rounds=rounds, trials=trials)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, peak = (float(x) for x in done.stdout.split())
    table.add_row(f"{seconds:.1f}", f"{3 * rounds * trials / seconds / 1e6:.1f}", f"{peak:.0f} MB")
    return table
