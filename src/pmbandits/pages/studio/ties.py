"""Arms that a preference cannot tell apart: which, why, and a setting that can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.advice.inference import TIE_TOLERANCE, utilities_of_arms
from pmbandits.advice.metric_phrases import describe_metric
from pmbandits.advice.preview import PreviewResult
from pmbandits.constraints import Limits
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.pages.studio.sliders import metric_text, metric_with_sliders
from pmbandits.pages.studio.table import Table

_MOST_ARMS_NAMED = 4  # arms in a sentence
_SMALLEST_DIFFERENCE = 1e-6  # relative to the largest utility: less than that is no difference to show
_MOST_SAME = 0.3  # a reward is worth naming if at least this share of every arm is it


def tied_arms(seen: PreviewResult, limits: Limits | None) -> list[int]:
    """The arms that are best together, where the preference cannot say which of them to play; else empty."""
    best = float(seen.arm_utilities.max())
    size = max(float(np.abs(seen.arm_utilities).max()), abs(seen.value))
    same = [int(k) for k in np.flatnonzero(seen.arm_utilities >= best - TIE_TOLERANCE * size)]
    if (
        len(same) < 2
        or seen.value > best + TIE_TOLERANCE * size
        or (limits is not None and len(same) < seen.arm_utilities.size)
    ):
        return []
    return same


def explain_tie(table: Table, metric: Distortion, seen: PreviewResult, same: list[int]) -> dict[str, Any]:
    """The headline, reason and offers that the page shows where arms are tied."""
    names = [table.names[k] for k in same]
    listed = ", ".join(names[:_MOST_ARMS_NAMED]) + (
        f" and {len(names) - _MOST_ARMS_NAMED} more" if len(names) > _MOST_ARMS_NAMED else ""
    )
    utility = float(seen.arm_utilities.max())
    number = "0" if utility == 0.0 else f"{utility:.4g}"
    if len(same) == len(table.names):
        headline = f"This preference cannot tell the {'two' if len(same) == 2 else len(same)} arms apart."
        first = f"Each of them scores {number} by it."
    else:
        headline = f"This preference cannot choose between {len(same)} arms."
        first = f"{listed} score the same by it ({number}), and the others less."
    return {
        "headline": headline,
        "why": f"{first} {_tie_reason(table, metric, same, utility)}",
        "arms": names,
        "offers": list(_settings_that_break_tie(table, metric, same)),
    }


def most_common_reward(table: Table) -> tuple[float, FloatArray] | None:
    """A reward that makes up a large share of every arm, and these shares; ``None`` if there is none."""
    value, least = table.problem.log.most_common_reward()
    if least < _MOST_SAME:
        return None
    return value, np.array([float(s.p[s.x == value].sum()) for s in table.problem.samples])


def percent_range(shares: FloatArray) -> str:
    """From the least to the largest share, in percent."""
    low, high = (f"{100.0 * end:.0f}" if end < 0.995 else f"{100.0 * end:.4g}" for end in (shares.min(), shares.max()))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _tie_reason(table: Table, metric: Distortion, same: list[int], utility: float) -> str:
    common = most_common_reward(table)
    if common is None or abs(common[0] - utility) > TIE_TOLERANCE * max(abs(utility), 1.0):
        return "Their rewards may differ, but not in what this preference looks at."
    shares = common[1][same]
    return (
        f"The reason: {percent_range(shares)} of their rewards are {common[0]:g}, so {describe_metric(metric)} "
        f"is {common[0]:g}, too."
    )


def _settings_that_break_tie(table: Table, metric: Distortion, same: list[int]) -> Iterator[dict[str, Any]]:
    """Settings that can tell the arms apart, each with the words of its button."""
    found = _nearest_setting_without_tie(table, metric, same)
    if found is not None:
        yield {"say": f"Look at {describe_metric(found)}", "metric": metric_text(found)}
    terms = metric.terms
    mean = as_metric("mean")
    if len(terms) == 1 and terms[0][0] == 1.0 and terms[0][1].name != "mean":
        half = 0.5 * mean + 0.5 * terms[0][1]
        if _are_distinguishable(half, table, same):
            yield {"say": "Count the plain average as well, half and half", "metric": metric_text(half)}
    if _are_distinguishable(mean, table, same):
        yield {"say": "Go by the plain average alone", "metric": "mean"}
    if table.problem.log.per is None and table.date_column is not None:
        yield {"say": "Take a week as one reward", "per": "week"}


def _nearest_setting_without_tie(table: Table, metric: Distortion, same: list[int]) -> Distortion | None:
    """The nearest setting of a slider at which all of the tied arms differ, or at least the best one stands out."""
    parts = [(weight, part) for weight, part in metric.terms if part.name != "mean"]
    if len(parts) != 1:
        return None
    weight, part = parts[0]
    rest: Any = next((w * p for w, p in metric.terms if p.name == "mean"), None)
    for slider in metric_with_sliders(part)["parts"][0]["sliders"]:
        to_parameter = {"plain": lambda v: v, "percent": lambda v: v / 100.0, "missing": lambda v: 1.0 - v / 100.0}[
            slider["turn"]
        ]

        def at(value: float, name: str = slider["name"], to_parameter: Any = to_parameter) -> Distortion:
            values = {f.name: getattr(part, f.name) for f in fields(part)}  # type: ignore[arg-type]
            changed = weight * type(part)(**{**values, name: round(to_parameter(value), 9)})
            return changed if rest is None else rest + changed

        for end in (slider["max"], slider["min"]):
            if end == slider["value"] or not _are_distinguishable(at(end), table, same):
                continue
            tied_at, distinct_at = slider["value"], end  # they are tied at the one, and differ at the other
            steps = max(int(abs(distinct_at - tied_at) / slider["step"] + 0.5), 1)
            low, high = 0, steps
            while high - low > 1:
                middle = (low + high) // 2
                if _are_distinguishable(at(tied_at + (distinct_at - tied_at) * middle / steps), table, same):
                    high = middle
                else:
                    low = middle
            return at(tied_at + (distinct_at - tied_at) * high / steps)
    return None


def _are_distinguishable(metric: Distortion, table: Table, same: list[int]) -> bool:
    """Whether the utilities of these arms all differ, also from the most common reward."""
    utility = np.sort(utilities_of_arms(metric, [table.problem.samples[k] for k in same]))
    common = most_common_reward(table)
    if common is not None:  # an arm that is worth no more than its most common reward is not looked at yet
        utility = np.sort(np.append(utility, common[0]))
    return bool(np.diff(utility).min() > _SMALLEST_DIFFERENCE * max(float(np.abs(utility).max()), 1e-300))
