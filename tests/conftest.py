"""Which tests `make test` leaves to `make test-all`: those that take seconds each, or compile what nothing else needs.

Compiling every policy on a machine that has never seen them takes minutes; continuous integration has ten.
"""

from __future__ import annotations

import pytest

SLOW = (
    "test_paper.py::",
    "test_paper_risk.py::",
    "test_published_policies.py::",
    "test_theory_guarantees.py::",
    "test_theory_coverage.py::",
    "test_confidence.py::test_the_true_laws_stay_inside_at_the_pull_counts",
    "test_confidence.py::test_the_bounds_of_a_mixture_hold_at_the_pull_counts",
    "test_confidence_values.py::test_ball_bounds_widen",
    "test_gaps.py::test_gaps_equal_the_differences_of_an_enumeration[gaussian",
    "test_oracle.py::test_two_continuous_arms_match_a_search_on_quadrature",
    "test_policy_reference.py::test_same_pulls_with_every_confidence_set",
    "test_policy_reference.py::test_cirt_makes_the_same_pulls_through_its_phases",
    "test_policy_store.py::test_no_flipped_bit",
    "test_simulation_agreement.py::test_looking_ahead",
    "test_simulation_agreement.py::test_a_nap_is_safe",
    "test_simulation_agreement.py::test_the_next_exploration",
    "test_simulation_agreement.py::test_simulate_plays_what_asking_by_hand_plays[bernoulli 3",
    "test_simulation_agreement.py::test_simulate_plays_what_asking_by_hand_plays[finite-Lower",
    "test_simulation_agreement.py::test_simulate_plays_what_asking_by_hand_plays[gamma",
    "test_simulation_agreement.py::test_simulate_plays_what_asking_by_hand_plays[block",
    "test_simulation_agreement.py::test_phases_end",
    "test_simulation_agreement.py::test_checkpoints_change_nothing",
    "test_track.py::test_continuous_policies_learn",
    "test_planning.py::",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(name in item.nodeid for name in SLOW):
            item.add_marker(pytest.mark.slow)
