"""Policies by their names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pmbandits import _validation

if TYPE_CHECKING:
    from pmbandits.engine.policy import Policy

REGISTRY: dict[str, type[Policy]] = {}  # every class of policies that has a name


def policy_by_name(name: str, horizon: int, options: Mapping[str, Any] | None = None) -> Policy:
    """A policy of the library by its name; it gets the horizon if it takes one and none is among the options."""
    same = {cls.__name__.lower(): known for known, cls in REGISTRY.items()}
    key = str(name).strip().lower().replace("-", "_").replace(" ", "_")
    key = same.get(key, key)
    cls = REGISTRY[_validation.check_choice("policy", key if key in REGISTRY else name, sorted(REGISTRY))]
    given = dict(options or {})
    known = [option for option in inspect.signature(cls).parameters if option not in ("n_arms", "support", "names")]
    for option in given:
        _validation.check_choice("option", option, known, kind=f"option of {cls.name}")
    if "horizon" in known:
        given.setdefault("horizon", horizon)
    return cls(**given)
