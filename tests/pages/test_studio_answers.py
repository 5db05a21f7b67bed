"""What the studio says: sentences are true of the numbers, and where there is nothing to choose, nothing is chosen."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmbandits as pmb

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from pmbandits.advice.metric_phrases import describe_metric
from pmbandits.pages.studio import examples
from pmbandits.pages.studio.app import Studio, make_app
from tests.pages.client import Client

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return examples.write_example_csv("shop", tmp_path_factory.mktemp("studio"))


@pytest.fixture(scope="module")
def rewards(shop: Path) -> dict[str, np.ndarray]:
    table = pd.read_csv(shop)
    return {name: table.revenue[table.offer == name].to_numpy() for name in table.offer.unique()}


@pytest.fixture(scope="module")
def ask(shop: Path) -> Iterator[Ask]:
    studio = Studio(shop)
    client = Client(make_app(studio))

    def asked(at: str, status: int = 200, **question: Any) -> dict[str, Any]:
        answer = client.post(at, json={"table": 1, **question})
        assert answer.status_code == status, answer.text
        return answer.json()

    yield asked
    studio.stop_worker_and_delete_uploads()


def _drop(ask: Ask, name: str, content: str) -> dict[str, Any]:
    client: Client = ask.__closure__[0].cell_contents  # type: ignore[attr-defined]
    return client.post("/drop", params={"name": name}, content=content.encode()).json()


# ---- arms that a preference cannot tell apart ------------------------------------------------------------


@pytest.mark.parametrize("text", ["lower_cvar(0.1)", "var(0.5)", "inter_quantile_range", "2*lower_cvar(0.3)"])
def test_where_a_preference_cannot_tell_arms_apart_none_is_recommended_and_a_setting_that_can_is_offered(
    ask: Ask, rewards: dict[str, np.ndarray], text: str
) -> None:
    metric = pmb.metric(text)
    assert len({metric.value(x) for x in rewards.values()}) == 1
    found = ask("/look", metric=text)
    zeros = [100 * float((x == 0).mean()) for x in rewards.values()]
    assert "the 4 arms apart" in found["tie"]["headline"]
    assert f"{min(zeros):.0f} to {max(zeros):.0f} % of their rewards are 0" in found["tie"]["why"]
    assert all(arm["share"] is None for arm in found["arms"])
    offers = [offer for offer in found["tie"]["offers"] if "metric" in offer]
    assert len(offers) >= 2 and "week" in [one.get("per") for one in found["tie"]["offers"]]
    for offer in offers:
        worth = {name: pmb.metric(offer["metric"]).value(x) for name, x in rewards.items()}
        assert len(set(np.round(list(worth.values()), 9))) == 4 and ask("/look", metric=offer["metric"])["tie"] is None
    plays = ask("/compare", rows=[{"metric": text}])["rows"][0]["plays"]
    assert plays == "it cannot choose"


def test_the_slider_that_is_offered_is_the_nearest_at_which_every_arm_is_more_than_its_zeros(
    ask: Ask, rewards: dict[str, np.ndarray]
) -> None:
    offered = pmb.metric(ask("/look", metric="lower_cvar(0.1)")["tie"]["offers"][0]["metric"])
    share = round(100 * offered.parameters["alpha"])
    values = [pmb.LowerCVaR(k / 100).value(rewards["bundle"]) for k in (share - 1, share)]
    assert values[0] == 0.0 < values[1]  # the arm with most zeros


def test_where_only_the_best_arms_are_alike_they_are_named(ask: Ask) -> None:
    found = _drop(ask, "t.csv", "arm,reward\n" + "a,1\na,3\nb,1\nb,3\nc,0\nc,1\n" * 20)
    seen = ask("/look", table=found["table"], metric="mean")
    assert ask("/way", table=found["table"], **{"from": "mean", "to": "lower_cvar(0.5)"})["steps"] == []
    assert seen["tie"]["arms"] == ["a", "b"] and "cannot choose between 2 arms" in seen["tie"]["headline"]
    limited = ask("/look", table=found["table"], metric="mean", limits={"arms": {"c": [50, 100]}})
    assert limited["tie"] is None and limited["average"] == pytest.approx(1.25)


def test_a_mixture_of_arms_that_are_worth_the_same_alone_is_no_tie(ask: Ask) -> None:
    found = _drop(ask, "t.csv", "arm,reward\n" + "a,1\na,2\nb,5\nb,6\n" * 20)
    seen = ask("/look", table=found["table"], metric="gini")
    assert seen["tie"] is None and seen["gain"] > 0


# ---- what it gives, costs, and why -----------------------------------------------------------------------


def test_what_a_choice_costs_by_the_plain_average_is_said(ask: Ask, rewards: dict[str, np.ndarray]) -> None:
    found = ask("/look", metric="upper_cvar(0.9)")
    mean = sum(arm["share"] * rewards[arm["name"]].mean() for arm in found["arms"])
    best = max(x.mean() for x in rewards.values())
    assert found["average"] == pytest.approx(mean, rel=1e-6)
    assert (
        f"gives {mean:.4g}: {100 * (1 - mean / best):.2g} % less, because ten off alone gives {best:.4g}"
        in found["gives"]
    )
    assert [arm["mean"] for arm in found["arms"]] == pytest.approx([rewards[a["name"]].mean() for a in found["arms"]])
    assert "no arm gives more" in ask("/look", metric="0.9*mean + 0.1*lower_cvar(0.9)")["gives"]


def test_why_a_mixture_is_best_is_said_with_numbers_of_the_rewards(ask: Ask, rewards: dict[str, np.ndarray]) -> None:
    found = {**ask("/look", metric="upper_cvar(0.9)"), **ask("/why", metric="upper_cvar(0.9)")}
    for name in ("bundle", "ten off"):
        above = rewards[name][rewards[name] > 0]
        share = 100 * above.size / rewards[name].size
        assert f"{name} brings {above.mean():.3g} on average with {share:.2g} % of its rewards" in found["why"]
    assert "not beside the others" in found["why"]
    shares = {arm["name"]: 0.9 * arm["share"] for arm in found["arms"]}
    shares["free shipping"] += 0.1
    x = np.concatenate(list(rewards.values()))
    p = np.concatenate([np.full(r.size, shares[name] / r.size) for name, r in rewards.items()])
    assert f"{pmb.UpperCVaR(0.9).value(x, p):.4g} instead of {found['worth']:.4g}" in found["why"]


@pytest.mark.parametrize(
    "text", ["upper_cvar(0.9)", "lower_cvar(0.9)", "mean", "gini", "0.5*mean + 0.5*lower_cvar(0.95)"]
)
def test_what_the_bend_of_the_curve_says_of_mixtures_is_true(
    ask: Ask, rewards: dict[str, np.ndarray], text: str
) -> None:
    said, metric = ask("/look", metric=text)["bends"], pmb.metric(text)
    rng = np.random.default_rng(0)
    x = np.concatenate(list(rewards.values()))
    alone = np.array([metric.value(r) for r in rewards.values()])
    for shares in rng.dirichlet(np.ones(4), 20):
        p = np.concatenate([np.full(r.size, s / r.size) for s, r in zip(shares, rewards.values(), strict=True)])
        mixed, average = metric.value(x, p), float(shares @ alone)
        if "hill" in said:
            assert mixed >= average - 1e-9
        elif "bowl" in said:
            assert mixed <= average + 1e-9
        else:
            assert mixed == pytest.approx(average)


def test_the_whole_way_of_a_slider_says_where_the_choice_jumps(ask: Ask) -> None:
    found = _drop(ask, "savings.csv", examples.write_example_csv("savings", Path(_folder())).read_text())
    way = ask("/way", table=found["table"], **{"from": "mean", "to": "lower_cvar(0.1)"})
    steps, shares = np.array(way["steps"]), {arm["name"]: np.array(arm["shares"]) for arm in way["arms"]}
    jumps = [k for k in range(len(steps) - 1) if shares["start-ups"][k] == 100 and shares["shares"][k + 1] == 100]
    assert len(jumps) == 1 and steps[jumps[0] + 1] - steps[jumps[0]] < 0.5
    at = steps[jumps[0] + 1]
    assert f"at {at:.3g} % from start-ups to shares" in way["changes"]
    for place, name in ((at - 1, "start-ups"), (at + 1, "shares")):
        text = f"{1 - place / 100:.6g}*mean + {place / 100:.6g}*lower_cvar(0.1)"
        assert ask("/look", table=found["table"], metric=text)["sentence"] == f"Best in these data: {name}."


def _folder() -> str:
    import tempfile

    return tempfile.mkdtemp()


def test_an_example_shows_a_mixture_that_is_surely_best(tmp_path: Path) -> None:
    table = examples.write_example_csv("scouts", tmp_path)
    found = pmb.advise(table, "upper_cvar(0.9)", arm="place", reward="score", support=pmb.Interval(0, 100))
    assert found.verdict == "real" and found.proven and len(found.mixture) == 2 and found.gain > 3


def test_limits_are_kept_with_a_row_of_the_comparison(ask: Ask) -> None:
    limits = {"arms": {"no offer": [20, 100]}, "text": ""}
    free, limited = ask("/compare", rows=[{"metric": "mean"}, {"metric": "mean", "limits": limits}])["rows"]
    assert free["plays"] == "ten off" and limited["plays"] == "80 % ten off + 20 % no offer"
    assert not free["limits"] and "no offer" in limited["limits"]
    assert limited["lost"][0].startswith("gains") and free["lost"][0] == "0 %"


# ---- words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mean", "the plain average"),
        ("lower_cvar(0.95)", "the average of the worst 95 %"),
        ("0.8*mean + 0.2*upper_cvar(0.95)", "80 % the plain average, 20 % the average of the best 5 %"),
        ("var(0.1)", "the level that is reached in 90 % of the cases"),
    ],
)
def test_a_preference_is_said_with_its_numbers(text: str, said: str) -> None:
    assert describe_metric(pmb.metric(text)) == said


def test_no_preference_is_said_with_a_letter_for_a_number() -> None:
    from pmbandits.metrics.registry import FAMILIES

    for family in FAMILIES:
        words = describe_metric(family.example())
        for value in map(float, family.example().parameters.values()):
            assert any(f"{number:.4g}" in words for number in (value, 100 * value, 100 * (1 - value))), words


def test_numbers_in_words_are_used_or_refused(ask: Ask) -> None:
    assert "'35'" in ask("/wish", 400, said="a good average without disasters, 35")["error"]
    assert ask("/wish", said="80 % average and 20 % worst 5 %")["words"].startswith("80 % the plain average, 20 %")
    unclear = ask("/wish", 400, said="asdf")
    assert len(unclear["nearest"]) == 3 and "tsallis" not in unclear["error"] and len(unclear["error"]) < 60
    assert "tsallis" in ask("/wish", 400, said="asdf", formula=True)["error"]


def test_who_speaks_of_weeks_is_asked_what_one_reward_is(ask: Ask) -> None:
    assert ask("/wish", said="bad weeks are not too bad")["period"] == "week"
    assert ask("/wish", said="avoid the worst 10 %")["period"] == ""


# ---- what one reward is ----------------------------------------------------------------------------------


def test_a_week_can_be_one_reward_and_the_command_says_so(ask: Ask, shop: Path) -> None:
    content = shop.read_text()
    found = _drop(ask, "shop.csv", content)
    assert found["when"] == "day" and set(found["read"]["outcomes_can_be"]) == {"", "day", "week", "month"}
    asked = {"table": found["table"], "arm": "offer", "reward": "revenue", "time": "day", "per": "week"}
    read = ask("/read", **asked)["read"]
    table = pd.read_csv(shop, parse_dates=["day"])
    weekly = table.groupby(["offer", table.day.dt.to_period("W-SUN")]).revenue.mean()
    assert read["outcomes"] == len(weekly) and read["per"] == "week" and "each week" in read["outcome"]
    seen = ask("/look", table=found["table"], metric="lower_cvar(0.2)")
    for arm in seen["arms"]:
        assert arm["worth"] == pytest.approx(pmb.LowerCVaR(0.2).value(weekly[arm["name"]].to_numpy()), rel=1e-6)
        assert arm["mean"] == pytest.approx(weekly[arm["name"]].mean(), rel=1e-6)
    words = shlex.split(seen["again"]["command"])
    assert words[words.index("--per") + 1] == "week" and "per='week'" in seen["again"]["python"]
    assert "give unit or per" in ask("/read", 400, **asked, unit="visitor")["error"]
    assert "got numbers" in ask("/read", 400, **{**asked, "time": "visitor"})["error"]


def test_a_few_rewards_far_away_are_not_drawn_and_that_is_said(ask: Ask) -> None:
    rows = "".join(f"{'ab'[k % 2]},{k % 7}\n" for k in range(2_000)) + "a,100000\n"
    found = _drop(ask, "t.csv", f"arm,reward\n{rows}")
    assert found["read"]["undrawn"] == "A few rewards up to 100,000 are not drawn."
    seen = ask("/look", table=found["table"], metric="mean")
    assert max(seen["grid"]) < 10 and len(seen["above"]) == 2  # one arm is played: it has its own line already


def test_an_excel_file_is_read_and_named_as_its_owner_does(ask: Ask, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [("arm", "reward"), *(("ab"[k % 2], k % 5) for k in range(40))]:
        book.active.append(row)
    book.save(tmp_path / "my visits.xlsx")
    client: Client = ask.__closure__[0].cell_contents  # type: ignore[attr-defined]
    raw = (tmp_path / "my visits.xlsx").read_bytes()
    found = client.post("/drop", params={"name": "my visits.xlsx"}, content=raw).json()
    assert found["name"] == "my visits.xlsx" and found["read"]["used"] == 40
    wrong = client.post("/drop", params={"name": "my visits.xlsx"}, content=b"no book")
    assert wrong.status_code == 400 and wrong.json()["error"].startswith("my visits.xlsx is ")
    empty = client.post("/drop", params={"name": "nothing.csv"}, content=b"arm,reward\n").json()
    assert empty["read"] is None and empty["why"] == "nothing.csv has no rows below its first line."


def test_a_curve_of_ones_own_can_be_said() -> None:
    own = pmb.Distortion.from_function(lambda u: u**2)
    assert describe_metric(own) and describe_metric(0.5 * pmb.Mean() + 0.5 * own).startswith(
        "50 % the plain average, 50 % "
    )


def test_why_a_table_is_not_read_is_said_without_options_of_the_command_line(ask: Ask) -> None:
    found = _drop(ask, "money.csv", "variant,revenue\n" + "A,€ 1.50\nB,$ 2.00\n" * 20)
    assert found["read"] is None and found["why"].startswith("money.csv holds no usable rewards")
    assert found["why"].endswith("look like amounts of money: say so under “Change how it is read”.")
    read = ask("/read", table=found["table"], arm="variant", reward="revenue", currency="€")["read"]
    assert [arm["mean"] for arm in read["arms"]] == [1.5]


def test_where_columns_are_not_clear_the_page_asks_and_names_the_candidates(ask: Ask) -> None:
    rows = "".join(f"{k % 7},{'xyz'[k % 3]},{'AB'[k % 2]}\n" for k in range(60))
    found = _drop(ask, "barley.csv", f"yield,kind,site\n{rows}")
    assert found["read"] is None and "kind" in found["why"] and "site" in found["why"]
    assert "result" not in found["why"]  # that one is clear


def test_a_column_that_sounds_like_a_loss_is_read_as_one_and_shown_in_its_own_sign(ask: Ask) -> None:
    rows = "".join(f"{'ab'[k % 2]},{10 + k % 5 + 3 * (k % 2)}\n" for k in range(200))
    found = _drop(ask, "calls.csv", f"arm,delay\n{rows}")
    assert found["asked"]["loss"] and "smaller is better" in found["read"]["findings"][0]["said"]
    look = ask("/look", table=found["table"], metric="mean")
    assert look["arms"][0]["name"] == "a" and look["arms"][0]["worth"] == pytest.approx(12.0)
    advice = ask("/verdict", table=found["table"], metric="mean")["advice"][0]
    assert advice["recommendation"] == "Choose a." and advice["kind"] == "choose" and advice["badge"] == "settled"
    assert "12.00 against 15.00, and smaller is better" in advice["reason"]
    assert all(arm["interval"][0] > 0.0 for arm in advice["arms"])
    assert [arm["average"] for arm in advice["arms"]] == ["12.00", "15.00"]  # one number for one thing
    assert look["grid"] == sorted(look["grid"]) and look["grid"][0] > 0.0  # losses grow to the right
    assert look["above"][0][0] == 0.0 and look["above"][0][-1] == 1.0  # the share of them below each number


def test_more_choices_are_those_of_advise_and_what_was_noticed_has_a_button(ask: Ask) -> None:
    rng = np.random.default_rng(3)
    lead = {"DE": 1.0, "FR": -1.0}
    rows = [
        (country, name, f"{rng.normal(5 + lead[country] * (name == 'b'), 1):.3f}")
        for country in lead
        for name in ("a", "b", "B") * 60
    ]
    found = _drop(ask, "log.csv", "country,arm,reward\n" + "\n".join(map(",".join, rows)) + "\n")
    noticed = {one.get("option"): one for one in found["read"]["findings"]}
    assert noticed["same_names"]["button"] and found["read"]["count"] == 3
    asked = {"table": found["table"], "arm": "arm", "reward": "reward", "same_names": True}
    more = {"by": "country", "matters": "0,1", "measured_in": "€", "where": "reward > -100"}
    read = ask("/read", **asked, **more)
    assert read["read"]["count"] == 2 and read["asked"]["matters"] == 0.1
    answer = ask("/verdict", table=found["table"], metric="mean")
    assert [row[:3] for row in answer["groups"]["rows"][1:]] == [["DE", "180", "b"], ["FR", "180", "a"]]
    assert "€" in answer["advice"][0]["reason"] and not any(
        "capital" in said for said in answer["advice"][0]["caveats"]
    )
    command = ask("/look", table=found["table"], metric="mean")["again"]["command"]
    for words in ("--same-names", "--by country", "--matters 0.1", "--measured-in", "--where"):
        assert words in command
    assert "compared itself" in ask("/read", 400, **asked, by="arm")["error"]
    ask("/read", **asked, segment="country")
    plan = ask("/verdict", table=found["table"], metric="mean")["groups"]
    assert [row[::2] for row in plan["rows"][1:]] == [["DE", "b"], ["FR", "a"]]
    assert plan["said"][0] == "Choose by country: DE: b; FR: a." and "better than" in plan["said"][1]
    assert "--segment country" in ask("/look", table=found["table"], metric="mean")["again"]["command"]
    assert "not both" in ask("/read", 400, **asked, by="country", segment="country")["error"]


def test_propensities_weight_the_rows_as_in_advise(ask: Ask, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    table = pd.DataFrame({"ad": rng.choice(["a", "b"], 300), "p": rng.uniform(0.2, 0.8, 300).round(3)})
    table["revenue"] = rng.exponential(3, 300).round(2) * table["p"]
    path = tmp_path / "log.csv"
    table.to_csv(path, index=False)
    number = _drop(ask, "log.csv", path.read_text())["table"]
    ask("/read", table=number, arm="ad", reward="revenue", propensity="p", wide=False)
    found = ask("/look", table=number, metric="mean")
    wanted = {a.name: a.mean for a in pmb.advise(path, arm="ad", reward="revenue", propensity="p").arms}
    assert {row["name"]: row["worth"] for row in found["arms"]} == pytest.approx(wanted, rel=1e-6)


def test_a_percentile_of_losses_is_at_their_large_end(ask: Ask) -> None:
    found = ask("/wish", said="p95", loss=True)
    assert found["text"] == "var(0.05)" and found["parts"][0]["values"] == {"c": 0.05}
    table = "arm,wait\n" + "".join(f"a,{k}\nb,{k + 5}\n" for k in range(1, 101))
    number = _drop(ask, "waits.csv", table)["table"]
    ask("/read", table=number, arm="arm", reward="wait", wide=False, loss=True)
    worth = {arm["name"]: arm["worth"] for arm in ask("/look", table=number, metric=found["text"])["arms"]}
    assert worth == {"a": 95.0, "b": 100.0}  # of 1 to 100, 95 % are at most 95
    verdict = ask("/verdict", table=number, metric=found["text"])["advice"][0]
    assert {arm["name"]: float(arm["score"]) for arm in verdict["arms"]} == worth
    assert ask("/wish", said="p95", loss=False)["text"] == "var(0.95)"


def test_the_next_step_names_the_button_and_no_option_of_a_command(ask: Ask) -> None:
    table = "customer_id,arm,revenue\n" + "".join(f"{k % 40},{'ab'[k % 2]},{k % 7 + 9 * (k % 2)}\n" for k in range(200))
    number = _drop(ask, "orders.csv", table)["table"]
    ask("/read", table=number, arm="arm", reward="revenue", wide=False)
    said = ask("/verdict", table=number, metric="mean")["advice"][0]
    assert said["kind"] == "leads" and "Allow for that" in said["outlook"] and "--unit" not in said["outlook"]
