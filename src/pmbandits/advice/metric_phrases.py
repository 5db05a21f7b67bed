"""A preference in plain words, with its numbers in them: for reports, and beside the sliders of the studio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pmbandits.metrics.distortion import Distortion

_PHRASES: dict[str, Callable[..., str]] = {
    "mean": lambda: "the plain average",
    "lower_cvar": lambda alpha: f"the average of the worst {_percent_text(alpha)}",
    "upper_cvar": lambda c: f"the average of the best {_percent_text(1.0 - c)}",
    "var": lambda c: (
        "the median" if abs(c - 0.5) < 1e-6 else f"the level that is reached in {_percent_text(1 - c)} of the cases"
    ),
    "dual_power": lambda s: f"the best of {s:g} tries, on average",
    "quadratic": lambda s: f"the average, and {_percent_text(s)} of the spread (Gini)",
    "gini_deviation": lambda: "the spread (Gini): half the average distance between two rewards",
    "mean_median_deviation": lambda: "the spread: the average distance from the median",
    "inter_quantile_range": lambda lower, upper: (
        f"the gap between the {_percent_text(lower)} and {_percent_text(upper)} levels"
    ),
    "inverted_s": lambda beta: (
        f"the average, with rare outcomes counting {'more' if beta < 1.0 else 'less'} (β = {beta:g})"
    ),
    "wang_right_tail": lambda: "the excess of the rare large rewards",
    "pht": lambda s: f"the average, with rare large rewards counting more (by {_percent_text(1.0 - s)})",
}  # fmt: skip


def describe_metric(metric: Distortion, loss: bool = False) -> str:
    """A metric described in words; of losses, from which a spread is not taken off, but to which it is added.

    >>> from pmbandits.metrics import metric
    >>> describe_metric(metric("lower_cvar(0.95)"))
    'the average of the worst 95 %'
    >>> describe_metric(metric("0.7*mean + 0.3*upper_cvar(0.9)"))
    '70 % the plain average, 30 % the average of the best 10 %'
    >>> describe_metric(metric("mean - 0.5*gini"))
    'the plain average, less 0.5 times the spread (Gini): half the average distance between two rewards'
    """
    if loss:  # a level of negated numbers
        return _describe_gains_or_losses(metric, loss).replace("is reached in", "is not exceeded in")
    return _describe_gains_or_losses(metric, loss)


def _describe_gains_or_losses(metric: Distortion, loss: bool) -> str:
    terms = metric.terms
    if loss and float(metric(1.0)) != 0.0:
        terms = tuple((-weight if float(part(1.0)) == 0.0 else weight, part) for weight, part in terms)
    if len(terms) == 1 and terms[0][0] == 1.0:
        return _describe_term(terms[0][1])
    if len(terms) == 1 and terms[0][0] == -1.0:
        return f"the negative of {_describe_term(terms[0][1])}"
    if all(weight > 0.0 for weight, _ in terms) and abs(sum(weight for weight, _ in terms) - 1.0) < 1e-9:
        return ", ".join(f"{_percent_text(weight)} {_describe_term(part)}" for weight, part in terms)
    said: list[str] = []
    for weight, part in terms:
        times = "" if abs(weight) == 1.0 else f"{abs(weight):.3g} times "
        said.append(f"{'less ' if weight < 0.0 else 'plus ' if said else ''}{times}{_describe_term(part)}")
    return ", ".join(said)


def _describe_term(part: Any) -> str:
    values = getattr(part, "parameters", {})
    name = getattr(part, "name", "")
    if name in _PHRASES:
        return _PHRASES[name](**values)
    numbers = ", ".join(f"{name} = {value:.3g}" for name, value in values.items() if isinstance(value, (int, float)))
    return f"{getattr(part, 'meaning', '') or 'a curve of your own'}{f' ({numbers})' if numbers else ''}"


def _percent_text(share: float) -> str:
    return f"{100.0 * share:.4g} %"
