"""What the names of columns say."""

from __future__ import annotations

import pytest

from pmbandits.logs.column_names import may_name_reward, sounds_like_loss


@pytest.mark.parametrize(
    "name", ["Kosten", "Lieferzeit", "response_time", "errors", "duration", "refund", "seizures", "Wait (min)",
             "arrDelay", "Versandkosten", "Bearbeitungszeit (h)", "error_rate", "Verspätung"],
)  # fmt: skip
def test_names_of_what_is_to_be_kept_small(name: str) -> None:
    assert sounds_like_loss(name) and may_name_reward(name)


@pytest.mark.parametrize("name", ["Umsatz", "revenue", "survival time", "Laufzeit", "score", "time", "y", ""])
def test_names_that_say_no_such_thing(name: str) -> None:
    assert not sounds_like_loss(name)


@pytest.mark.parametrize("name", ["subject", "visit", "user_id", "Kundennummer", "Datum", "patientId", "flight"])
def test_names_that_are_no_results(name: str) -> None:
    assert not may_name_reward(name)
