"""``pmbandits theory``: tables, bounds, exponents and plans as typed."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import pmbandits as pmb
from pmbandits.cli.app import app

theory = pmb.theory


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
@pytest.mark.parametrize("number", ["1", "4"])
def test_the_command_prints_the_table(number: str, form: str) -> None:
    done = CliRunner().invoke(app, ["theory", "table", number, "--format", form])
    assert done.exit_code == 0
    assert done.output.rstrip("\n") == theory.table(int(number)).render(form)


def test_the_command_prints_a_bound_and_an_exponent() -> None:
    arms = ["--metric", "gini", "--arms", "bernoulli:0.3,0.9"]
    done = CliRunner().invoke(app, ["theory", "bound", *arms, "-T", "100000", "-e", "0.4", "-p", "pmucb"])
    bound = theory.ucb_bound(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.3, 0.9]), 100_000, 0.4)
    assert done.exit_code == 0 and done.output.rstrip("\n") == repr(bound)
    done = CliRunner().invoke(app, ["theory", "exponent", *arms, "--gap", "13"])
    assert done.exit_code == 0 and "exponent of delta_13: 2.0" in done.output


def test_the_command_prints_the_plan() -> None:
    given = ["theory", "plan", "-m", "gini", "-a", "bernoulli:0.4,0.9", "-r", "0.05", "--trials", "2"]
    done = CliRunner().invoke(app, [*given, "--json"])
    assert done.exit_code == 0
    answer = json.loads(done.output)
    assert answer["tight_set"]["horizon"] < answer["bound"]["horizon"]
    assert answer["simulation"]["regret"] <= 0.05
    assert "the bound, tight set" in CliRunner().invoke(app, given).output
