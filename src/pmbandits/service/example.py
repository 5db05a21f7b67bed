"""An experiment to try the service with."""

from __future__ import annotations

from typing import Any

NAME, LABEL = "example", "the example"
SPEC: dict[str, Any] = {
    "metric": "gini",
    "arms": ["A", "B", "C"],
    "support": {"kind": "interval", "lo": 0.0, "hi": 1.0},
    "policy": "vet",
    "options": {},
    "seed": 0,
    "shares": None,
}
