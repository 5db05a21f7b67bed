"""The line to PostgreSQL, as far as it can be tried without a server; tests/service/test_postgres.py has the rest."""

from __future__ import annotations

import math

import pytest

from pmbandits.service.pg_pipeline import encode_array, encode_value
from pmbandits.service.postgres import STATEMENTS


@pytest.mark.parametrize("value", [0.1, 1e-300, -1 / 3, 5e-324, 2.0**60, math.inf])
def test_numbers_keep_their_last_bit(value: float) -> None:
    given = encode_value(value)
    assert given is not None and float(given) == value


def test_lists_are_written_as_the_server_reads_them() -> None:
    assert encode_array([1, None, 2.5]) == b"{1,NULL,2.5}"
    assert encode_array(['a"b', "\\", "NULL", "{,}", ""]) == rb'{"a\"b","\\","NULL","{,}",""}'
    assert encode_value("é") == "é".encode()
    assert encode_value(None) is None


def test_statements_are_numbered() -> None:
    assert STATEMENTS[b"requests"].endswith("VALUES ($1, $2, $3, $4, $5)")
    assert not any("?" in words for words in STATEMENTS.values())
