"""Arms that a preference cannot tell apart: which, why, and a setting that can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.advice.evidence import TIE, values_alone
from pmbandits.advice.glance import Look
from pmbandits.advice.spoken import spoken
from pmbandits.limits import Limits
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.pages.studio.sliders import described, written
from pmbandits.pages.studio.table import Table

_NAMED = 4  # arms in a sentence
_DIFFER = 1e-6  # of the largest worth: less than that is no difference to show
_MOST_SAME = 0.3  # a reward is worth naming if at least this share of every arm is it


def tied(seen: Look, limits: Limits | None) -> list[int]:
    """The arms that are best together, where the preference cannot say which of them to play; else empty."""
    best = float(seen.singles.max())
    size = max(float(np.abs(seen.singles).max()), abs(seen.value))
    same = [int(k) for k in np.flatnonzero(seen.singles >= best - TIE * size)]
    if len(same) < 2 or seen.value > best + TIE * size or (limits is not None and len(same) < seen.singles.size):
        return []
    return same


def explained(table: Table, metric: Distortion, seen: Look, same: list[int]) -> dict[str, Any]:
    """What the page says where arms are tied."""
    names = [table.names[k] for k in same]
    listed = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    worth = float(seen.singles.max())
    number = "0" if worth == 0.0 else f"{worth:.4g}"
    if len(same) == len(table.names):
        headline = f"This preference cannot tell the {'two' if len(same) == 2 else len(same)} arms apart."
        first = f"Each of them is worth {number} by it."
    else:
        headline = f"This preference cannot choose between {len(same)} arms."
        first = f"{listed} are worth the same by it ({number}), and the others less."
    return {
        "headline": headline,
        "why": f"{first} {_why(table, metric, same, worth)}",
        "arms": names,
        "offers": list(_offers(table, metric, same)),
    }


def most_common(table: Table) -> tuple[float, FloatArray] | None:
    """A reward that makes up a large share of every arm, and these shares; ``None`` if there is none."""
    samples = table.problem.samples
    value = float(samples[0].x[int(np.argmax(samples[0].p))])
    shares = np.array([float(s.p[s.x == value].sum()) for s in samples])
    return (value, shares) if shares.min() >= _MOST_SAME else None


def between(shares: FloatArray) -> str:
    """From the least to the largest share, in percent."""
    low, high = (f"{100.0 * end:.0f}" if end < 0.995 else f"{100.0 * end:.4g}" for end in (shares.min(), shares.max()))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _why(table: Table, metric: Distortion, same: list[int], worth: float) -> str:
    common = most_common(table)
    if common is None or abs(common[0] - worth) > TIE * max(abs(worth), 1.0):
        return "Their rewards may differ, but not in what this preference looks at."
    shares = common[1][same]
    return (
        f"The reason: {between(shares)} of their rewards are {common[0]:g}, so {spoken(metric)} is {common[0]:g}, too."
    )


def _offers(table: Table, metric: Distortion, same: list[int]) -> Iterator[dict[str, Any]]:
    """Settings that can tell the arms apart, each with the words of its button."""
    found = _by_slider(table, metric, same)
    if found is not None:
        yield {"say": f"Look at {spoken(found)}", "metric": written(found)}
    terms = metric.terms
    mean = as_metric("mean")
    if len(terms) == 1 and terms[0][0] == 1.0 and terms[0][1].name != "mean":
        half = 0.5 * mean + 0.5 * terms[0][1]
        if _differ(half, table, same):
            yield {"say": "Count the plain average as well, half and half", "metric": written(half)}
    if _differ(mean, table, same):
        yield {"say": "Go by the plain average alone", "metric": "mean"}
    if table.problem.log.per is None and table.when is not None:
        yield {"say": "Take a week as one reward", "per": "week"}


def _by_slider(table: Table, metric: Distortion, same: list[int]) -> Distortion | None:
    """The nearest setting of a slider at which all of the tied arms differ, or at least the best one stands out."""
    parts = [(weight, part) for weight, part in metric.terms if part.name != "mean"]
    if len(parts) != 1:
        return None
    weight, part = parts[0]
    rest: Any = next((w * p for w, p in metric.terms if p.name == "mean"), None)
    for slider in described(part)["parts"][0]["sliders"]:
        turn = {"plain": lambda v: v, "percent": lambda v: v / 100.0, "missing": lambda v: 1.0 - v / 100.0}[
            slider["turn"]
        ]

        def at(value: float, name: str = slider["name"], turn: Any = turn) -> Distortion:
            values = {f.name: getattr(part, f.name) for f in fields(part)}  # type: ignore[arg-type]
            changed = weight * type(part)(**{**values, name: round(turn(value), 9)})
            return changed if rest is None else rest + changed

        for end in (slider["max"], slider["min"]):
            if end == slider["value"] or not _differ(at(end), table, same):
                continue
            near, far = slider["value"], end  # they are tied at the one, and differ at the other
            steps = max(int(abs(far - near) / slider["step"] + 0.5), 1)
            low, high = 0, steps
            while high - low > 1:
                middle = (low + high) // 2
                if _differ(at(near + (far - near) * middle / steps), table, same):
                    high = middle
                else:
                    low = middle
            return at(near + (far - near) * high / steps)
    return None


def _differ(metric: Distortion, table: Table, same: list[int]) -> bool:
    """Whether no two of these arms are worth the same, and none just what most of its rewards are."""
    worth = np.sort(values_alone(metric, [table.problem.samples[k] for k in same]))
    common = most_common(table)
    if common is not None:  # an arm that is worth no more than its most common reward is not looked at yet
        worth = np.sort(np.append(worth, common[0]))
    return bool(np.diff(worth).min() > _DIFFER * max(float(np.abs(worth).max()), 1e-300))
