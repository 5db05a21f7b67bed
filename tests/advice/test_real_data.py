"""Advice on three real tables (data/README.md): what an analyst asks, checked against numpy and the bootstrap."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import pmbandits as pmb
from pmbandits.cli.app import app

Array = NDArray[np.float64]
DATA = Path(__file__).parent / "data"
FLIGHTS, SEIZURES, STOCKS = (DATA / f"{name}.csv" for name in ("flights", "seizures", "stocks"))
COLUMNS = {FLIGHTS: ("carrier", "arr_delay"), SEIZURES: ("treatment", "seizures"), STOCKS: ("symbol", "return")}


def rewards(path: Path) -> dict[str, Array]:
    arm, reward = COLUMNS[path]
    found: dict[str, list[float]] = {}
    with path.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if row[reward]:
                found.setdefault(row[arm], []).append(float(row[reward]))
    return {name: np.array(x) for name, x in found.items()}


# ---- the metrics in plain numpy, of rewards in rows -----------------------------------------------------


def worst_tenth(x: Array) -> Array:
    n = x.shape[-1]
    return np.sort(x, axis=-1) @ np.clip(0.1 * n - np.arange(n), 0.0, 1.0) / (0.1 * n)


def steady(x: Array) -> Array:
    n = x.shape[-1]
    return x.mean(axis=-1) - np.sort(x, axis=-1) @ (2.0 * np.arange(1, n + 1) - n - 1) / n**2


METRICS: dict[str, Callable[[Array], Array]] = {
    "mean": lambda x: x.mean(axis=-1), "avoid the worst 10 %": worst_tenth, "steady": steady,
}  # fmt: skip


def bootstrap(metric: Callable[[Array], Array], x: Array, seed: int) -> Array:
    return metric(x[np.random.default_rng(seed).integers(0, x.size, (1_500, x.size))])


# ---- numbers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wish", METRICS)
@pytest.mark.parametrize("path", COLUMNS, ids=lambda path: path.stem)
def test_utilities_are_those_of_numpy_and_intervals_are_not_narrower_than_the_bootstraps(path: Path, wish: str) -> None:
    arm, reward = COLUMNS[path]
    sign = 1.0 if path == STOCKS else -1.0  # delays and seizures are losses
    data, metric = rewards(path), METRICS[wish]
    advice = pmb.advise(path, wish, arm=arm, reward=reward, loss=sign < 0.0)
    for one in advice.arms:
        assert one.utility == pytest.approx(sign * float(metric(sign * data[one.name])), abs=1e-9)
    (best,), found = advice.mixture, advice.decision.difference
    assert found is not None
    compared = {a.name: sign * a.utility for k, a in enumerate(advice.arms) if k not in advice.evidence.left_out}
    assert sorted(compared, key=lambda name: -compared[name])[:2] == [best, found.rival]
    assert found.value == pytest.approx(compared[best] - compared[found.rival], abs=1e-9)
    drawn = bootstrap(metric, sign * data[best], 0) - bootstrap(metric, sign * data[found.rival], 1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    assert 0.95 < (found.interval[1] - found.interval[0]) / (high - low) < 1.8
    assert advice.decision.kind == "cannot tell" and low < 0.0 < high  # none of the nine can be told


def test_with_units_the_interval_is_not_narrower_than_the_bootstraps_over_patients() -> None:
    with SEIZURES.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    means: dict[str, Array] = {}
    for arm in ("placebo", "progabide"):
        patients = sorted({r["subject"] for r in rows if r["treatment"] == arm})
        of = [[float(r["seizures"]) for r in rows if r["subject"] == p] for p in patients]
        assert {len(visits) for visits in of} == {4}
        means[arm] = np.array(of).mean(axis=1)
    drawn = bootstrap(METRICS["mean"], means["placebo"], 0) - bootstrap(METRICS["mean"], means["progabide"], 1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    alone, found = (
        pmb.advise(SEIZURES, arm="treatment", reward="seizures", loss=True, unit=unit).decision.difference
        for unit in (None, "subject")
    )
    assert alone is not None and found is not None
    assert found.value == pytest.approx(means["placebo"].mean() - means["progabide"].mean())
    assert found.interval[0] < low and high < found.interval[1]
    assert found.interval[1] - found.interval[0] > 1.5 * (alone.interval[1] - alone.interval[0])
    assert found.interval[1] - found.interval[0] < 1.8 * (high - low)  # one patient has 302 of 987 seizures of an arm


# ---- what is printed ------------------------------------------------------------------------------------


def printed(path: Path, *options: str) -> str:
    """What ``pmbandits advise`` prints, on one line."""
    done = CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"}).invoke(app, ["advise", str(path), "--quiet", *options])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_carriers_cannot_be_told_apart_and_small_ones_do_not_spoil_the_others() -> None:
    text = printed(FLIGHTS)
    assert text.startswith("These data cannot tell which carrier is best. By the average, US is 0.44 better than AA")
    assert "“arr_delay” sounds like something to keep small. So smaller is taken as better." in text
    assert "AS, F9, HA and YV have fewer than 20 rows: too few to compare. The answer is about the others." in text
    assert "First collect" not in text and "highest" not in text  # 20 rewards of AS would not settle US against AA
    assert "1 rewards" not in printed(FLIGHTS, "--time", "date")


def test_two_carriers_are_told_apart() -> None:
    data = rewards(FLIGHTS)
    advice = pmb.advise({name: data[name] for name in ("US", "EV")}, loss=True)
    found = advice.decision.difference
    assert advice.decision.kind == "choose" and advice.mixture == {"US": 1.0} and found is not None
    assert found.value == pytest.approx(data["EV"].mean() - data["US"].mean())
    assert 8.0 < found.interval[0] < 12.9 and 31.4 < found.interval[1] < 37.0  # bootstrap: 12.8 to 31.4
    assert advice.recommendation == "Choose US."
    assert advice.reason.startswith("By the average, US is 22 better than EV (95 % interval: 11 to 34): 0 against 22")


def test_preferences_on_delays_are_named_in_the_sign_of_delays() -> None:
    worst = printed(FLIGHTS, "--metric", "avoid the worst 10 %")
    assert "By the average of the worst 10 %, MQ is 3 better than US" in worst and "77 against 80" in worst
    assert "5.51 instead of −0.46 with US" in worst  # not with AS, which has three flights
    even = printed(FLIGHTS, "--metric", "steady")
    assert "By the average, plus the spread (Gini), US is 3 better than DL" in even and "14 against 17" in even
    spread = printed(FLIGHTS, "--metric", "gini")
    assert "EV is 2 better than WN" in spread and "27 against 25, and larger is better" in spread
    level = printed(FLIGHTS, "--metric", "p95")  # YV has one flight
    assert "By the level that is not exceeded in 95 % of the cases, DL is 12 better than AA (95 % interval: " in level
    assert "42 to 56): 52 against 64" in level
    delays = rewards(FLIGHTS)
    assert [np.quantile(delays[name], 0.95, method="inverted_cdf") for name in ("DL", "AA")] == [52.0, 64.0]


def test_the_trial_does_not_tell_the_drug_from_the_placebo() -> None:
    alone = pmb.advise(SEIZURES)  # not the number of the subject, nor that of the visit
    assert (alone.log.arm_column, alone.log.reward_column, alone.loss) == ("treatment", "seizures", True)
    assert any("“subject” repeats (59 in 236 rows)" in caveat.seen for caveat in alone.caveats)
    text = printed(SEIZURES, "--reward", "seizures", "--loss", "--unit", "subject")
    assert text.startswith(
        "These data cannot tell which treatment is best. By the average, progabide is 0.6 better than placebo"
    )
    assert "8.0 against 8.6, and smaller is better" in text and "Rows belong to 59 units" in text
    assert "Values were seen from 0 to 102" in text and "0 to 19.2" in text  # no "-0", no negative number of seizures
    assert "No value below 0 was seen, so intervals of the score stop at 0." in text


def test_the_lower_tail_of_returns() -> None:
    text = printed(STOCKS, "--metric", "avoid the worst 10 %", "--measured-in", "%")
    assert text.startswith("Not tried the whole time: GOOG (no rows in the first 40 % of all).")
    headline = (
        "These data cannot tell which symbol is best. By the average of the worst 10 %, IBM is 1.6 percentage points"
    )
    assert headline in text
    assert "It costs something by the plain average: 0.53 % instead of 3.23 % with GOOG." in text
    with pytest.raises(ValueError, match=r"'upper_cvar\(0.9\)' is the average of the best 10 %.*'lower_cvar\(0.1\)'"):
        pmb.advise(STOCKS, "expected_shortfall(0.9)")
    data = rewards(STOCKS)
    pair = pmb.advise({name: data[name] for name in ("IBM", "AMZN")}, "avoid the worst 10 %")
    assert pair.decision.kind == "choose" and pair.mixture == {"IBM": 1.0}  # 4.0 standard errors of the bootstrap
    assert pair.recommendation == "Choose IBM." and pair.decision.next_step.kind == "nothing"
