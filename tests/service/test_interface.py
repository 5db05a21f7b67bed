"""Requests that schemathesis makes up from the service's own description: none may end with status 500."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.client.test_service import url as url  # a service, over a real connection

NAMES = ("0", "a", "b.c", "d-e", "f_g")
schemathesis = pytest.importorskip("schemathesis")


@pytest.fixture(scope="module")
def interface(url: str) -> Any:
    import pmbandits as pmb

    with pmb.connect(url, timeout=60.0, patience=120.0) as client:
        known = [known["name"] for known in client.experiments()]
        for name in NAMES:
            if name not in known:
                client.create(name, metric="gini", arms=["A", "B"], support=pmb.Binary(), policy="track")
    return schemathesis.openapi.from_url(f"{url}/v1/openapi.json")


def attack(interface: Any, examples: int) -> Counter[tuple[str, int]]:
    """So many requests for every route; how often each was answered with which status."""
    statuses: Counter[tuple[str, int]] = Counter()
    for found in interface.get_all_operations():
        route = found.ok()

        @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=route.as_strategy(), name=st.sampled_from((*NAMES, *NAMES, None)))
        def answered(case: Any, name: str | None) -> None:
            if name is not None and "name" in case.path_parameters:
                case.path_parameters["name"] = name  # made up ones are hardly ever there
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = case.call(timeout=60)
            statuses[case.operation.label, answer.status_code] += 1
            assert answer.status_code < 500, (case.as_curl_command(), answer.text)
            if answer.status_code >= 400 and answer.headers.get("content-type") == "application/json":
                assert list(json.loads(answer.content)) == ["error"]

        answered()
    return statuses


@pytest.mark.slow
def test_no_request_ends_with_status_500(interface: Any) -> None:
    statuses = attack(interface, 8)
    assert len({label for label, _ in statuses}) >= 15


@pytest.mark.slow
def test_thousands_of_requests_end_with_a_sentence_at_worst(interface: Any) -> None:
    statuses = attack(interface, 300)
    good = sum(n for (_, status), n in statuses.items() if status < 300)
    routes = len({label for label, _ in statuses})
    print(f"{sum(statuses.values()):,} requests of {routes} routes, {good:,} of them good")
    for (label, status), n in sorted(statuses.items()):
        print(f"{n:6,} {status} {label}")
    assert sum(statuses.values()) >= 3000 and good >= 1000
    for label in {label for label, _ in statuses}:
        if "import" not in label:  # a file of a policy is not made up by chance
            assert any(n and status < 300 for (name, status), n in statuses.items() if name == label), label
