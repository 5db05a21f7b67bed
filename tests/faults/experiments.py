"""What is served while faults happen: a policy without chance, one with, one with limits, and arms that are drawn."""

from __future__ import annotations

from typing import Any

_COMMON: dict[str, Any] = {"arms": ["A", "B", "C", "D"], "support": {"kind": "binary"}, "options": {}, "shares": None}
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "track": {**_COMMON, "metric": "gini", "policy": "track", "seed": 0},
    "chance": {**_COMMON, "metric": "mean", "policy": "thompson", "seed": 11},
    "drawn": {**_COMMON, "metric": "gini", "policy": "vet", "seed": 0, "play": "randomised"},
    "limits": {**_COMMON, "metric": "gini", "policy": "track", "seed": 0, "shares": "A >= 20%; B <= 0.4"},
}
