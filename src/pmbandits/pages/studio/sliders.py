"""From a preference to sliders: its parts, and each number of theirs with a label in plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from pmbandits.advice.metric_phrases import describe_metric
from pmbandits.metrics import as_metric, preferences
from pmbandits.metrics.catalogue import MAX_STATEMENT, as_written
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.registry import FAMILIES
from pmbandits.metrics.registry import metric as find_metric

_MOST_PARTS = 20  # parts of a preference that get sliders


@dataclass(frozen=True)
class SliderSpec:
    """How a parameter is shown.

    ``transform``: what is on the slider: the number itself, the number in percent, or what is missing to 1 in percent.
    """

    label: str
    lo: float
    hi: float
    step: float
    transform: str = "plain"


_SLIDER_SPECS = {
    ("upper_cvar", "c"): SliderSpec("how many of the best outcomes count", 1, 100, 1, "missing"),
    ("lower_cvar", "alpha"): SliderSpec("how many of the worst outcomes count", 1, 100, 1, "percent"),
    ("var", "c"): SliderSpec("in how many cases the level is reached", 1, 99, 1, "missing"),
    ("dual_power", "s"): SliderSpec("how many tries, of which the best counts", 1, 20, 0.5),
    ("quadratic", "s"): SliderSpec("how much spread counts beside the average", 0, 100, 1, "percent"),
    ("pht", "s"): SliderSpec("how much rare large gains count", 0, 95, 1, "missing"),
    ("inter_es_range", "c"): SliderSpec("where good outcomes begin", 5, 95, 1, "percent"),
    ("inter_quantile_range", "lower"): SliderSpec("the lower quantile", 1, 49, 1, "percent"),
    ("inter_quantile_range", "upper"): SliderSpec("the upper quantile", 51, 99, 1, "percent"),
    ("inverted_s", "beta"): SliderSpec("how even outcomes count (1: as in the average)", 0.1, 2, 0.05),
    ("tversky_kahneman", "gamma"): SliderSpec("how even outcomes count (1: as in the average)", 0.28, 1, 0.01),
    ("tsallis_past_entropy", "alpha"): SliderSpec("how much low outcomes count", 0.1, 4, 0.1),
    ("wang_transform", "shift"): SliderSpec("towards the best (above 0) or the worst (below 0)", -3, 3, 0.05),
    ("gini_shortfall", "p"): SliderSpec("where the tail begins", 0, 95, 1, "percent"),
    ("gini_shortfall", "loading"): SliderSpec("how much spread in the tail counts", 0, 1, 0.05),
    ("power_deviation", "m"): SliderSpec("the first power", 0.05, 1, 0.05),
    ("power_deviation", "r"): SliderSpec("the second power", 0.05, 1, 0.05),
}


def metric_with_sliders(metric: Distortion) -> dict[str, Any]:
    """A preference as a script needs it: how much the average counts, its other parts, and their sliders.

    >>> found = metric_with_sliders(as_metric("0.7*mean + 0.3*upper_cvar(0.9)"))
    >>> found["average"], found["parts"][0]["name"], found["parts"][0]["sliders"][0]["value"]
    (0.7, 'upper_cvar', 10.0)
    """
    metric = as_written(metric)
    parts = [(weight, part) for weight, part in metric.terms if part.name != "mean"]
    mean = sum(weight for weight, part in metric.terms if part.name == "mean")
    average: float | None = None
    if not parts:
        average, shown = 1.0 if mean == 1.0 else None, []
    elif len(parts) == 1 and abs(parts[0][0] + mean - 1.0) < 1e-9 and 0.0 <= mean < 1.0:
        average, shown = mean, [(1.0, parts[0][1])]
    else:
        shown = [*([(mean, as_metric("mean"))] if mean else []), *parts]
    if len(shown) > _MOST_PARTS:
        shown = []
    return {
        "text": metric_text(metric),
        "words": describe_metric(metric),
        "average": average,
        "parts": [
            {
                "weight": weight,
                "name": part.name,
                "meaning": describe_metric(part),
                "values": part.parameters,
                "sliders": [_slider_description(part, f.name, f.metadata) for f in fields(part)],  # type: ignore[arg-type]
            }
            for weight, part in shown
        ],
    }


def _slider_description(part: Distortion, name: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    value = float(getattr(part, name))
    spec = _SLIDER_SPECS.get((part.name, name))
    if spec is None:
        limits = metadata.get("limits", {})
        lo, hi = float(limits.get("lo", -5.0)), float(limits.get("hi", 5.0))
        lo = lo if isfinite(lo) else min(-5.0, value)
        hi = hi if isfinite(hi) else max(lo + 10.0, value)
        step = (hi - lo) / 100.0
        spec = SliderSpec(
            name, lo + (step if limits.get("open_lo") else 0), hi - (step if limits.get("open_hi") else 0), step
        )
    shown = {"plain": value, "percent": 100.0 * value, "missing": 100.0 * (1.0 - value)}[spec.transform]
    return {
        "name": name,
        "label": spec.label,
        "min": min(spec.lo, shown),
        "max": max(spec.hi, shown),
        "step": spec.step,
        "value": round(shown, 9),
        "turn": spec.transform,
    }


def metric_text(metric: Distortion) -> str:
    """A preference as text that :func:`pmbandits.metric` reads.

    >>> metric_text(as_metric("mean - 0.5*gini"))
    'mean - 0.5*gini_deviation'
    """
    out = ""
    for weight, part in as_written(metric).terms:
        values = ", ".join(f"{float(value):.12g}" for value in part.parameters.values())
        named = f"{part.name}({values})" if values else part.name
        size = "" if abs(weight) == 1.0 else f"{abs(weight):.12g}*"
        sign = (" - " if weight < 0.0 else " + ") if out else ("-" if weight < 0.0 else "")
        out += f"{sign}{size}{named}"
    return out


class UnknownPreference(ValueError):
    """Words that are not understood, with the statements that come nearest."""

    def __init__(self, said: str, near: list[str]) -> None:
        super().__init__(said)
        self.more = {"nearest": near}


def parse_preference(said: str, *, formula: bool = False, loss: bool = False) -> dict[str, Any]:
    """A preference from what somebody typed: a statement in plain words, or (also) a metric as text.

    Of losses, "p95" is a level that they seldom exceed.

    >>> [parse_preference(said)["text"] for said in ("80 % average and 20 % worst 5 %", "lower CVaR")]
    ['0.8*mean + 0.2*lower_cvar(0.05)', 'lower_cvar(0.1)']
    """
    said = said.strip()
    if not said:
        raise ValueError("say what you value, such as 'avoid the worst 10 %', or choose a statement.")
    if formula or len(said) > MAX_STATEMENT:
        return _metric_without_statement(as_metric(said))
    name = re.sub(r"[\s-]+", "_", said.lower())
    for family in FAMILIES:  # who knows a name may say it in words
        if name in (family.name, *family.aliases):
            return _metric_without_statement(family.example())
    try:
        return _metric_without_statement(find_metric(said))  # not as_metric, which takes words, too
    except ValueError as error:
        as_text = error
    if any(sign in said for sign in "(*") and re.search(r"[a-z_]+\(", said):
        raise as_text
    try:
        found = preferences(said)
    except ValueError as error:
        listed = str(error).partition("; say one of these")[0]
        raise UnknownPreference(
            f"{listed[:1].upper()}{listed[1:].removesuffix('.')}.", statements_sharing_most_words(said)
        ) from None
    return {
        **_metric_without_statement(found.of_losses() if loss else found.metric),
        "statement": found.statement,
        "does": found.does,
        "period": period_named_in_words(said),
    }


def _metric_without_statement(metric: Distortion) -> dict[str, Any]:
    return {**metric_with_sliders(metric), "statement": "", "does": "", "period": ""}


def period_named_in_words(said: str) -> str:
    """A period that the words speak about: then one row is perhaps not what is meant by one reward.

    >>> period_named_in_words("bad weeks are not too bad"), period_named_in_words("avoid the worst 10 %")
    ('week', '')
    """
    found = re.search(r"\b(day|week|month)(?:s|ly)?\b|\bdaily\b", said.lower())
    return "" if found is None else found[1] or "day"


def statements_sharing_most_words(said: str, count: int = 3) -> list[str]:
    """The statements that have most words in common with what was said; else the first ones.

    >>> statements_sharing_most_words("profit from the worst weeks")[0]
    'avoid the worst 10 %'
    """
    words_typed = set(re.findall(r"[a-z]{3,}", said.lower()))

    def near(entry: Any) -> int:
        text = f"{entry.statement} {entry.does}".lower()
        return sum(any(word[:5] == other[:5] for other in re.findall(r"[a-z]{3,}", text)) for word in words_typed)

    return [entry.statement for entry in sorted(preferences(), key=near, reverse=True)[:count]]


def all_statements_for_list() -> list[dict[str, Any]]:
    """All statements, for a list to choose from."""
    return [{**metric_with_sliders(p.metric), "statement": p.statement, "does": p.does} for p in preferences()]


def named_metrics() -> list[dict[str, str]]:
    """All named preferences, for those who know them."""
    return [
        {"name": cls.name, "text": metric_text(cls.example()), "meaning": describe_metric(cls.example())}
        for cls in FAMILIES
    ]
