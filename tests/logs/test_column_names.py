"""What the names of columns say."""

from __future__ import annotations

import pytest

from pmbandits.logs.column_names import is_time_without_direction, may_name_reward, sounds_like_loss, unit_in_name


@pytest.mark.parametrize(
    "name", ["Kosten", "Lieferzeit", "response_time", "errors", "duration", "refund", "seizures", "Wait (min)",
             "arrDelay", "Versandkosten", "Bearbeitungszeit (h)", "error_rate", "Verspätung",
             "Delivery days", "Delivery time (days)", "delivery_time_days", "days late", "days to deliver",
             "Turnaround", "turnaround time (working days)", "repair hours", "time to resolution", "avg delay minutes",
             "Liefertage", "Lieferzeit in Tagen", "Reparaturstunden", "pain_score_week8", "symptom score",
             "error rate (%)"],
)  # fmt: skip
def test_names_of_what_is_to_be_kept_small(name: str) -> None:
    assert sounds_like_loss(name) and may_name_reward(name)


@pytest.mark.parametrize(
    "name", ["Umsatz", "revenue", "survival time", "Laufzeit", "score", "time", "y", "", "days", "time to relapse",
             "days since incident", "hours worked", "sales per day", "response rate", "quality of life score"],
)  # fmt: skip
def test_names_that_say_no_such_thing(name: str) -> None:
    assert not sounds_like_loss(name)


@pytest.mark.parametrize("name", ["order_value", "revenue_last_year", "score_week8"])
def test_a_result_of_a_time_or_an_order_is_one(name: str) -> None:
    assert may_name_reward(name)


@pytest.mark.parametrize("name", ["subject", "visit", "user_id", "Kundennummer", "Datum", "patientId", "flight"])
def test_names_that_are_no_results(name: str) -> None:
    assert not may_name_reward(name)


def test_times_of_which_nobody_knows_whether_long_ones_are_better() -> None:
    unclear = ["days", "Hours", "minutes", "Process (h)", "hours worked", "time to relapse", "Stunden"]
    clear = ["delivery days", "survival time", "sales per day", "revenue (30 days)", "min temperature", "score", ""]
    assert [name for name in [*unclear, *clear] if is_time_without_direction(name)] == unclear


def test_units_are_found_in_names_and_not_where_the_word_means_something_else() -> None:
    found = {"dep_delay_min": "min", "revenue_eur": "€", "wait (s)": "s", "latency_ms": "ms", "Lieferzeit_Tage": "tage",
             "waitMin": "min", "conversion_pct": "%", "response time [h]": "h"}  # fmt: skip
    none = ["temp_min", "revenue_last_12_months", "score_s", "team_h", "pct", "eur_per_order", "orders"]
    assert {name: unit_in_name(name) for name in found} == found
    assert [unit_in_name(name) for name in none] == [""] * len(none)
