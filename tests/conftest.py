"""Which tests `make test` leaves to `make test-all`: long comparisons of which shorter ones remain."""

from __future__ import annotations

import pytest

SLOW = (
    "state/test_bounds_of_arrays.py::",
    "confidence/test_sets.py::test_the_true_laws_stay_inside_at_the_pull_counts",
    "confidence/test_sets.py::test_the_bounds_of_a_mixture_hold_at_the_pull_counts",
    "confidence/test_bounds.py::test_ball_bounds_widen",
    "test_gaps.py::test_gaps_equal_the_differences_of_an_enumeration",
    "policies/test_memory.py::test_a_sketch_stands",
    "test_oracle.py::test_two_continuous_arms_match_a_search_on_quadrature",
    "policies/test_reference.py::test_same_pulls_with_every_confidence_set",
    "policies/test_reference.py::test_cirt_makes_the_same_pulls_through_its_phases",
    "policies/test_store.py::test_no_flipped_bit",
    "simulation/test_backends.py::test_a_cluster",
    "theory/test_coverage.py::",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(name in item.nodeid for name in SLOW):
            item.add_marker(pytest.mark.slow)
