"""Metrics by name: for the command line, TOML and JSON."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from pmbandits import _check
from pmbandits.metrics.combination import simplify
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.families import FAMILIES
from pmbandits.metrics.family import ALIASES, REGISTRY

_TERM = re.compile(r"\s*([+-])?\s*(?:([0-9.]+(?:[eE][+-]?\d+)?)\s*\*\s*)?([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?")


_COLON = re.compile(r"([A-Za-z_]\w*):([\w.=,]+)")  # cvar:c=0.9, where brackets are awkward to type


_SPREAD = (
    "For rewards far apart take 'gini' (half the average distance of two rewards); against spread, 'mean - 0.5*gini'."
)
# What people ask for under another name, which may look like the name of a metric that does the opposite.
_MEANT = {
    **dict.fromkeys(
        ("variance", "var_", "std", "sd", "stdev", "standard_deviation", "volatility", "dispersion"), _SPREAD
    ),
    **dict.fromkeys(("spread", "variety", "diversity", "entropy"), _SPREAD),
    "median": "The median is 'var(0.5)'.",
    "quantile": "The quantile at 10 % is 'var(0.1)': a level that is reached in 90 % of the cases.",
    "average": "The average is 'mean'.",
    "expected_value": "The average is 'mean'.",
    "max": "For the best rewards take 'cvar(0.9)', the average of the best 10 %.",
    "min": "For the worst rewards take 'lower_cvar(0.1)', the average of the worst 10 %.",
    "worst": "For the worst rewards take 'lower_cvar(0.1)', the average of the worst 10 %.",
    "risk": "To avoid bad outcomes take 'lower_cvar(0.1)', the average of the worst 10 %.",
    "sharpe": "A ratio is no preference of this kind; 'mean - 0.5*gini' weighs the average against spread.",
    "semivariance": "To avoid bad outcomes take 'lower_cvar(0.1)', the average of the worst 10 %.",
}


def metric(name: str, /, **parameters: Any) -> Distortion:
    """Make a metric from its name and parameters, or a sum of metrics from text.

    Parameters
    ----------
    name : a name in small letters (``pmbandits metrics`` lists them), or a sum such as ``"0.7*mean + 0.3*cvar(0.9)"``.
        ``"cvar:c=0.9"`` is the same as ``"cvar(c=0.9)"``. What a metric prints can be read, too: ``"CVaR(c=0.9)"``.
    parameters : the metric's parameters, by name.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.metric("cvar", c=0.9)
    CVaR(c=0.9)
    >>> pmb.metric("mean - 0.5*gini")
    Mean() - 0.5*GiniDeviation()
    """
    if not isinstance(name, str):
        raise TypeError(f"a metric's name must be text, got {_check.short(name)}.")
    name = _COLON.sub(r"\1(\2)", name)
    known = _key(name) in REGISTRY
    if not parameters and not known and re.search(r"[^\w\s]", name):
        return _parse(name)
    return _build(name, (), parameters)


def as_metric(given: object) -> Distortion:
    """Turn what a user gave into a metric: a metric is returned as it is, and text is read by :func:`metric`.

    >>> from pmbandits.metrics import as_metric
    >>> as_metric("cvar(0.9)")
    CVaR(c=0.9)
    """
    if isinstance(given, Distortion):
        return given
    if isinstance(given, str):
        return metric(given)
    raise TypeError(
        f"metric must be a preference metric such as GiniDeviation(), or its name, got {_check.short(given)}."
    )


def _key(name: str) -> str:
    key = name.strip().lower().replace("-", "_").replace(" ", "_")
    key = ALIASES.get(key, key)
    if key not in REGISTRY:  # as Python writes it: LowerCVaR for lower_cvar
        key = next((known for known, cls in REGISTRY.items() if cls.__name__.lower() == key), key)
    return key


def from_dict(data: Mapping[str, Any]) -> Distortion:
    """See :meth:`Distortion.from_dict`."""
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
        raise ValueError(f"a metric is described by a table with a 'name', got {_check.short(data)}.")
    parameters = {str(k): v for k, v in data.items() if k != "name"}
    if data["name"] != "sum":
        return _build(data["name"], (), parameters)
    terms = parameters.pop("terms", None)
    if parameters or not isinstance(terms, (list, tuple)):
        raise ValueError("a 'sum' metric has one entry 'terms': a list of tables with 'weight' and 'metric'.")
    parts = []
    for k, term in enumerate(terms):
        if not isinstance(term, Mapping) or set(term) != {"weight", "metric"}:
            raise ValueError(
                f"term {k} of a 'sum' metric must have exactly 'weight' and 'metric', got {_check.short(term)}."
            )
        weight = _check.number(f"weight of term {k}", term["weight"])
        parts += [(weight * c, d) for c, d in from_dict(term["metric"]).terms]
    return simplify(parts)


def _build(name: str, positional: tuple[Any, ...], parameters: Mapping[str, Any]) -> Distortion:
    key = _key(name)
    if key in _MEANT:
        raise ValueError(f"there is no metric {name!r}. {_MEANT[key]}")
    if key not in REGISTRY:
        _check.choice("metric", key, [*REGISTRY, *ALIASES], kind="metric")
    cls = REGISTRY[key]
    signature = inspect.signature(cls)
    allowed = ", ".join(signature.parameters) or "none"
    for parameter in parameters:
        if parameter not in signature.parameters:
            raise ValueError(f"metric {key!r}: there is no parameter {parameter!r}; its parameters are: {allowed}.")
    try:
        signature.bind(*positional, **parameters)
    except TypeError as error:
        raise ValueError(f"metric {key!r}: {error}; its parameters are: {allowed}.") from None
    return cls(*positional, **parameters)


def _parse(text: str) -> Distortion:
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
                "write it like '0.7*mean + 0.3*cvar(0.9)'."
            )
        sign, factor, name, arguments = found.groups()
        weight = (-1.0 if sign == "-" else 1.0) * _as_number(factor or "1", text)
        positional, named = [], {}
        for piece in filter(None, (a.strip() for a in (arguments or "").split(","))):
            key, equals, value = piece.partition("=")
            if equals:
                named[key.strip()] = _as_number(value, text)
            else:
                positional.append(_as_number(piece, text))
        built = _build(name, tuple(positional), named)
        parts += [(weight * c, d) for c, d in built.terms]
        position = found.end()
    return simplify(parts)


def _as_number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text.strip()!r} in the metric {whole!r} is not a number.") from None


__all__ = ["ALIASES", "FAMILIES", "as_metric", "from_dict", "metric"]
