"""Requests that schemathesis makes up from the service's own description: none may end with status 500."""

from __future__ import annotations

import json
import random
import warnings
from collections import Counter
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pmbandits as pmb
from tests.client.test_client import url as url  # a service, over a real connection

# What is put in place of most fields that were made up, of routes that would hardly ever take one.
GOOD: dict[str, dict[str, list[Any]]] = {
    "POST /v1/experiments": {
        "name": [f"new-{k}" for k in range(10_000)],
        "metric": ["gini", "upper_cvar(0.9)", "0.7*mean + 0.3*upper_cvar(0.9)", "inverted_s(0.7)"],
        "arms": [["A", "B"], ["<b>", "=1", "é"], [f"arm {k}" for k in range(40)]],
        "support": [{"kind": "binary"}, {"kind": "interval", "lo": 0, "hi": 2}, {"kind": "finite", "atoms": [0, 1, 5]}],
        "policy": ["vet", "track", "thompson", "uniform", "ucb1"],
        "options": [{}, {}, {}, {"estimates": "binned"}, {"delta": 0.1}, {"certify": 0.1}],
        "seed": [0, 7],
        "shares": [None, None, None, None, "A >= 10%"],
    },
    "POST /v1/experiments/{name}/arms": {"arm": ["A", "B", "C", "D"]},
    "PUT /v1/experiments/{name}/limits": {"shares": [None, "A >= 10%", "A + B <= 0.3", {"A": [0.1, 0.5]}]},
}
TELLS: list[dict[str, Any]] = [
    {"ticket": 1, "reward": 1},
    {"tickets": [2, 3], "rewards": [0, 1]},
    {"arm": "A", "reward": 1},
    {"arms": ["A", "B"], "rewards": [1, 0], "key": "k"},
]
NAMES = ("0", "a", "b.c", "d-e", "f_g")
BY_CHANCE = ("POST /v1/import",)  # no file of a policy is made up by chance
schemathesis = pytest.importorskip("schemathesis")


def create_missing(client: pmb.Client) -> None:
    """Create the experiments that are not there, or no longer."""
    known = [known["name"] for known in client.experiments()]
    for name in NAMES:
        if name not in known:
            client.create(name, metric="gini", arms=["A", "B"], support=pmb.Binary(), policy="track")


@pytest.fixture(scope="module")
def interface(url: str) -> Any:
    with pmb.connect(url, timeout=60.0, patience=120.0) as client:
        create_missing(client)
    return schemathesis.openapi.from_url(f"{url}/v1/openapi.json")


def mended(case: Any, rng: random.Random) -> None:
    """Let most requests name an experiment that is there, and have some fields that can be."""
    if "name" in case.path_parameters and rng.random() < 0.9:
        case.path_parameters["name"] = rng.choice(NAMES)
        if case.operation.label == "DELETE /v1/experiments/{name}" and rng.random() < 0.5:
            case.query = {"confirm": case.path_parameters["name"]}
    if case.operation.label.endswith("/tell") and rng.random() < 0.7:
        made_up = case.body if isinstance(case.body, dict) else {}
        case.body = rng.choice(TELLS) | ({} if rng.random() < 0.5 else dict(list(made_up.items())[:1]))
    good = GOOD.get(case.operation.label)
    if good is not None and isinstance(case.body, dict):
        wrong = rng.choice((0.0, 0.0, 0.1, 0.5))
        for name, values in good.items():
            if rng.random() >= wrong:
                case.body[name] = rng.choice(values)


def with_a_key_that_is_there(case: Any, url: str, rng: random.Random) -> None:
    """Let most requests that name a key name one that was just made."""
    label = case.operation.label
    if label not in ("DELETE /v1/keys", "POST /v1/keys/rotate") or rng.random() < 0.2:
        return
    made = httpx.post(f"{url}/v1/keys", json={"scopes": ["ask"], "label": "made"}, timeout=60)
    number = made.json()["key"].split("_")[1]
    if label == "DELETE /v1/keys":
        case.query = {"id": number}
    elif isinstance(case.body, dict):
        case.body["id"] = number
        if rng.random() < 0.5:
            case.body["grace_days"] = rng.choice([0, 0.5, 7])


def attack(interface: Any, url: str, examples: int) -> Counter[tuple[str, int]]:
    """So many requests for every route; how often each was answered with which status."""
    statuses: Counter[tuple[str, int]] = Counter()
    client = pmb.connect(url, timeout=60.0, patience=120.0)
    for found in interface.get_all_operations():
        route = found.ok()
        create_missing(client)
        for name in NAMES:  # an earlier request may have let them pause
            client[name].resume()
            client[name].ask(5)

        @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=route.as_strategy(), seed=st.integers(0, 2**32))
        def answered(case: Any, seed: int) -> None:
            mended(case, random.Random(seed))
            with_a_key_that_is_there(case, url, random.Random(seed))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = case.call(timeout=60)
            statuses[case.operation.label, answer.status_code] += 1
            if case.operation.label == "DELETE /v1/experiments/{name}" and answer.status_code == 200:
                create_missing(client)  # what is deleted is gone
            assert answer.status_code < 500, (case.as_curl_command(), answer.text)
            if answer.status_code >= 400 and answer.headers.get("content-type") == "application/json":
                assert list(json.loads(answer.content)) == ["error"]

        answered()
    return statuses


@pytest.mark.slow
def test_no_request_ends_with_status_500(interface: Any, url: str) -> None:
    statuses = attack(interface, url, 8)
    assert len({label for label, _ in statuses}) >= 15


@pytest.mark.slow
def test_thousands_of_requests_end_with_a_sentence_at_worst(interface: Any, url: str) -> None:
    statuses = attack(interface, url, 300)
    good = sum(n for (_, status), n in statuses.items() if status < 300)
    routes = len({label for label, _ in statuses})
    print(f"{sum(statuses.values()):,} requests of {routes} routes, {good:,} of them good")
    for (label, status), n in sorted(statuses.items()):
        print(f"{n:6,} {status} {label}")
    assert sum(statuses.values()) >= 3000 and good >= 1000
    for label in {label for label, _ in statuses}:
        if label not in BY_CHANCE:
            taken = sum(n for (name, status), n in statuses.items() if name == label and status < 300)
            assert taken >= 10, f"{label} is hardly ever taken, so little was tried"
