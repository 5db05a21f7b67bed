"""The studio without a browser: who is let in, and that its answers are those of the library."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.advice import advise
from pmbandits.advice.repro_call import ADVISE_DEFAULTS
from pmbandits.palette import arm_colour

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from pmbandits.pages import web
from pmbandits.pages.studio import examples
from pmbandits.pages.studio.app import Studio, make_app
from pmbandits.pages.studio.sliders import all_statements_for_list, metric_text, metric_with_sliders
from pmbandits.pages.studio.verdict_worker import Superseded, VerdictWorker
from tests.pages.client import Client

WORD, PORT = "a-long-word", 5_000
HOST = {"host": f"127.0.0.1:{PORT}"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return examples.write_example_csv("shop", tmp_path_factory.mktemp("studio"))


@pytest.fixture(scope="module")
def studio(shop: Path) -> Iterator[Studio]:
    made = Studio(shop)
    yield made
    made.stop_worker_and_delete_uploads()


@pytest.fixture
def client(studio: Studio) -> Client:
    return Client(make_app(studio))


Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(client: Client) -> Ask:
    def asked(at: str, status: int = 200, **question: Any) -> dict[str, Any]:
        answer = client.post(at, json={"table": 1, **question})
        assert answer.status_code == status, answer.text
        return answer.json()

    return asked


def test_without_the_extra_there_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(ValueError, match=r"pip install 'pmbandits\[service\]'"):
        web.check_web_server_installed("pmbandits studio")


# ---- who is let in ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"/{WORD}/", HOST, 200),
        (f"/{WORD}/", {"host": f"localhost:{PORT}"}, 200),
        (f"/{WORD}/", {"host": f"evil.example:{PORT}"}, 403),  # DNS rebinding
        (f"/{WORD}/", {"host": "127.0.0.1:6000"}, 403),
        ("/", HOST, 403),
        ("/another-word/", HOST, 403),
        (f"/{WORD}x/", HOST, 403),
        (f"/{WORD}/", {**HOST, "origin": "https://evil.example"}, 403),
        (f"/{WORD}/", {**HOST, "origin": "null"}, 403),
        (f"/{WORD}/", {**HOST, "origin": f"http://127.0.0.1:{PORT}"}, 200),
        (f"/{WORD}/", {**HOST, "sec-fetch-site": "cross-site"}, 403),
        (f"/{WORD}/", {**HOST, "sec-fetch-site": "same-site"}, 403),
    ],
)
def test_only_who_knows_the_word_and_asks_at_the_right_address_is_let_in(
    studio: Studio, path: str, headers: dict[str, str], status: int
) -> None:
    guarded = Client(web.LocalTokenMiddleware(make_app(studio), WORD, PORT))
    assert guarded.get(path, headers=headers).status_code == status


def test_every_answer_has_a_strict_policy_and_the_page_has_no_script_or_style_of_its_own(client: Client) -> None:
    page = client.get("/")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    text = page.text
    assert not re.findall(r"<script(?![^>]*\bsrc=)", text) and not re.findall(r"\s(?:style|on\w+)=", text)
    assert not re.findall(r"https?://", text)
    for name in re.findall(r'(?:src|href)="(assets/[^"]+)"', text):
        answer = client.get(f"/{name}")
        assert answer.status_code == 200 and answer.headers["x-content-type-options"] == "nosniff", name


def test_a_page_with_its_files_stays_below_a_megabyte_and_none_asks_elsewhere(client: Client) -> None:
    text = client.get("/").text
    files = [client.get(f"/{name}") for name in re.findall(r'(?:src|href)="(assets/[^"]+)"', text)]
    assert sum(len(f.content) for f in files) + len(text) < 1_000_000
    ours = [f.text for f in files if "uplot" not in str(f.url)]
    assert not any(re.search(r"https?://(?!www\.w3\.org)", t) for t in ours)


def test_only_files_of_the_pages_are_served(client: Client) -> None:
    for name in ("README.md", "..%2fweb.py", "%2e%2e/web.py", "studio.html", "nothing.js"):
        assert client.get(f"/assets/{name}").status_code == 404


def test_the_library_of_charts_is_the_one_that_is_written_down() -> None:
    noted = (web.ASSETS / "README.md").read_text()
    for name in ("uplot.js", "uplot.css"):
        assert hashlib.sha256((web.ASSETS / name).read_bytes()).hexdigest() in noted


def test_arms_have_the_colours_of_the_pictures(client: Client, ask: Ask) -> None:
    sheet = client.get("/assets/palette.css").text
    assert all(f"--arm-{k}: {arm_colour(k)};" in sheet for k in range(18))
    assert all(arm["colour"] == arm_colour(arm["place"]) for arm in ask("/look", metric="mean")["arms"])


# ---- answers ---------------------------------------------------------------------------------------------


def _rewards(path: Path) -> dict[str, np.ndarray]:
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    names = list(dict.fromkeys(row[2] for row in rows))
    return {name: np.array([float(row[3]) for row in rows if row[2] == name]) for name in names}


@pytest.mark.parametrize(
    "text", ["mean", "gini", "0.7*mean + 0.3*upper_cvar(0.9)", "mean - 0.5*gini", "lower_cvar(0.9)"]
)
def test_quick_numbers_are_those_of_the_rewards(shop: Path, ask: Ask, text: str) -> None:
    rewards = _rewards(shop)
    found = ask("/look", metric=text)
    metric = pmb.metric(text)
    shares = {arm["name"]: arm["share"] for arm in found["arms"]}
    for arm in found["arms"]:
        assert arm["worth"] == pytest.approx(metric.value(rewards[arm["name"]]), rel=1e-6)
    pooled = np.concatenate(list(rewards.values()))
    weights = np.concatenate([np.full(x.size, shares[name] / x.size) for name, x in rewards.items()])
    assert found["worth"] == pytest.approx(metric.value(pooled, weights), rel=1e-5)
    best = pmb.oracle(metric, pmb.Bandit.from_samples(rewards))
    assert found["worth"] >= best.value - 1e-3 * abs(best.value)
    assert found["gain"] == pytest.approx(found["worth"] - best.best_arm_value, abs=1e-5)
    u = np.array(found["curve"]["u"])
    np.testing.assert_allclose(found["curve"]["h"], metric(u), atol=1e-6)


def test_limits_are_kept_and_their_cost_is_what_the_best_mixture_loses(shop: Path, ask: Ask) -> None:
    limits = {"arms": {"bundle": [0, 20], "no offer": [10, 100]}}
    free, found = ask("/look", metric="upper_cvar(0.9)"), ask("/look", metric="upper_cvar(0.9)", limits=limits)
    shares = {arm["name"]: arm["share"] for arm in found["arms"]}
    assert shares["bundle"] <= 0.2 + 1e-6 and shares["no offer"] >= 0.1 - 1e-6
    assert found["limits"]["cost"] == pytest.approx(free["worth"] - found["worth"], rel=1e-4)
    best = pmb.oracle("upper_cvar(0.9)", pmb.Bandit.from_samples(_rewards(shop)), shares=found["limits"]["text"])
    assert found["worth"] == pytest.approx(best.value, rel=1e-3)
    assert (
        "least shares" in ask("/look", 400, metric="mean", limits={"text": "bundle >= 0.6; 'no offer' >= 0.6"})["error"]
    )


def test_the_careful_verdict_is_that_of_advise(shop: Path, ask: Ask) -> None:
    found = ask("/verdict", metric="upper_cvar(0.9)")["advice"][0]
    expected = advise(shop, "upper_cvar(0.9)", arm="offer", reward="revenue")
    assert (found["sure"], found["verdict"], found["reason"]) == (expected.sure, expected.verdict, expected.reason)
    assert found["mixture"] == pytest.approx(expected.mixture, abs=1e-6)
    assert found["interval"] == pytest.approx(expected.interval, rel=1e-6)


def test_the_command_and_the_lines_that_are_taken_away_give_the_same_advice(
    shop: Path, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    from pmbandits.cli.app import app

    again = ask("/look", metric="upper_cvar(0.9)", limits={"arms": {"bundle": [0, 20]}})["again"]
    scope: dict[str, Any] = {}
    exec(again["python"], scope)
    assert scope["advice"].recommendation in capsys.readouterr().out  # the lines also print it
    words = shlex.split(again["command"])
    assert words[:2] == ["pmbandits", "advise"] and words[-2:] == ["--out", "report.html"]
    app([*words[1:-2], "--json"], standalone_mode=False)
    printed = json.loads(capsys.readouterr().out)
    assert printed["mixture"] == pytest.approx(scope["advice"].mixture)
    assert printed["mixture"]["bundle"] == pytest.approx(0.2, abs=1e-6)


def test_what_need_not_be_said_are_the_defaults_of_advise() -> None:
    known = advise.__kwdefaults__
    assert {name: known[name] for name in ADVISE_DEFAULTS} == ADVISE_DEFAULTS


def test_the_report_is_one_file_with_all_preferences_that_were_kept(client: Client) -> None:
    answer = client.post("/report", json={"table": 1, "metrics": ["mean", "gini"]})
    assert answer.headers["content-disposition"] == 'attachment; filename="report.html"'
    assert "from shop.csv" in answer.text and "The spread (Gini)" in answer.text and "<script" not in answer.text


def test_along_the_slider_the_shares_are_those_of_the_single_looks(ask: Ask) -> None:
    found = ask("/way", **{"from": "mean", "to": "upper_cvar(0.9)"})
    middle = ask("/look", metric="0.5*mean + 0.5*upper_cvar(0.9)")
    shares = {arm["name"]: arm["shares"][10] for arm in found["arms"]}
    for arm in middle["arms"]:
        assert shares.get(arm["name"], 0.0) == pytest.approx(100 * arm["share"], abs=1.0)


def test_preferences_side_by_side_say_what_each_loses_by_the_choice_of_another(shop: Path, ask: Ask) -> None:
    found = ask("/compare", rows=[{"metric": "mean"}, {"metric": "upper_cvar(0.9)"}])
    rewards = _rewards(shop)
    best = max(rewards, key=lambda name: rewards[name].mean())
    assert found["rows"][0]["plays"] == best
    assert found["rows"][1]["others"][0] == pytest.approx(pmb.UpperCVaR(0.9).value(rewards[best]), rel=1e-5)
    assert found["rows"][1]["others"][1] == pytest.approx(found["rows"][1]["worth"], rel=1e-6)


# ---- preferences and sliders -----------------------------------------------------------------------------


@pytest.mark.parametrize("entry", all_statements_for_list(), ids=lambda entry: entry["statement"])
def test_every_statement_has_sliders_that_say_the_same_again(entry: dict[str, Any]) -> None:
    assert metric_with_sliders(pmb.metric(entry["text"])) == {
        k: entry[k] for k in ("text", "words", "average", "parts")
    }
    for part in entry["parts"]:
        for slider in part["sliders"]:
            assert slider["min"] <= slider["value"] <= slider["max"] and slider["step"] > 0
            turned = {"plain": lambda v: v, "percent": lambda v: v / 100, "missing": lambda v: 1 - v / 100}[
                slider["turn"]
            ]
            for end in (slider["min"], slider["max"]):  # both ends are allowed
                values = {**part["values"], slider["name"]: turned(end)}
                pmb.metric(part["name"], **values)


def test_every_named_preference_can_be_written_and_read_again() -> None:
    from pmbandits.metrics.registry import FAMILIES

    for cls in FAMILIES:
        assert pmb.metric(metric_text(cls.example())) == cls.example()


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("avoid the worst 5 %", "lower_cvar(0.05)"),
        ("reward spread", "gini_deviation"),
        ("upper_cvar(0.8)", "upper_cvar(0.8)"),
        ("lower CVaR", "lower_cvar(0.1)"),
        ("worst quarter", "lower_cvar(0.25)"),
        ("80 % average and 20 % worst 5 %", "0.8*mean + 0.2*lower_cvar(0.05)"),
        ("half average, half worst 95 %", "0.5*mean + 0.5*lower_cvar(0.95)"),
    ],
)
def test_words_and_formulas_are_understood(ask: Ask, said: str, text: str) -> None:
    assert ask("/wish", said=said)["text"] == text


def test_what_is_not_understood_gets_one_sentence(ask: Ask) -> None:
    unclear = ask("/wish", 400, said="purple elephants, not the median")
    assert unclear["error"].startswith("Cannot tell what") and unclear["nearest"][0] == "the median"
    assert "upper_cvar" in ask("/wish", 400, said="cvarr(0.8)")["error"]
    assert "say what you value" in ask("/wish", 400, said=" ")["error"]
    assert "must be text" in ask("/look", 400, metric=3)["error"]
    assert "not there" in ask("/look", 400, table=99, metric="mean")["error"]


# ---- tables ----------------------------------------------------------------------------------------------


def _drop(client: Client, name: str, content: bytes) -> dict[str, Any]:
    answer = client.post("/drop", params={"name": name}, content=content)
    return {"status": answer.status_code, **answer.json()}


def test_a_table_that_is_dropped_in_is_read_and_can_be_read_otherwise(client: Client) -> None:
    found = _drop(client, "my log.csv", b"who;variant;paid\n1;A;1,5\n2;B;0\n3;A;2,5\n4;B;7\n")
    guess = {
        "arm": "variant",
        "reward": "paid",
        "wide": False,
        "sure": True,
        "arms": ["paid"],
        "decimal": ",",
        "thousands": "",
        "currency": "",
        "loss": False,
    }
    assert found["guess"] == guess
    assert not found["read"]["account"] and found["name"] == "my log.csv"  # the commas were seen
    asked = {"table": found["table"], "arm": "variant", "reward": "paid", "decimal": "."}
    assert "decimal commas" in client.post("/read", json=asked).json()["read"]["account"]
    asked["decimal"] = ","
    read = client.post("/read", json=asked).json()["read"]
    assert [(a["name"], a["n"], a["mean"]) for a in read["arms"]] == [("A", 2, 2.0), ("B", 2, 3.5)]
    lost = client.post("/read", json={**asked, "loss": True}).json()["read"]
    assert [a["mean"] for a in lost["arms"]] == [-2.0, -3.5]
    wrong = client.post("/read", json={**asked, "reward": "nothing"})
    assert wrong.status_code == 400 and "nothing" in wrong.json()["error"]
    outside = {**asked, "range": {"kind": "between", "lo": 0, "hi": 1}}
    assert client.post("/read", json=outside).status_code == 400
    again = client.post("/look", json={"table": found["table"], "metric": "mean"}).json()
    assert "my log.csv" in again["again"]["command"] and "/" not in shlex.split(again["again"]["command"])[2]


def test_bad_files_get_one_sentence_and_leave_nothing_behind(client: Client, tmp_path: Path) -> None:
    for name, content in (
        ("a.exe", b"x"),
        ("empty.csv", b""),
        ("b.parquet", b"not parquet"),
        ("../../etc/passwd", b"x"),
        ("c.csv", b"\xff\xfe\x00arm"),
    ):
        found = _drop(client, name, content)
        assert found["status"] == 400 and len(found["error"]) < 400, name


def test_columns_that_are_arms_can_be_chosen_and_counters_are_not_among_them(client: Client) -> None:
    rows = "".join(f"{week},{week % 3},{week % 5}\n" for week in range(30, 60))
    found = _drop(client, "weeks.csv", f"week,A,B\n{rows}".encode())
    assert found["guess"]["wide"] and found["guess"]["arms"] == ["A", "B"] and found["guess"]["sure"]
    asked = {"table": found["table"], "wide": ["A", "B"]}
    read = client.post("/read", json=asked).json()["read"]
    assert [arm["name"] for arm in read["arms"]] == ["A", "B"]
    again = client.post("/look", json={"table": found["table"], "metric": "mean"}).json()["again"]
    assert "wide=['A', 'B']" in again["python"]
    assert client.post("/read", json={**asked, "wide": 3}).status_code == 400


def test_days_before_months_are_read_as_dates(client: Client) -> None:
    rows = "".join(f"{'AB'[k % 2]};{k % 3},5;{k % 28 + 1:02d}.{k % 12 + 1:02d}.2026\n" for k in range(80))
    found = _drop(client, "german.csv", f"variant;revenue;day\n{rows}".encode())
    asked = {"table": found["table"], "arm": "variant", "reward": "revenue", "decimal": ",", "time": "day"}
    answer = client.post("/read", json=asked)
    assert answer.status_code == 200 and answer.json()["read"]["used"] == 80, answer.text


def test_sentences_name_the_file_as_its_owner_does(client: Client) -> None:
    assert "'my holiday.pdf'" in _drop(client, "my holiday.pdf", b"%PDF")["error"]
    found = _drop(client, "words.csv", b"a,b\nx,y\nz,w\n")
    assert found["read"] is None and "words.csv" in found["why"]


def test_a_table_that_was_dropped_in_can_be_fetched_again_and_the_page_can_be_loaded_again(client: Client) -> None:
    raw = b"arm,reward\na,1\nb,2\nb,3\na,2\n"
    found = _drop(client, "my ä.csv", raw)
    answer = client.get(f"/table?table={found['table']}")
    assert answer.content == raw and "attachment" in answer.headers["content-disposition"]
    assert client.get("/table?table=1").status_code == 400  # a file of the command line stays where it is
    assert client.get(f"/start?table={found['table']}").json()["first"]["name"] == found["name"]
    assert client.get("/start?table=999").json()["first"]["name"] == "shop.csv"


def test_markup_in_names_stays_text(client: Client) -> None:
    found = _drop(client, "x.csv", b"arm,reward\n<img src=x onerror=alert(1)>,1\nb,2\nb,3\n")
    assert found["read"]["arms"][0]["name"] == "<img src=x onerror=alert(1)>"


# ---- the helper process ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_newer_question_replaces_one_that_waits(studio: Studio) -> None:
    table = studio.tables[1]
    question = {"metrics": ["gini"], "shares": None, "level": 0.95, "loss": False, "repeat": "", "source": "x"}
    question |= {"matters": 0.0, "by": None, "segment": None}
    helper, ends = VerdictWorker(), []

    def ask() -> None:
        try:
            ends.append(helper.ask(table.problem, question)["advice"][0]["sure"])
        except Superseded:
            ends.append("stale")

    with helper._busy:  # somebody else is being answered
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert sorted(ends, key=lambda end: end == "stale")[1:] == ["stale", "stale"]
    helper.ask(table.problem, question)
    with pytest.raises(ValueError, match="nosuch"):
        helper.ask(table.problem, {**question, "metrics": ["nosuch"]})
    helper._process.kill()  # type: ignore[union-attr]
    helper._process.join()  # type: ignore[union-attr]
    assert helper.ask(table.problem, question)["advice"]  # and a new one is started
    helper.end_process()


def test_after_sigterm_no_table_is_left_behind(tmp_path: Path) -> None:
    code = (
        "import shutil, tempfile\nfrom pathlib import Path\nfrom pmbandits.pages.studio import app, table\n"
        "app.VerdictWorker.start = lambda self: None\n"
        "studio = app.Studio()\npath, file = table.create_upload_file('table.csv')\n"
        "file.write(b'arm,reward\\na,1\\nb,2\\n'), file.close()\n"
        "studio.add(table.Table(path, 'table.csv', is_upload=True))\napp.Studio = lambda path: studio\n"
        "app.serve_studio(None, port=0, show=lambda address: print(address, flush=True), browse=False)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        for _ in range(200):  # until it listens with handlers of its own
            try:
                urllib.request.urlopen(address, timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        assert list(tmp_path.iterdir())
        process.terminate()
        process.wait(30)
    assert not list(tmp_path.iterdir())
