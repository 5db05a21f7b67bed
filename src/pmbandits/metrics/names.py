"""The names of metrics: which class each stands for, and how a metric is made from its name and parameters."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Mapping
from typing import Any

from pmbandits import _validation

REGISTRY: dict[str, type[Any]] = {}
"""Every named metric by its name, in the order in which they were defined."""
ALIASES: dict[str, str] = {}
"""Other names, and the name that each stands for."""

_SPREAD = "For rewards far apart take 'gini' (half the average distance of two rewards); against spread, 'mean - gini'."
_TAILS = (
    "Papers differ on the tail: 'upper_cvar(0.9)' is the average of the best 10 % of rewards, and 'lower_cvar(0.1)' "
    "that of the worst 10 %."
)
# What people ask for under another name, which may look like the name of a metric that does the opposite.
_SUGGESTIONS = {
    **dict.fromkeys(
        ("variance", "var_", "std", "sd", "stdev", "standard_deviation", "volatility", "dispersion"), _SPREAD
    ),
    **dict.fromkeys(("spread", "variety", "diversity", "entropy"), _SPREAD),
    **dict.fromkeys(("cvar", "expected_shortfall", "es", "avar", "tvar", "conditional_value_at_risk"), _TAILS),
    "median": "The median is 'var(0.5)'.",
    "quantile": "The quantile at 10 % is 'var(0.1)': a level that is reached in 90 % of the cases.",
    **dict.fromkeys(
        ("lcvar", "left_cvar", "worst_cvar"), "The average of the worst 10 % of rewards is 'lower_cvar(0.1)'."
    ),
    **dict.fromkeys(
        ("ucvar", "right_cvar", "best_cvar"), "The average of the best 10 % of rewards is 'upper_cvar(0.9)'."
    ),
    "average": "The average is 'mean'.",
    "expected_value": "The average is 'mean'.",
    "max": "For the best rewards take 'upper_cvar(0.9)', the average of the best 10 %.",
    "min": "For the worst rewards take 'lower_cvar(0.1)', the average of the worst 10 %.",
    "worst": "For the worst rewards take 'lower_cvar(0.1)', the average of the worst 10 %.",
    "risk": "To avoid bad outcomes take 'lower_cvar(0.1)', the average of the worst 10 %.",
    "sharpe": "A ratio is no preference of this kind; 'mean - gini' weighs the average against spread.",
    "semivariance": "To avoid bad outcomes take 'lower_cvar(0.1)', the average of the worst 10 %.",
}


def register_metric_class(cls: type[Any]) -> None:
    """Check the definition of a named metric, and make its names known."""
    if not callable(getattr(cls, "h", None)):
        raise TypeError(f"the metric {cls.name!r} has no formula: define a static method h(u, ...).")
    takes = list(inspect.signature(cls.h).parameters)
    wanted = ["u", *cls.parameter_names]
    if takes != wanted:
        raise TypeError(
            f"the formula of the metric {cls.name!r} must be h({', '.join(wanted)}), u and its parameters in their "
            f"order, but it is h({', '.join(takes)})."
        )
    for name in (cls.name, *cls.aliases):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name == "sum":
            raise ValueError(f"a metric cannot be named {name!r}; take small letters, digits and _, and not 'sum'.")
        other = REGISTRY.get(ALIASES.get(name, name))
        # A class may be defined again, as in a notebook.
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"the name {name!r} belongs to the metric {other.__name__}; choose another.")
    REGISTRY[cls.name] = cls
    ALIASES.update(dict.fromkeys(cls.aliases, cls.name))


def registered_metric_name(name: str) -> str:
    """The name under which a metric is registered, from an alias or the name of its class."""
    key = name.strip().lower().replace("-", "_").replace(" ", "_")
    key = ALIASES.get(key, key)
    if key not in REGISTRY:  # as Python writes it: LowerCVaR for lower_cvar
        key = next((known for known, cls in REGISTRY.items() if cls.__name__.lower() == key), key)
    return key


def build_metric(name: str, positional: tuple[Any, ...], parameters: Mapping[str, Any]) -> Any:
    """Make the metric with this name and these parameters; an error says what is unknown or missing."""
    key = registered_metric_name(name)
    if not key[:1].isalpha():
        raise ValueError(
            f"{name!r} is no name of a metric; write for example 'gini', 'upper_cvar(0.9)' or '0.7*mean + 0.3*gini'."
        )
    if key not in REGISTRY:
        for near in difflib.get_close_matches(key, _SUGGESTIONS, 1, 0.85):  # the name itself, or a letter more or less
            raise ValueError(f"there is no metric {name!r}. {_SUGGESTIONS[near]}")
        _validation.check_choice("metric", key, [*REGISTRY, *ALIASES], kind="metric")
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
