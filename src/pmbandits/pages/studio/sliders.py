"""From a preference to sliders: its parts, and each number of theirs with a label in plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import SequenceMatcher
from math import isfinite
from typing import Any

from pmbandits import _check
from pmbandits.metrics import as_metric, preferences
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.registry import FAMILIES

_MOST = 20  # parts of a preference that get sliders


@dataclass(frozen=True)
class Words:
    """How a parameter is shown.

    ``turn`` says what is on the slider: the number itself, the number in percent, or what is missing to 1 in percent.
    """

    label: str
    lo: float
    hi: float
    step: float
    turn: str = "plain"


_SAID = {
    ("cvar", "c"): Words("how many of the best outcomes count", 1, 100, 1, "missing"),
    ("lower_cvar", "alpha"): Words("how many of the worst outcomes count", 1, 100, 1, "percent"),
    ("var", "c"): Words("in how many cases the level is reached", 1, 99, 1, "missing"),
    ("dual_power", "s"): Words("how many tries, of which the best counts", 1, 20, 0.5),
    ("quadratic", "s"): Words("how much spread counts beside the average", 0, 100, 1, "percent"),
    ("pht", "s"): Words("how much rare large gains count", 0, 95, 1, "missing"),
    ("inter_es_range", "c"): Words("where good outcomes begin", 5, 95, 1, "percent"),
    ("inter_quantile_range", "lower"): Words("the lower quantile", 1, 49, 1, "percent"),
    ("inter_quantile_range", "upper"): Words("the upper quantile", 51, 99, 1, "percent"),
    ("inverted_s", "beta"): Words("how even outcomes count (1: as in the average)", 0.1, 2, 0.05),
    ("tversky_kahneman", "gamma"): Words("how even outcomes count (1: as in the average)", 0.28, 1, 0.01),
    ("tsallis_past_entropy", "alpha"): Words("how much low outcomes count", 0.1, 4, 0.1),
    ("wang_transform", "shift"): Words("towards the best (above 0) or the worst (below 0)", -3, 3, 0.05),
    ("gini_shortfall", "p"): Words("where the tail begins", 0, 95, 1, "percent"),
    ("gini_shortfall", "loading"): Words("how much spread in the tail counts", 0, 1, 0.05),
    ("power_deviation", "m"): Words("the first power", 0.05, 1, 0.05),
    ("power_deviation", "r"): Words("the second power", 0.05, 1, 0.05),
}


def described(metric: Distortion) -> dict[str, Any]:
    """A preference as a script needs it: how much the average counts, its other parts, and their sliders.

    >>> found = described(as_metric("0.7*mean + 0.3*cvar(0.9)"))
    >>> found["average"], found["parts"][0]["name"], found["parts"][0]["sliders"][0]["value"]
    (0.7, 'cvar', 10.0)
    """
    parts = [(weight, part) for weight, part in metric.terms if part.name != "mean"]
    mean = sum(weight for weight, part in metric.terms if part.name == "mean")
    average: float | None = None
    if not parts:
        average, shown = 1.0 if mean == 1.0 else None, []
    elif len(parts) == 1 and abs(parts[0][0] + mean - 1.0) < 1e-9 and 0.0 <= mean < 1.0:
        average, shown = mean, [(1.0, parts[0][1])]
    else:
        shown = [*([(mean, as_metric("mean"))] if mean else []), *parts]
    if len(shown) > _MOST:
        shown = []
    return {
        "text": written(metric),
        "average": average,
        "parts": [
            {
                "weight": weight,
                "name": part.name,
                "meaning": part.meaning,
                "values": part.parameters,
                "sliders": [_slider(part, f.name, f.metadata) for f in fields(part)],  # type: ignore[arg-type]
            }
            for weight, part in shown
        ],
    }


def _slider(part: Distortion, name: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    value = float(getattr(part, name))
    words = _SAID.get((part.name, name))
    if words is None:
        limits = metadata.get("limits", {})
        lo, hi = float(limits.get("lo", -5.0)), float(limits.get("hi", 5.0))
        lo = lo if isfinite(lo) else min(-5.0, value)
        hi = hi if isfinite(hi) else max(lo + 10.0, value)
        step = (hi - lo) / 100.0
        words = Words(
            name, lo + (step if limits.get("open_lo") else 0), hi - (step if limits.get("open_hi") else 0), step
        )
    shown = {"plain": value, "percent": 100.0 * value, "missing": 100.0 * (1.0 - value)}[words.turn]
    return {
        "name": name,
        "label": words.label,
        "min": min(words.lo, shown),
        "max": max(words.hi, shown),
        "step": words.step,
        "value": round(shown, 9),
        "turn": words.turn,
    }


def written(metric: Distortion) -> str:
    """A preference as text that :func:`pmbandits.metric` reads.

    >>> written(as_metric("mean - 0.5*gini"))
    'mean - 0.5*gini_deviation'
    """
    out = ""
    for weight, part in metric.terms:
        values = ", ".join(f"{float(value):.12g}" for value in part.parameters.values())
        named = f"{part.name}({values})" if values else part.name
        size = "" if abs(weight) == 1.0 else f"{abs(weight):.12g}*"
        sign = (" - " if weight < 0.0 else " + ") if out else ("-" if weight < 0.0 else "")
        out += f"{sign}{size}{named}"
    return out


_FRACTIONS = {"half": 50.0, "third": 33.33, "quarter": 25.0, "fifth": 20.0, "tenth": 10.0}  # as percents
_BESIDE = re.compile(
    r"(\d+(?:\.\d+)?)\s*%\s*(?:of\s+)?(?:the\s+)?(?:plain\s+)?(?:average|mean)\s*(?:,|\+|and)\s*(?:and\s+)?"
    r"(\d+(?:\.\d+)?)\s*%\s*(?:of\s+)?(.+)"
)


class Unclear(ValueError):
    """Words that are not understood, with statements that are like them."""

    def __init__(self, sentence: str, said: str) -> None:
        super().__init__(sentence)
        mine = set(re.findall(r"[a-z]+", said.lower()))

        def like(statement: str) -> float:
            words = set(re.findall(r"[a-z]+", statement.lower()))
            return len(mine & words) + SequenceMatcher(None, said.lower(), statement.lower()).ratio()

        self.more = {"nearest": sorted((p.statement for p in preferences()), key=like, reverse=True)[:3]}


def understood(said: str) -> dict[str, Any]:
    """A preference from what somebody typed: a statement in plain words, or a metric as text."""
    said = said.strip()
    if not said:
        raise ValueError("say what you value, such as 'avoid the worst 10 %', or choose a statement.")
    try:
        return {**described(_formula(said)), "statement": "", "does": "", "note": ""}
    except ValueError as error:
        as_text = error
    for word, size in _FRACTIONS.items():
        said = re.sub(rf"\b(?:an?\s+|one\s+)?{word}\b", f"{size:.4g} %", said, flags=re.IGNORECASE)
    beside = _BESIDE.fullmatch(said.lower())
    if beside is not None and abs(float(beside[1]) + float(beside[2]) - 100.0) < 1e-9:
        other = understood(beside[3])
        whole = (float(beside[1]) / 100.0) * as_metric("mean") + (float(beside[2]) / 100.0) * as_metric(other["text"])
        return {**described(whole), "statement": "", "does": "", "note": f"Understood as: {aloud(whole)}."}
    try:
        found = preferences(said)
    except ValueError as error:
        if any(sign in said for sign in "(*+_"):
            raise as_text from None
        if "cannot tell what" not in str(error):
            raise Unclear(str(error), said) from None
        sentence = f"cannot tell what {_check.short(said)} asks for; say it in other words, or take one of these:"
        raise Unclear(sentence, said) from None
    left = _unused(said, found.metric)
    if left:
        raise Unclear(
            f"your words say {left}, but what they were taken for ({found.statement!r}) has no place for it; choose a "
            "statement and move its sliders, or say it like '80 % average and 20 % worst 5 %':",
            said,
        )
    note = f"Understood as: {aloud(found.metric)}."
    period = re.search(r"\b(day|week|month|year)s?\b|\bquarters\b", said.lower())
    if period is not None:
        one = period[1] or "quarter"
        note += (
            f" One outcome is one row of your table, so this is about single rows, not about {one}s. To judge {one}s, "
            f"take a table with one row for each {one} and arm."
        )
    return {**described(found.metric), "statement": found.statement, "does": found.does, "note": note}


def _formula(said: str) -> Distortion:
    """A metric as text, also as people write its name: lower CVaR."""
    try:
        return as_metric(said)
    except ValueError:
        name = re.sub(r"[\s-]+", "_", said.lower())
        known = {cls.name: cls for cls in FAMILIES}
        if name in known:
            return known[name].example()
        raise


def _unused(said: str, metric: Distortion) -> str:
    """A number in the words that the preference does not have."""
    known = {100.0}
    for weight, part in metric.terms:
        for value in (weight, *map(float, part.parameters.values())):
            known |= {value, 100.0 * value, 100.0 * (1.0 - value)}
    for text in re.findall(r"\d+(?:[.,]\d+)?", said):
        if not any(abs(float(text.replace(",", ".")) - number) < 1e-6 for number in known):
            return text
    return ""


def in_words(part: Distortion) -> str:
    """What a named preference means, with its numbers.

    >>> in_words(as_metric("lower_cvar(0.05)"))
    'the average of the worst α share of rewards (α = 0.05)'
    """
    signs = {"alpha": "α", "beta": "β", "gamma": "γ"}
    said = ", ".join(f"{signs.get(name, name)} = {float(value):.4g}" for name, value in part.parameters.items())
    return f"{part.meaning} ({said})" if said else str(part.meaning)


def aloud(metric: Distortion) -> str:
    """A preference in the words of its statement, if there is one with these numbers; else as its parts say it."""
    for entry in preferences():
        if entry.metric == metric:
            return entry.statement
    parts = []
    for weight, part in metric.terms:
        named = {"lower_cvar": "the worst {:g} %", "cvar": "the best {:g} %"}.get(part.name)
        if named is not None:
            value = float(next(iter(part.parameters.values())))
            said = named.format(round(100.0 * (value if part.name == "lower_cvar" else 1.0 - value), 6))
        else:
            said = "the average" if part.name == "mean" else in_words(part)
        parts.append(said if weight == 1.0 else f"{100.0 * weight:g} % {said}")
    return ", ".join(parts)


def catalogue() -> list[dict[str, Any]]:
    """All statements, for a list to choose from."""
    return [{**described(p.metric), "statement": p.statement, "does": p.does, "mixes": p.mixes} for p in preferences()]


def named() -> list[dict[str, str]]:
    """All named preferences, for those who know them."""
    return [{"name": cls.name, "text": written(cls.example()), "meaning": cls.meaning} for cls in FAMILIES]
