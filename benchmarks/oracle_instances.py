"""The oracle on random instances: gaps, computing time, and whether anything beats it; two versions side by side.

    export OPENBLAS_NUM_THREADS=1                                # CPU times of two threads say nothing
    python -m benchmarks.oracle_instances record before.json     # with the old source on the path
    python -m benchmarks.oracle_instances record after.json      # with the new source on the path
    python -m benchmarks.oracle_instances compare before.json after.json

Each instance draws a concave metric (of every family, sums, functions known by their values, vertical ends, corners),
arms on common atoms, and limits: none, boxes, groups, a budget, or segments (one sum for each of several groups).
Only public names are used, so the
script runs with any version. ``record`` takes a third argument, how many instances, and a fourth, ``reference``: then
cvxpy solves the small ones, too.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats as st
from tests.reference import convex

import pmbandits as pmb

SEED = 33
# (arms, cells, how often): small ones make most of it.
SIZES = (
    (2, 20, 14), (3, 20, 14), (5, 20, 12), (20, 20, 6), (2, 512, 10), (5, 512, 12), (20, 512, 10), (100, 512, 4),
    (5, 5_000, 5), (20, 5_000, 4), (100, 5_000, 2), (5, 100_000, 1), (20, 100_000, 1), (1_000, 512, 1),
    (100, 100_000, 1), (5, 1_000_000, 1),
)  # fmt: skip
RARE = 20_000_000  # arms × cells × 20 above which an instance is drawn once in ten times only
LIMITS = ("none", "none", "none", "box", "groups", "budget", "segments", "mixed")


def metric_of(rng: np.random.Generator) -> tuple[pmb.Distortion, convex.Concave | None]:
    """A concave metric, and the same for cvxpy where that can state it."""
    power, share, level = rng.uniform(0.45, 0.95), rng.uniform(0.5, 0.95), rng.uniform(1.2, 3.0)
    known = [
        (pmb.GiniDeviation(), convex.gini()),
        (pmb.WangRightTail(), convex.wang_right_tail()),
        (pmb.UpperCVaR(share), convex.upper_cvar(share)),
        (pmb.MeanMedianDeviation(), convex.mean_median_deviation()),
        (pmb.InterESRange(share), convex.inter_es_range(share)),
        (pmb.DualPower(level), convex.dual_power(level)),
        (pmb.PHT(power), convex.pht(power)),
        (pmb.Quadratic(power), convex.quadratic(power)),
        (pmb.TsallisPastEntropy(1.0), convex.tsallis_past_entropy(1.0)),
        (pmb.TsallisPastEntropy(level), convex.tsallis_past_entropy(level)),
        (pmb.GiniShortfall(power, 0.3), convex.gini_shortfall(power, 0.3)),
        (pmb.WangTransform(power), None),
        (pmb.Distortion.from_function(lambda u: np.log1p(9.0 * u) - u, name="smooth values"), None),
        (pmb.Distortion.from_function(lambda u: np.sqrt(u) - 0.3 * u**2, name="by values"), None),
    ]
    first, same = known[int(rng.integers(len(known)))]
    if rng.random() < 0.35:
        second, other = known[int(rng.integers(len(known) - 1))]
        c = float(rng.uniform(0.1, 1.0))
        both = None if same is None or other is None else convex.total((1.0, same), (c, other))
        return first + c * second, both
    return first, same


def arms_of(rng: np.random.Generator, count: int, cells: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Atoms and probabilities of each arm, on common points."""
    points = np.sort(rng.choice([rng.random, rng.standard_normal, rng.standard_exponential])(cells + 1))
    each = max(2, min(cells + 1, int((cells + 1) * rng.choice([0.3, 1.0])), 4_000_000 // count))
    out = []
    for _ in range(count):
        at = np.sort(rng.choice(cells + 1, size=each, replace=False))
        out.append((points[at], rng.dirichlet(np.full(each, rng.choice([0.2, 1.0])))))
    return out


def rules_of(rng: np.random.Generator, kind: str, count: int) -> list[convex.Rule]:
    """Limits of one kind that some mixture keeps."""
    hidden = 0.9 * rng.dirichlet(np.ones(count)) + 0.1 / count
    eye = np.eye(count)
    if kind == "box":
        some = rng.choice(count, size=min(count, 30), replace=False)
        lows = [(eye[i], ">=", float(hidden[i] * rng.uniform(0.1, 0.9))) for i in some]
        return lows + [(eye[i], "<=", float(hidden[i] * rng.uniform(1.1, 3.0))) for i in some]
    if kind == "budget":
        cost = rng.uniform(0.2, 2.0, count)
        return [(cost, "<=", float(cost @ hidden))]
    if kind in ("groups", "segments"):
        group = rng.integers(0, max(2, min(count // 2, 5)), count)
        rows = [(group == g).astype(float) for g in np.unique(group)]
        sign = "==" if kind == "segments" else "<="
        rows = rows[:-1]  # the last sum follows from the others
        return [(row, sign, float(row @ hidden) * (1.0 if kind == "segments" else 1.05)) for row in rows]
    if kind == "mixed":
        some = rng.choice(count, size=min(count, 8), replace=False)
        cost, group = rng.uniform(0.2, 2.0, count), (rng.random(count) < 0.5).astype(float)
        group[0] = 1.0
        lows = [(eye[i], ">=", float(hidden[i] * rng.uniform(0.1, 0.9))) for i in some[::2]]
        highs = [(eye[i], "<=", float(hidden[i] * rng.uniform(1.1, 3.0))) for i in some[1::2]]
        both = [(cost, "<=", float(cost @ hidden) * 1.02), (group, ">=", float(group @ hidden) * 0.97)]
        return lows + highs + both
    return []


def as_shares(rules: list[convex.Rule], names: tuple[str, ...]) -> str | None:
    """The limits as the library reads them."""
    texts = []
    for row, sign, number in rules:
        left = " + ".join(f"{float(c)!r} * {name}" for c, name in zip(row, names, strict=True) if c)
        texts.append(f"{left} {sign} {number!r}")
    return "; ".join(texts) or None


def record(target: Path, most: int, reference: bool) -> None:
    sizes = [size for size in SIZES for _ in range(size[2])]
    rows: list[dict[str, Any]] = []
    for number in range(most):
        rng = np.random.default_rng([SEED, number])
        count, cells, _ = sizes[number % len(sizes)]
        if 20 * count * cells > RARE and (number // len(sizes)) % 10:
            count, cells = 5, 512
        metric, same = metric_of(rng)
        kind = LIMITS[int(rng.integers(len(LIMITS)))] if count > 2 else "none"
        arms, rules = arms_of(rng, count, cells), rules_of(rng, kind, count)
        names = tuple(f"a{i}" for i in range(count))
        bandit = pmb.Bandit([st.rv_discrete(values=(x, p)) for x, p in arms], names=names)
        row: dict[str, Any] = {"arms": count, "cells": cells, "limits": kind, "metric": repr(metric)}
        begun = time.process_time()
        try:
            best = pmb.oracle(metric, bandit, shares=as_shares(rules, names))
        except Exception as error:  # what fails is counted
            row |= {"error": repr(error)}
        else:
            size = max(abs(best.value), 1e-300)
            row |= {"value": best.value, "gap": best.gap, "relative": best.gap / size}
            row |= {"certified": best.certified}
        row["seconds"] = time.process_time() - begun
        if reference and same is not None and count * cells <= 12_000 and number % 2 == 0 and "value" in row:
            points, above = convex.survival(arms)
            try:
                other, _ = convex.best_mixture(same, points, above, rules)
            except Exception:  # cvxpy gives up at times
                other = None
            if other is not None:
                row["reference"] = convex.utility(same, points, above, other)
        rows.append(row)
        if number % 50 == 49:
            print(number + 1, "instances", flush=True)
            target.write_text(json.dumps(rows))
    target.write_text(json.dumps(rows))


def compare(one: Path, two: Path) -> int:
    before, after = json.loads(one.read_text()), json.loads(two.read_text())
    beaten = wide = failed = 0
    table: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for old, new in zip(before, after, strict=False):
        if "error" in new:
            failed += 1
            print("failed:", new)
            continue
        size = max(abs(new["value"]), 1e-300)
        others = [x for x in (old.get("value"), new.get("reference")) if x is not None]
        # A reference that keeps limits up to the tolerance of its solver only may be a hair better.
        if any(x > new["value"] + new["gap"] + 1e-7 * size for x in others[1:]) or (
            others and others[0] > new["value"] + new["gap"] + 1e-12 * size
        ):
            beaten += 1
            print("beaten:", old, new)
        if not new["relative"] <= 1e-9:
            wide += 1
            print("gap above 1e-9:", new, "before:", old.get("relative"))
        table.setdefault((new["arms"], new["cells"]), []).append((old["seconds"], new["seconds"]))
    print(f"{len(after)} instances, {failed} failed, {beaten} beaten, {wide} with a gap above 1e-9 of the utility")
    print("arms  cells     n  CPU ms before  after  faster (median)")
    for (count, cells), pairs in sorted(table.items()):
        old_s, new_s = (np.array([p[k] for p in pairs]) for k in (0, 1))
        print(
            f"{count:4d} {cells:8d} {len(pairs):4d} {1e3 * np.median(old_s):10.1f} {1e3 * np.median(new_s):10.1f}"
            f" {np.median(old_s / new_s):8.1f}"
        )
    return beaten + failed


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1_000, "reference" in sys.argv)
    else:
        sys.exit(min(compare(Path(sys.argv[2]), Path(sys.argv[3])), 1))
