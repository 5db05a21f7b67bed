"""What advice says of arms that tie, of the cost of a preference, and of where the truth probably lies."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.advice import charts, next_steps, report, sentences
from pmbandits.advice.numbers import NumberFormat


def _shop(seed: int) -> dict[str, list[float]]:
    """Four pages whose visitors mostly buy nothing, and one of which has a few huge orders."""
    rng = np.random.default_rng(seed)
    buys = rng.random((4, 1500)) < np.array([[0.085], [0.07], [0.06], [0.03]])
    spent = np.exp(rng.normal(3.2, np.array([[0.4], [0.5], [0.6], [1.9]]), (4, 1500)))
    return {name: row.tolist() for name, row in zip("ABCD", (buys * spent).round(2), strict=True)}


def test_arms_that_a_preference_cannot_tell_apart_are_not_recommended() -> None:
    advice = pmb.advise(_shop(1), "lower_cvar(0.1)")
    assert advice.tied and not advice.proven
    assert advice.recommendation == "These data cannot tell which arm is best."
    least = min(np.mean(np.array(rewards) == 0.0) for rewards in _shop(1).values())
    assert f"{int(100 * least)} %" in advice.reason
    assert {row[-1] for row in advice.rows()} == {"any"} and "the plain average" in advice.outlook and not advice.price
    assert not pmb.advise(_shop(1), "lower_cvar(0.97)").tied
    same = pmb.advise({"a": [0, 1] * 50, "b": [1, 0] * 50}, "mean")  # half are 0, but the others count, too
    assert same.tied and "%" not in same.reason
    kept = pmb.advise(_shop(1), "lower_cvar(0.1)", shares="B >= 30%")
    assert not kept.tied and kept.mixture["B"] >= 0.3 - 1e-9 and "any" not in {row[-1] for row in kept.rows()}
    assert not pmb.advise({"a": [0, 1] * 50, "b": [1, 0] * 50}, "gini").proven  # tied, at the top of h


def test_what_a_preference_costs_by_the_plain_average_is_said() -> None:
    data = _shop(2)
    advice = pmb.advise(data, "lower_cvar(0.97)", support=pmb.Interval(0, 1e5))
    means = {name: float(np.mean(rewards)) for name, rewards in data.items()}
    given = sum(share * means[name] for name, share in advice.mixture.items())
    best = max(means, key=lambda name: means[name])
    assert given < means[best]
    less = f"{given:.1f} instead of {means[best]:.1f} with {best} ({100 * (1 - given / means[best]):.0f} % less)"
    assert less in advice.price
    assert (
        advice.price in str(advice) and advice.price in report.html_page(advice) and not pmb.advise(data, "mean").price
    )


def test_only_preferences_that_tell_the_arms_apart_are_proposed() -> None:
    offered = next_steps.preferences_without_heavy_tails(pmb.advise(_shop(1), "mean", shares="D >= 30%"))
    assert [text for _, text in offered] in ([], ["lower_cvar(0.98)"])  # by the others every arm scores 0


def test_several_preferences_say_what_each_choice_loses_by_the_others() -> None:
    data = _shop(2)
    table = pmb.advise(data, ["mean", "lower_cvar(0.97)"])
    lost = report.lost_by_other_choices(list(table))
    means = {name: float(np.mean(rewards)) for name, rewards in data.items()}
    chosen = next(iter(table[1].mixture))
    assert lost[0] == ["–", f"{100 * (1 - means[chosen] / max(means.values())):.0f} %"] and lost[1][1] == "–"
    assert "What a choice loses" in report.html_page(table)


def test_intervals_of_rewards_that_are_never_negative_stop_at_zero() -> None:
    data = {"a": [0.0] * 40 + [50.0], "b": [0.0] * 60 + [9.0, 11.0]}
    advice = pmb.advise(data, "mean")
    assert all(a.interval[0] >= 0.0 for a in advice.arms)
    below = pmb.advise({"a": [0.0] * 40 + [50.0, -1.0], "b": [0.0] * 60 + [9.0, 11.0]}, "mean")
    assert any(a.interval[0] < 0.0 for a in below.arms)


@pytest.mark.slow
@pytest.mark.parametrize("chances", [(0.2, 0.8), (0.5, 0.5)])
def test_intervals_hold_at_the_top_of_h_where_first_order_says_that_nothing_can_move(
    chances: tuple[float, float],
) -> None:
    rng, times, covered, alone = np.random.default_rng(7), 40, 0, 0
    for _ in range(times):
        data = {name: (rng.random(200) < p).astype(float) for name, p in zip("AB", chances, strict=True)}
        advice = pmb.advise(data, "gini")
        heads = float(np.dot(advice.weights, chances))
        covered += advice.interval[0] <= heads * (1.0 - heads) <= advice.interval[1]
        alone += sum(a.interval[0] <= p * (1.0 - p) <= a.interval[1] for a, p in zip(advice.arms, chances, strict=True))
    assert covered >= 0.9 * times
    assert alone >= 0.9 * 2 * times


# ---- sentences that were false once ---------------------------------------------------------------------


def test_equal_averages_are_not_blamed_on_a_preference_that_looks_at_few_rewards() -> None:
    same = pmb.advise({"a": [0.0] * 90 + [1.0] * 10, "b": [0.0] * 90 + [1.0] * 10}, "mean")
    assert same.tied and "looks at no others" not in str(same) and "same average: 0.1" in same.reason
    tail = pmb.advise({"a": [0.0] * 90 + [1.0] * 10, "b": [0.0] * 90 + [2.0] * 10}, "lower_cvar(0.1)")
    assert tail.tied and "looks at no others" in tail.reason and "90 %" in tail.reason


@pytest.mark.parametrize("metric", ["gini", "mean_median_deviation", "inter_quantile_range"])
def test_no_interval_of_a_spread_begins_below_zero(metric: str) -> None:
    rng = np.random.default_rng(1)
    advice = pmb.advise({"a": rng.normal(0, 0.01, 25), "b": [*rng.normal(0, 0.01, 24), 9.0]}, metric)
    ends = [a.interval[0] for a in advice.arms if np.isfinite(a.interval[0])]
    assert all(end >= 0.0 for end in ends) and "-" not in " ".join(row[-2] for row in advice.rows())


def test_nothing_is_minus_zero() -> None:
    advice = pmb.advise({"a": [-0.004, 0.004] * 40, "b": [-1.0, 1.0] * 40}, "mean", loss=True)
    assert not re.search(r"[-−]0(\.0+)?(?![\d.])", str(advice) + report.html_page(advice))
    written = NumberFormat(2)
    assert [written(x) for x in (-0.0, -0.001, 0.0, -0.006)] == ["0", "0", "0", "−0.01"]


def test_arms_that_are_numbers_are_named_with_their_column() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"group": [0, 1] * 200, "score": rng.normal([5.0, 6.0] * 200, 1.0)})
    advice = pmb.advise(frame, "mean")
    assert advice.recommendation == "Choose group 1." and "group 1 is" in advice.reason and "group 0" in advice.reason
    alone = pmb.advise({"0": [1.0, 2.0] * 30, "1": [5.0, 6.0] * 30}, "mean")
    assert alone.recommendation == "Choose “1”."


def test_a_single_arm_is_compared_with_arms_and_a_mixture_with_single_arms() -> None:
    rng = np.random.default_rng(3)
    data = {"a": rng.normal(1, 1, 200), "b": rng.normal(5, 1, 200), "c": rng.normal(4, 1, 200)}
    assert "every single arm" not in str(pmb.advise(data, "mean")) and "every other arm" in str(
        pmb.advise(data, "mean")
    )
    mixed = pmb.advise(data, "gini")
    assert len(mixed.mixture) == 2 and "every single arm" in mixed.reason and "every other arm" not in str(mixed)


# ---- the answer first -----------------------------------------------------------------------------------


def test_the_three_headlines_follow_the_evidence() -> None:
    kinds = {}
    normal = np.array([NormalDist(5.0, 1.0).inv_cdf((k + 0.5) / 100) for k in range(100)])
    for lead in (0.02, 0.2, 1.0):  # 0.1, 1.4 and 7 standard errors
        advice = pmb.advise({"x": normal, "y": normal + lead}, "mean")
        kinds[advice.decision.kind] = advice
    assert set(kinds) == {"choose", "leads", "cannot tell"}
    assert kinds["choose"].recommendation == "Choose y."
    assert kinds["leads"].recommendation.endswith(" leads, but the data do not settle it.")
    assert kinds["cannot tell"].recommendation == "These data cannot tell which arm is best."
    for kind, advice in kinds.items():
        lines = str(advice).splitlines()
        assert lines[0] == advice.recommendation and lines[1] == advice.reason
        found = advice.decision.difference
        assert found is not None and f"95 % interval: {NumberFormat(2)(found.interval[0])}" in advice.reason
        assert ("more rows" in advice.outlook or "would not settle" in advice.outlook) == (kind != "choose")


def test_losses_are_said_in_their_own_sign_and_unit() -> None:
    rng = np.random.default_rng(5)
    waits = {"Lisbon": rng.gamma(4, 3, 300), "Berlin": rng.gamma(4, 4, 300)}
    advice = pmb.advise(waits, "mean", loss=True, measured_in="minutes")
    least, most = waits["Lisbon"].mean(), waits["Berlin"].mean()
    assert f"{most - least:.1f} minutes better than Berlin" in advice.reason
    assert f"{least:.1f} against {most:.1f}, and smaller is better" in advice.reason
    assert advice.rows()[0][2] == f"{least:.1f}" and "-" not in " ".join(cell for row in advice.rows() for cell in row)
    page = report.html_page(advice, title="Waiting", author="Ann")
    assert "<h1>Waiting</h1>" in page and "by Ann" in page and "in minutes" in page and "average (minutes)" in page


def test_amounts_are_written_as_people_write_them() -> None:
    rng = np.random.default_rng(6)
    advice = pmb.advise({"a": rng.gamma(2, 6e3, 400), "b": rng.gamma(2, 9e3, 400)}, "mean", measured_in="€")
    text = str(advice) + report.html_page(advice) + report.markdown_report(advice)
    assert "e+0" not in text and f"{np.mean(advice.arms[1].mean):,.0f}" in text


def test_arms_with_few_rows_are_named_as_left_out_and_stand_last() -> None:
    curve = st.norm.ppf((np.arange(100) + 0.5) / 100)
    data = {"top": [9.0, 9.5, 9.1], "a": curve, "b": curve + 2.0, "middle": [0.9, 1.0]}
    advice = pmb.advise(data)
    assert "top and middle have 2–3 rows each and are left out." in advice.reason and "looks best" not in advice.reason
    assert [row[0] for row in advice.rows()] == ["b", "a", "top", "middle"]
    assert "one has 1 row and is left out." in pmb.advise({"a": curve, "b": curve + 2.0, "one": [9.0]}).reason


def test_an_arm_that_one_value_decides_is_open_and_the_others_are_not_called_settled() -> None:
    curve = st.norm.ppf((np.arange(100) + 0.5) / 100)
    calls = {"Lisbon": curve + 6.0, "Berlin": curve + 8.0, "Warsaw": np.append(curve[:99] + 6.5, 480.0)}
    advice = pmb.advise(calls, loss=True)
    without = f"{np.mean(curve[:99] + 6.5):.2f}"
    assert advice.recommendation == (
        f"Lisbon beats Berlin; Warsaw is open: one value (480) decides. Without it Warsaw is {without}."
    )
    found = advice.decision
    assert (found.kind, found.claim, found.beaten, found.open) == ("leads", "better", ("Berlin",), ("Warsaw",))
    assert found.set_aside == ("Warsaw",) and sentences.short_verdict(advice) == "not settled"
    assert "better than Berlin beyond chance" in advice.reason and advice.outlook.startswith("Is 480 right?")
    assert '<span class="badge open">not settled' in report.html_page(advice) and "choose" not in advice.rows()[0]
    spread = pmb.advise(calls, "gini", loss=True, shares=None)
    outliers = [c.numbers for c in spread.decision.caveats if c.kind == "outlier"]
    assert all(numbers["without"] >= 0.0 for numbers in outliers)  # a spread of losses has no sign


def test_arms_that_are_clearly_worse_are_named_though_the_best_one_is_open() -> None:
    curve = st.norm.ppf((np.arange(100) + 0.5) / 100)
    data = {"a": curve, "b": curve + 0.02, "c": curve - 1.0, "d": curve - 2.0}
    advice = pmb.advise(data)
    assert advice.decision.kind == "cannot tell" and advice.decision.beaten == ("c", "d")
    assert "c and d are clearly worse; among the others the data cannot tell." in advice.reason


def test_a_mixtures_gain_is_said_on_held_out_and_on_all_rows() -> None:
    rng = np.random.default_rng(3)
    advice = pmb.advise({"a": rng.normal(1, 1, 200), "b": rng.normal(5, 1, 200)}, "gini")
    written = sentences.number_format(advice)
    whole = f"when checked on rows that were not used to choose ({written(advice.apparent_gain)} on all rows)"
    assert f"{written(advice.gain)} better than" in advice.reason and whole in advice.reason


def test_rows_with_weights_say_to_how_many_they_amount() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    chance = rng.choice([0.2, 0.8], 400)
    table = pd.DataFrame({"ad": np.where(rng.random(400) < chance, "x", "y"), "sales": rng.normal(5, 1, 400)})
    table["chance"] = np.where(table["ad"] == "x", chance, 1.0 - chance)
    advice = pmb.advise(table, arm="ad", reward="sales", propensity="chance")
    weights = 1.0 / table["chance"]
    size = sum(int(w.sum() ** 2 / (w**2).sum()) for _, w in weights.groupby(table["ad"]))
    said = f"400 rows, weighted by the chance with which each ad was chosen; that is worth about {size:,} rows"
    assert said in str(advice) and said in report.html_page(advice)


def test_one_unit_that_decides_is_named_and_new_units_are_asked_for() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(6)
    table = pd.DataFrame({"drug": np.repeat(["a", "b"], 120), "patient": np.repeat(np.arange(60), 4)})
    table["fits"] = rng.normal(8, 1, 240)
    table.loc[table["patient"] == 3, "fits"] = [14.0, 15.0, 16.0, 17.0]
    advice = pmb.advise(table, arm="drug", reward="fits", unit="patient", loss=True)
    rest = table[(table["drug"] == "a") & (table["patient"] != 3)]["fits"].mean()
    said = f"without it a is {sentences.number_format(advice)(rest)}."
    assert any(c.kind == "deciding unit" and c.seen.endswith(said) for c in advice.caveats)
    assert [c.arms for c in advice.decision.caveats if c.kind == "deciding unit"] == [("a",)]
    assert {row[1] for row in advice.rows()} == {"120 (30)"} and sentences.arm_table_header(advice)[1] == "rows (units)"
    assert "new units of" in advice.outlook


def test_arms_tried_in_part_of_the_time_are_named_before_the_answer_with_the_same_time() -> None:
    pd = pytest.importorskip("pandas")
    day = np.arange(300)
    always = np.where(day < 120, 0.0, 3.0) + np.tile([-0.5, 0.0, 0.5], 100)  # 3 in the time that both have
    late = np.tile([2.0, 2.5, 3.0], 60)
    table = pd.DataFrame({"arm": ["old"] * 300 + ["late"] * 180, "day": [*day, *day[120:]], "x": [*always, *late]})
    advice = pmb.advise(table, arm="arm", reward="x", time="day")
    (finding,) = advice.before
    assert finding.seen.startswith("Not tried the whole time: late") and advice.mixture == {"late": 1.0}
    assert "Over the time that all of them have, “old” is better: 3.0" in finding.done
    assert str(advice).startswith(str(finding)) and str(advice).count("Not tried the whole time") == 1
    page = report.html_page(advice)
    assert page.count("Not tried the whole time") == 1
    assert page.index("Not tried the whole time") < page.index('class="answer"')


def test_what_choices_lose_is_named_by_the_choice_and_in_one_unit() -> None:
    rng = np.random.default_rng(7)
    table = pmb.advise(
        {"x": rng.normal(3, 5, 200), "y": rng.normal(0.8, 1, 200)}, ["mean", "steady", "lower_cvar(0.1)"]
    )
    assert [set(a.mixture) for a in table] == [{"x"}, {"y"}, {"y"}]
    page = report.html_page(table)
    assert "choice 1" not in page and "<th>by this preference</th><th>x</th><th>y</th>" in page
    assert not any("%" in cell for row in report.lost_by_other_choices(list(table)) for cell in row)


def test_the_shell_command_stands_below_the_python_call(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arm,reward\n" + "a,1\nb,2\na,2\nb,3\n" * 20)
    assert pmb.advise(path, "gini", loss=True).repeat.splitlines()[-1] == (
        f"# In a shell: pmbandits advise {path} --metric gini --loss"
    )
    assert "In a shell" not in pmb.advise(path, pmb.Mean()).repeat


def test_a_picture_says_which_side_is_better_and_which_intervals_are_cut() -> None:
    curve = st.norm.ppf((np.arange(100) + 0.5) / 100)
    chart = charts.score_dot_chart(pmb.advise({"a": curve, "b": curve + 0.5, "c": 20.0 * curve}, loss=True), 20)
    assert chart.note == "Smaller is better: left. Arrows: the interval of c goes on beyond the picture."
    cut = {row["name"]: row["cut"] for row in chart.rows}
    assert cut == {"a": [], "b": [], "c": ["low", "high"]}
    assert all(row["from"] > 0.0 and row["from"] + row["width"] < 100.0 for row in chart.rows if not row["cut"])
    assert charts.score_dot_chart(pmb.advise({"a": curve, "b": curve + 0.5}), 20).note == ""


def test_one_number_is_written_in_one_way() -> None:
    assert NumberFormat(2)(5.845) == NumberFormat(2)(np.nextafter(5.845, 0)) == NumberFormat(2)(np.nextafter(5.845, 9))
    rng = np.random.default_rng(5)
    advice = pmb.advise({"a": rng.normal(0, 1, 300), "b": rng.normal(9.0, 30, 300)}, "avoid the worst 10 %")
    table = {row[0]: row[2] for row in advice.rows()}
    assert f"{table['a']} instead of {table['b']} with b" in advice.price


def test_the_headline_says_which_direction_was_assumed_of_a_time() -> None:
    rng = np.random.default_rng(3)
    arms = np.repeat(["slow", "quick"], 60)
    values = rng.uniform(0.0, 2.0, 120) + np.where(arms == "slow", 5.0, 1.0)

    def headline(column: str, **said: bool) -> str:
        return pmb.advise(pd.DataFrame({"supplier": arms, column: values}), reward=column, **said).recommendation

    assert headline("days") == "Choose slow, if more days is better."
    curve = st.norm.ppf((np.arange(100) + 0.5) / 100)
    days = np.concatenate([curve - 6.0, curve - 8.0, np.append(curve[:99] - 6.5, -480.0)])
    sites = np.repeat(["Lisbon", "Berlin", "Warsaw"], 100)
    opened = pmb.advise(pd.DataFrame({"site": sites, "days": days}), arm="site", reward="days").recommendation
    assert opened.startswith("Lisbon beats Berlin, if more days is better; Warsaw is open")
    assert headline("days", loss=False) == "Choose slow."
    assert headline("Delivery days") == headline("days", loss=True) == "Choose quick."
