"""Metrics by name: for the command line, TOML and JSON."""

from __future__ import annotations

import re
from typing import Any

from pmbandits import _validation
from pmbandits.metrics.distortion import Distortion, linear_combination
from pmbandits.metrics.families import FAMILIES
from pmbandits.metrics.names import ALIASES, REGISTRY, build_metric, registered_metric_name

MAX_METRIC_TEXT = 10_000  # letters: reading them takes time that grows with their square
_TERM = re.compile(r"\s*([+-])?\s*(?:([0-9.]+(?:[eE][+-]?\d+)?)\s*\*\s*)?([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?")


_COLON = re.compile(r"([A-Za-z_]\w*):([\w.=,]+)")  # upper_cvar:c=0.9, where brackets are awkward to type


def metric(name: str, /, **parameters: Any) -> Distortion:
    """Make a metric from its name and parameters, or a sum of metrics from text.

    Parameters
    ----------
    name : a name in small letters (``pmbandits metrics`` lists them), or a sum: ``"0.7*mean + 0.3*upper_cvar(0.9)"``.
        ``"upper_cvar:c=0.9"`` is the same as ``"upper_cvar(c=0.9)"``. What a metric prints can be read, too:
        ``"UpperCVaR(c=0.9)"``.
    parameters : the metric's parameters, by name.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.metric("upper_cvar", c=0.9)
    UpperCVaR(c=0.9)
    >>> pmb.metric("mean - 0.5*gini")
    Mean() - 0.5*GiniDeviation()
    """
    if not isinstance(name, str):
        raise TypeError(f"a metric's name must be text, got {_validation.short_repr(name)}.")
    if len(name) > MAX_METRIC_TEXT:
        raise ValueError(f"a metric as text has up to {MAX_METRIC_TEXT:,} letters, got {len(name):,}.")
    name = _COLON.sub(r"\1(\2)", name)
    known = registered_metric_name(name) in REGISTRY
    if not parameters and not known and re.search(r"[^\w\s]", name):
        return _parse_sum(name)
    return build_metric(name, (), parameters)


def _parse_sum(text: str) -> Distortion:
    """``[±][number*]name[(arguments)]`` repeated: a fixed little grammar, nothing is evaluated."""
    if text.count("(") != text.count(")"):
        raise ValueError(f"a bracket of the metric {text!r} is not closed, or never opened.")
    parts: list[tuple[float, Distortion]] = []
    position = 0
    while position < len(text.rstrip()):
        found = _TERM.match(text, position)
        if found is None or (position > 0 and found[1] is None):
            raise ValueError(
                f"cannot read the metric {text!r} from {text[position:].strip()!r} on; "
                "write it like '0.7*mean + 0.3*upper_cvar(0.9)'."
            )
        sign, factor, name, arguments = found.groups()
        weight = (-1.0 if sign == "-" else 1.0) * _parse_number(factor or "1", text)
        positional, named = [], {}
        for piece in filter(None, (a.strip() for a in (arguments or "").split(","))):
            key, equals, value = piece.partition("=")
            if equals:
                named[key.strip()] = _parse_number(value, text)
            else:
                positional.append(_parse_number(piece, text))
        built = build_metric(name, tuple(positional), named)
        parts += [(weight * c, d) for c, d in built.terms]
        position = found.end()
    return linear_combination(parts)


def _parse_number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text.strip()!r} in the metric {whole!r} is not a number.") from None


__all__ = ["ALIASES", "FAMILIES", "metric"]
