"""The studio in a real browser: the main paths, without complaints, for everybody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pages import browser as web

web.require()

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with web.served("studio", "--no-browser") as found:
        yield found


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with web.browser() as found:
        yield found


def _ready(opened: Any, address: str, **more: Any) -> web.Watched:
    watched = web.Watched(opened, address, **more)
    watched.page.wait_for_selector("body[data-ready]")
    return watched


def _expect(locator: Any) -> Any:
    from playwright.sync_api import expect

    return expect(locator)


def _settled(page: Any) -> None:
    page.wait_for_selector("#badge:not(.wait)", timeout=60_000)


def test_from_an_example_to_a_verdict_and_a_report(opened: Any, address: str, tmp_path: Path) -> None:
    watched = _ready(opened, address)
    page = watched.page
    page.get_by_role("button", name="shop").click()
    _settled(page)
    _expect(page.locator("#gives")).to_contain_text("ten off")  # it begins with the plain average
    _expect(page.locator("#badge")).to_have_text(re.compile("settled|cannot tell"))  # beside the headline
    page.get_by_label("or choose a statement").select_option("good average, with an eye on the best 10 %")
    _expect(page.locator("#formula")).to_have_value(re.compile(r"mean \+ .*upper_cvar"))
    _settled(page)
    before = page.inner_text("#gives")
    slider = page.get_by_label("how much it counts beside the plain average")
    slider.focus()
    page.keyboard.press("Home")  # only the average
    _expect(page.locator("#formula")).to_have_value("mean")
    _expect(page.locator("#command")).not_to_contain_text("upper_cvar")  # the badge may wait for a moment only
    _settled(page)
    page.get_by_role("button", name="Keep this preference").click()
    page.keyboard.press("Tab")
    slider.focus()
    page.keyboard.press("End")
    _expect(page.locator("#formula")).to_have_value("upper_cvar(0.9)")
    _expect(page.locator("#command")).to_contain_text("upper_cvar(0.9)")
    page.get_by_role("button", name="Keep this preference").click()
    page.wait_for_selector("#compared tbody tr:nth-child(2)")
    _settled(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the report").click()
    download.value.save_as(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "from shop.csv" in text and "best 10 %" in text
    assert before != page.inner_text("#gives")
    watched.accessible()
    watched.check()
    page.evaluate("document.getElementById('main').append(document.createElement('input'))")
    with pytest.raises(AssertionError, match="label"):  # so that we know that somebody looks
        watched.accessible()
    watched.close()


@pytest.mark.slow
def test_names_are_shown_as_text_and_mistakes_as_sentences(opened: Any, address: str, tmp_path: Path) -> None:
    watched = _ready(opened, address, size=web.PHONE, dark=True)
    page = watched.page
    file = tmp_path / "log.csv"
    file.write_text(
        "arm,reward\n" + "".join(f"<img src=x onerror=alert(1)>,{k % 3}\n<b>b</b>,{k % 2}\n" for k in range(40))
    )
    page.set_input_files("#pick", str(file))
    page.wait_for_selector("#answer[data-count]")
    assert page.locator("main img, #arms b b").count() == 0
    assert "<img src=x onerror=alert(1)>" in page.inner_text("#arms")
    page.get_by_label("Say it in your words").fill("purple elephants")
    page.get_by_role("button", name="Take it").first.click()
    page.wait_for_selector("#said-wrong:not([hidden])")
    assert "Cannot tell" in page.inner_text("#said-wrong")
    page.get_by_label("Say it in your words").fill("avoid the worst 80 %")
    page.keyboard.press("Enter")
    _expect(page.locator("#formula")).to_have_value("lower_cvar(0.8)")
    assert page.evaluate("document.documentElement.scrollWidth") <= web.PHONE["width"]
    _settled(page)
    watched.accessible()
    watched.complaints = [said for said in watched.complaints if "400" not in said]  # the sentence above
    watched.check()
    watched.close()


@pytest.mark.slow
def test_another_page_cannot_read_or_ask(opened: Any, address: str) -> None:
    page = opened.new_page()
    page.goto("data:text/html,<p>elsewhere</p>")
    reached = page.evaluate(
        """async (address) => { try {
        const answer = await fetch(address + 'wish', {method: 'POST', mode: 'no-cors', body: '{}'});
        return answer.type; } catch (error) { return 'refused'; } }""",
        address,
    )
    assert reached in ("opaque", "refused")  # what comes back is hidden from it, and was a refusal
    framed = page.evaluate(
        """(address) => new Promise((done) => { const frame = document.createElement('iframe'); frame.src = address;
        frame.onload = () => { try { done(frame.contentDocument ? 'read' : 'hidden'); } catch { done('hidden'); } };
        document.body.append(frame); setTimeout(() => done('hidden'), 3000); })""",
        address,
    )
    assert framed == "hidden"
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [web.DESKTOP, web.PHONE], ids=["desktop", "phone"])
def test_limits_and_all_parts_are_accessible_in_every_look(opened: Any, address: str, size: Any, dark: bool) -> None:
    watched = _ready(opened, address, size=size, dark=dark)
    page = watched.page
    watched.accessible()
    page.get_by_role("button", name="savings").click()
    _settled(page)
    for summary in page.query_selector_all("summary"):
        if summary.is_visible():
            summary.click()
    least = page.locator("#least-0")
    least.focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    _expect(page.locator("#limits-cost")).to_contain_text("The limits cost")
    page.locator("#chart-above .plot").focus()
    page.keyboard.press("ArrowRight")
    assert "reward x" in page.text_content("#chart-above [aria-live]")
    page.get_by_role("button", name="colours").click()
    _settled(page)
    watched.accessible()
    watched.check()
    watched.close()


@pytest.mark.slow
def test_who_speaks_of_weeks_gets_weeks_and_finds_all_of_it_again_after_a_reload(
    opened: Any, address: str, tmp_path: Path
) -> None:
    watched = _ready(opened, address)
    page = watched.page
    page.get_by_role("button", name="shop").click()
    page.wait_for_selector("#answer[data-count]")
    page.get_by_label("Say it in your words").fill("bad weeks are not too bad")
    page.keyboard.press("Enter")
    _expect(page.locator("#sentence")).to_have_text("This preference cannot tell the 4 arms apart.")
    assert page.locator("#big-bar").is_hidden() and "any" in page.inner_text("#arms")
    watched.accessible()
    page.locator("#said-period button").click()
    _expect(page.locator("#per")).to_have_value("week")
    _expect(page.locator("#big-bar")).to_be_visible()
    _expect(page.locator("#command")).to_contain_text("--per week")
    _settled(page)
    page.locator("#part-0-alpha").focus()
    page.keyboard.press("ArrowRight")
    _expect(page.locator("#does")).to_have_text("You value the average of the worst 11 %.")
    assert page.locator("#said").input_value() == ""
    assert page.evaluate("document.querySelector('#statement').selectedOptions[0].textContent").endswith("worst 11 %")
    page.get_by_role("button", name="Keep this preference").click()
    page.wait_for_selector("#compared tbody tr")
    _settled(page)
    before = [page.inner_text(at) for at in ("#sentence", "#gives", "#file", "#does")]
    page.reload()
    page.wait_for_selector("#compared tbody tr")
    _expect(page.locator("#gives")).to_have_text(before[1])
    assert [page.inner_text(at) for at in ("#sentence", "#gives", "#file", "#does")] == before
    assert page.locator("#per").input_value() == "week"
    page.locator("#compare").scroll_into_view_if_needed()  # the headline stays in sight
    _expect(page.locator("#dock-said")).to_be_visible()
    watched.check()
    watched.close()


@pytest.mark.slow
def test_an_old_answer_is_never_shown_for_a_new_table(opened: Any, address: str, tmp_path: Path) -> None:
    watched = _ready(opened, address)
    page = watched.page
    page.get_by_role("button", name="savings").click()
    page.wait_for_selector("#answer[data-count]")
    file = tmp_path / "weeks.csv"
    file.write_text("week,A,B\n" + "".join(f"{week},{week % 3},{week % 5}\n" for week in range(30, 60)))
    page.set_input_files("#pick", str(file))
    _expect(page.locator("#file")).to_have_text("weeks.csv")
    assert page.locator("#result").is_hidden() and page.inner_text("#account") == ""
    assert page.locator("#wide-list input:checked").count() == 2  # the number of the week is no arm
    page.locator("#decimal").select_option(",")
    page.locator("#thousands").select_option(",")
    page.get_by_role("button", name="Read it like this").click()
    page.wait_for_selector("#read-wrong:not([hidden])")  # beside the button
    page.locator("#thousands").select_option("")
    page.locator("#decimal").select_option(".")
    page.get_by_role("button", name="Read it like this").click()
    _settled(page)
    before = page.inner_text("#sentence")
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    page.set_input_files("#pick", str(tmp_path / "a.pdf"))
    page.wait_for_selector("#table-wrong:not([hidden])")
    assert "'a.pdf'" in page.inner_text("#table-wrong") and "weeks.csv" in page.inner_text("#file")
    assert page.inner_text("#sentence") == before  # the table from before is still there
    watched.complaints = [said for said in watched.complaints if "400" not in said]
    watched.check()
    watched.close()
