"""Phrases: what their numbers say, and which clauses carry weights."""

from __future__ import annotations

import pytest

from pmbandits.metrics.phrases import catalogue_key, parse_phrase_numbers, split_weighted_phrase


@pytest.mark.parametrize(
    ("phrase", "parts"),
    [
        ("80 % average and 20 % worst 5 %", [(0.8, "average"), (0.2, "worst 5 %")]),
        (
            "a third average, one third spread + a third worst",
            [(1 / 3, "average"), (1 / 3, "spread"), (1 / 3, "worst")],
        ),
        ("20 % worst", []),  # one clause is no sum
        ("80 % average and the worst 5 %", []),  # nor are clauses of which one has no weight
        ("50 % average, 50 % worst 5 % and spread", []),
        ("", []),
    ],
)
def test_a_sum_has_a_weight_before_every_one_of_its_clauses(phrase: str, parts: list[tuple[float, str]]) -> None:
    assert split_weighted_phrase(phrase) == parts


@pytest.mark.parametrize(
    ("phrase", "share", "tries", "unused"),
    [
        ("the worst 1 in 20", 0.05, None, []),
        ("the worst 1 in 1", None, None, ["1", "1"]),
        ("the worst 2,5 %", 0.025, None, []),
        ("the worst quarter of 3 days", 0.25, None, ["3"]),
        ("the best of 4 tries", None, 4.0, []),
        ("the best tenth of five tries", 0.1, 5.0, []),
        ("the average", None, None, []),
    ],
)
def test_a_number_is_a_share_or_a_number_of_tries_or_left_over(
    phrase: str, share: float | None, tries: float | None, unused: list[str]
) -> None:
    assert parse_phrase_numbers(phrase) == (share, tries, unused)


def test_opposite_wishes_have_no_entry_of_the_catalogue() -> None:
    assert catalogue_key("avoid spread") == "steady" and catalogue_key("less stable") == "spread"
    assert catalogue_key("more variety and less variety") == "spread and steady"
