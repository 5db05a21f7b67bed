"""One example of each route: what is sent, and what comes back. The tests send them, in this order."""

from __future__ import annotations

from typing import Any, NamedTuple

from pmbandits import __version__
from pmbandits.service import messages, responses


class ApiExample(NamedTuple):
    """An example.

    ``answer`` is the kind of the answer, or the media types of one that is no JSON, ``also`` those in which it can also
    be had. ``query`` stands behind the address.
    """

    answer: Any
    answered: Any = None
    sent: Any = None
    query: str = ""
    also: tuple[str, ...] = ()


_SHOP = "/v1/experiments/{name}"
_SUPPORT = {"kind": "interval", "lo": 0, "hi": 100}
_MOMENT = "2026-11-17T08:29:05.250Z"


def _experiment_example(events: int, **now: Any) -> dict[str, Any]:
    begun = {
        "name": "shop", "status": "running", "created": "2026-11-17T08:20:00.000Z", "library": __version__,
        "metric": "0.7*mean + 0.3*lower_cvar(0.1)", "arms": ["A", "B"], "segments": None, "playing": ["A", "B"],
        "paused": [], "retired": [], "limits": None, "support": _SUPPORT, "policy": "vet", "options": {}, "seed": 0,
        "play": "policy",
        "events": events,
    }  # fmt: skip
    return begun | now


_CHANGE = {
    "arm": "B", "event": 1165, "time": _MOMENT, "round": None, "rewards": "rewards from 14.31 on",
    "before": {"n": 367, "share": 0.989}, "after": {"n": 8, "share": 0.0},
    "sentence": "B changed for the worse, noticed 2026-11-17 08:29:05 UTC: rewards from 14.31 on were 98.9 % of 367 "
    "rewards, and are 0 % of the last 8.",
}  # fmt: skip
_STATE = {
    "name": "shop", "status": "running", "events": 2410, "t": 1206,
    "arms": [
        {"arm": "A", "plays": True, "pulls": 844, "pending": 1, "played": 0.7, "wanted": 0.7, "rewards": 843,
         "mean": 22.2, "curve": {"x": [0.0, 100.0], "share": [0.02, 1.0], "low": [0.01, 0.97], "high": [0.06, 1.0]},
         "alone": {"lower": 15.1, "utility": 20.1, "upper": 25.3}},
        {"arm": "B", "plays": True, "pulls": 362, "pending": 1, "played": 0.3, "wanted": 0.3, "rewards": 361,
         "mean": 20.6},
    ],
    "segments": None,
    "limits": "B >= 0.1",
    "certainty": {"utility": 20.2, "lower": 15.0, "upper": 25.4, "rival": 31.0, "regret": 10.8, "probability": 0.95,
                  "meaning": "…", "frequencies": [], "holds": False,
                  "sentence": "With probability 95 %, this mixture falls short of the best …"},
    "explanation": "Round 1207: B is next. …",
    "forecast": None,
    "awaited": {"rewards": 2, "oldest": 17, "since": _MOMENT},
    "changes": [_CHANGE],
    "watched": 2410,
    "sample_ratio": None,
}  # fmt: skip
_EVENTS = [
    {"seq": 1, "time": _MOMENT, "kind": "ask", "ticket": 1, "segment": None, "arm": "A", "share": 0.5,
     "reward": None, "data": None},
    {"seq": 2, "time": _MOMENT, "kind": "tell", "ticket": 1, "segment": None, "arm": "A", "share": None,
     "reward": 23.5, "data": None},
]  # fmt: skip
_POINT = {
    "seq": 50, "time": _MOMENT, "t": 25, "rewards": 25, "pulls": {"A": 13, "B": 12}, "wanted": {"A": 0.5, "B": 0.5},
    "utility": 20.2, "lower": 15.0, "upper": 25.4, "rival": 31.0, "regret": 10.8,
}  # fmt: skip
_KEY = {
    "id": "0123456789ab", "label": "the web shop", "scopes": ["ask", "tell"], "experiments": ["shop"],
    "created": _MOMENT, "expires": "2027-02-15T08:29:05.250Z", "revoked": None, "used": _MOMENT,
}  # fmt: skip
_ACT = {"id": 7, "time": _MOMENT, "who": "0123456789ab", "act": "pause", "experiment": "shop", "detail": '"B"'}

API_EXAMPLES: dict[tuple[str, str], ApiExample] = {
    ("post", "/v1/experiments"): ApiExample(
        responses.Experiment,
        _experiment_example(0),
        {"name": "shop", "metric": "0.7*mean + 0.3*lower_cvar(0.1)", "arms": ["A", "B"], "support": _SUPPORT},
    ),
    ("post", f"{_SHOP}/ask"): ApiExample(
        messages.Asked, {"ticket": 1, "arm": "A", "share": 0.5}, {"key": "order 4711"}
    ),
    ("post", f"{_SHOP}/tell"): ApiExample(
        messages.Told, {"taken": 1, "repeated": 0, "corrected": 0}, {"ticket": 1, "reward": 23.5}
    ),
    ("get", f"{_SHOP}/state"): ApiExample(responses.ExperimentState, _STATE, query="?regret=5%25"),
    ("get", f"{_SHOP}/history"): ApiExample(responses.History, {"points": [_POINT]}, query="?after=0"),
    ("get", f"{_SHOP}/log"): ApiExample(
        responses.Log, {"events": _EVENTS}, query="?format=json", also=("text/csv", "application/vnd.apache.parquet")
    ),
    ("get", "/v1/experiments"): ApiExample(
        responses.Experiments, {"experiments": [_experiment_example(2410, changes=[_CHANGE])]}
    ),
    ("get", _SHOP): ApiExample(responses.Experiment, _experiment_example(2410, limits="B >= 0.1")),
    ("post", f"{_SHOP}/arms"): ApiExample(
        responses.Experiment,
        _experiment_example(2411, arms=["A", "B", "C"], playing=["A", "B", "C"]),
        {"do": "add", "arm": "C"},
    ),
    ("put", f"{_SHOP}/limits"): ApiExample(
        responses.Experiment, _experiment_example(2412, limits="A >= 0.1, B <= 0.6"), {"shares": "A >= 10%; B <= 60%"}
    ),
    ("post", f"{_SHOP}/expire"): ApiExample(
        responses.ExpiredTickets, {"tickets": [17, 23], "more": False}, {"seconds": 172800, "reward": 0}
    ),
    ("post", f"{_SHOP}/status"): ApiExample(
        responses.Experiment, _experiment_example(2413, status="paused"), {"status": "paused"}
    ),
    ("get", f"{_SHOP}/export"): ApiExample("application/octet-stream"),
    ("post", "/v1/import"): ApiExample(
        responses.Experiment,
        _experiment_example(0, name="copy", imported={"library": __version__, "round": 1206}),
        query="?name=copy",
    ),
    ("delete", f"{_SHOP}/unit"): ApiExample(responses.DeletedRows, {"deleted": 1}, query="?unit=customer%207"),
    ("post", f"{_SHOP}/forget"): ApiExample(responses.DeletedRows, {"deleted": 4711}, {"seconds": 7776000}),
    ("delete", _SHOP): ApiExample(responses.DeletedExperiment, {"deleted": "shop"}, query="?confirm=shop"),
    ("post", "/v1/keys"): ApiExample(
        responses.CreatedKey,
        {"key": "pmb_0123456789ab_…"},
        {"scopes": ["ask", "tell"], "label": "the web shop", "days": 90},
    ),
    ("post", "/v1/keys/rotate"): ApiExample(
        responses.CreatedKey, {"key": "pmb_ba9876543210_…"}, {"id": "0123456789ab", "grace_days": 7}
    ),
    ("get", "/v1/keys"): ApiExample(responses.Keys, {"keys": [_KEY]}),
    ("delete", "/v1/keys"): ApiExample(responses.RevokedKey, {"revoked": "0123456789ab"}, query="?id=0123456789ab"),
    ("get", "/v1/audit"): ApiExample(responses.AuditLog, {"acts": [_ACT]}, query="?limit=100"),
    ("get", "/health"): ApiExample(responses.Health, {"status": "alive"}),
    ("get", "/ready"): ApiExample(responses.Health, {"status": "ready"}),
    ("get", "/metrics"): ApiExample("text/plain"),
    ("get", "/v1/openapi.json"): ApiExample(responses.OpenApiDocument, {"openapi": "3.1.0"}),
    ("get", "/docs"): ApiExample("text/html"),
}
