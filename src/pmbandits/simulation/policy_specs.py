"""Parse the ``policies`` argument of ``simulate`` (objects, names, factories); labels and JSON of policies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import pmbandits.policies  # noqa: F401 (so that all policies are known by name)
from pmbandits import _validation
from pmbandits.engine.policy import Policy
from pmbandits.engine.registry import policy_by_name
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.encoding import encode_metric
from pmbandits.simulation.code_hash import code_hash
from pmbandits.simulation.python_policy import PythonPolicy
from pmbandits.simulation.segments import IgnoringSegments, PerSegment

PolicySpec = Policy | str | PerSegment | IgnoringSegments | Callable[..., Any]
"""A policy as ``simulate`` takes it: an object of the library, its name, or what makes a plain Python policy."""

Recipe = Policy | PythonPolicy | PerSegment | IgnoringSegments


def parse_policies(policies: Any, horizon: int) -> dict[str, Recipe]:
    """Return the checked policies by label. Those given by name that need a horizon get this one."""
    if isinstance(policies, (Policy, type, str, np.ndarray)) or not hasattr(policies, "__iter__"):
        policies = [policies]
    if isinstance(policies, Mapping):
        named = {str(label): _parse_policy(given, horizon, str(label)) for label, given in policies.items()}
        if len(named) < len(policies):
            raise ValueError(f"policies need different names, got {', '.join(map(repr, policies))}.")
    else:
        made = [_parse_policy(given, horizon) for given in policies]
        named = {}
        for label, recipe in zip(default_policy_labels(made), made, strict=True):
            named[label] = replace(recipe, label=label) if isinstance(recipe, PythonPolicy) else recipe
    strange = next((label for label in named if _validation.escape_control_characters(label) != label), None)
    if strange is not None:
        raise ValueError(f"the label {strange!r} has control characters in it; take them out.")
    if not named:
        raise ValueError("there is no policy to play; give at least one, such as CIRT().")
    return named


def _parse_policy(given: Any, horizon: int, label: str | None = None) -> Recipe:
    if isinstance(given, (PerSegment, IgnoringSegments)):
        return replace(given, policy=_parse_policy(given.policy, horizon, label))
    if isinstance(given, Policy):
        return given
    if isinstance(given, str):
        return policy_by_name(given, horizon)
    if isinstance(given, type) and issubclass(given, Policy):
        return given(**({"horizon": horizon} if "horizon" in given.__signature__.parameters else {}))
    if callable(given):
        return PythonPolicy.from_arguments(given, label)
    if hasattr(given, "ask") and hasattr(given, "tell"):
        raise TypeError(
            f"every trial needs a new {type(given).__name__}: give the class, or a function that makes one, "
            f"such as lambda n_arms, seed: {type(given).__name__}(...)."
        )
    raise TypeError(
        "a policy is an object such as CIRT() or PMUCB(horizon=10_000), a name such as 'cirt', or a function or class "
        f"that makes an object with ask, tell and mixture; got {_validation.short_repr(given)}."
    )


def default_policy_labels(made: Sequence[Recipe]) -> list[str]:
    """Return a label for each policy: its class name, with the options in which policies of one class differ."""
    found: list[str] = []
    for recipe in made:
        inner = recipe.policy if isinstance(recipe, (PerSegment, IgnoringSegments)) else recipe
        label = inner.label if isinstance(inner, PythonPolicy) else _default_policy_label(inner, made)
        label += recipe.words if isinstance(recipe, (PerSegment, IgnoringSegments)) else ""
        same = sum(known == label or known.startswith(f"{label} #") for known in found)
        found.append(f"{label} #{same + 1}" if same else label)
    return found


def _default_policy_label(recipe: Policy, made: Sequence[Recipe]) -> str:
    name = type(recipe).__name__
    alike = [other for other in made if isinstance(other, Policy) and type(other) is type(recipe)]
    differ = [o for o in recipe.options if len({repr(other.options.get(o)) for other in alike}) > 1]
    shown = [f"{o}={_option_value_text(recipe.options[o])}" for o in differ]
    if len({other.seed for other in alike}) > 1:
        shown.append(f"seed={recipe.seed}")
    if len({repr(other.metric) for other in alike}) > 1:
        shown.insert(0, repr(recipe.metric))
    return f"{name}({', '.join(shown)})" if shown else name


def _option_value_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value) if isinstance(value, (int, str, type(None))) else type(value).__name__


def policy_to_dict(recipe: Recipe, metric: Distortion) -> dict[str, Any]:
    """Describe a policy as JSON, for the specification of a run and the identity of a journal."""
    if isinstance(recipe, (PerSegment, IgnoringSegments)):
        return {**policy_to_dict(recipe.policy, metric), "segments": recipe.words.strip()}
    if isinstance(recipe, PythonPolicy):
        return {"policy": "plain Python", "class": recipe.qualified_name, "code": code_hash(recipe.factory)}
    options = {name: _option_to_json(value) for name, value in recipe.options.items()}
    own = None if recipe.metric is None or recipe.metric is metric else metric_to_dict(recipe.metric)
    support = None if recipe.support is None else recipe.support.to_dict()
    described = {"policy": recipe.name, "options": options, "seed": recipe.seed, "metric": own, "support": support}
    cls = type(recipe)
    if not cls.__module__.startswith("pmbandits."):  # a user's own policy: its code is part of what it is
        described["class"] = f"{cls.__module__}.{cls.__qualname__}"
        described["code"] = code_hash(cls._choose, cls._update)
    return described


def _option_to_json(value: Any) -> Any:
    """Convert an option to JSON; a confidence set of the user is identified by a hash of its radii."""
    if isinstance(value, (int, float, str, bool, type(None))):
        return value
    if callable(getattr(value, "radius", None)):
        radii = np.asarray(value.radius(np.arange(1.0, 1001.0)), dtype=np.float64)
        return {"custom": type(value).__qualname__, "values": hashlib.sha256(radii.tobytes()).hexdigest()}
    return repr(value)


def metric_to_dict(metric: Distortion) -> dict[str, Any]:
    """Convert a metric to JSON; one made from a function is identified by a hash of its values."""
    try:
        return metric.to_dict()
    except ValueError:
        return {"custom": repr(metric), "values": hashlib.sha256(encode_metric(metric).tobytes()).hexdigest()}
