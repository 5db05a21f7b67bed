"""Which tests `make test` leaves to `make test-all`: those that take seconds each, or compile what nothing else needs.

Compiling every policy on a machine that has never seen them takes minutes; continuous integration has ten.
"""

from __future__ import annotations

import pytest

SLOW = (
    "test_cli_run.py::",
    "test_paper.py::",
    "test_paper_risk.py::",
    "test_published_policies.py::",
    "test_theory_guarantees.py::",
    "test_theory_coverage.py::",
    "test_confidence.py::test_the_true_laws_stay_inside_at_the_pull_counts",
    "test_confidence.py::test_the_bounds_of_a_mixture_hold_at_the_pull_counts",
    "test_confidence_values.py::test_ball_bounds_widen",
    "test_gaps.py::test_gaps_equal_the_differences_of_an_enumeration",
    "test_oracle.py::test_two_continuous_arms_match_a_search_on_quadrature",
    "test_policy_reference.py::test_same_pulls_with_every_confidence_set",
    "test_policy_reference.py::test_cirt_makes_the_same_pulls_through_its_phases",
    "test_policy_store.py::test_no_flipped_bit",
    "test_simulation_agreement.py::",
    "test_track.py::test_continuous_policies_learn",
    "test_planning.py::",
    "test_policy_contract.py::TestETCOn",
    "test_policy_contract.py::TestUCBOnFinite",
    "test_policy_contract.py::TestUCBOnReal",
    "test_policy_contract.py::TestCEUCBOnFinite",
    "test_policy_contract.py::TestCEUCBOnInterval",
    "test_policy_contract.py::TestCEUCBOnReal",
    "test_policy_contract.py::TestCIRTOnInterval",
    "test_policy_contract.py::TestCIRTOnFinite",
    "test_policy_contract.py::TestCIRTOnReal",
    "test_policy_contract.py::TestFixedGridOn",
    "test_policy_reference.py::test_same_pulls_on_finite_supports",
    "test_memory.py::Test",
    "test_memory.py::test_a_sketch_stands",
    "test_simulation_backends.py::test_a_cluster",
    "test_lazy.py::test_values_stay",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(name in item.nodeid for name in SLOW):
            item.add_marker(pytest.mark.slow)
