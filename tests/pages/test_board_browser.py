"""The board in a real browser: of a simulation, and of a live experiment that is paused by somebody with a key."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pmbandits as pmb
from tests.pages import browser as web

web.require()

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with web.browser() as found:
        yield found


def _ready(opened: Any, address: str, **more: Any) -> web.Watched:
    watched = web.Watched(opened, address, **more)
    watched.page.wait_for_selector("body[data-ready]", timeout=30_000)
    return watched


def _expect(locator: Any) -> Any:
    from playwright.sync_api import expect

    return expect(locator)


def test_a_simulation_is_shown_and_moves_while_it_is_played(opened: Any, tmp_path: Path) -> None:
    bandit = pmb.Bandit.bernoulli([0.4, 0.9], names=["<b>one</b>", "two"])
    folder = tmp_path / "run"

    def play(trials: int) -> None:
        pmb.simulate("gini", bandit, ["track", "uniform"], horizon=300, trials=trials, out=folder, n_jobs=1)

    play(2)
    with web.served("board", str(folder), "--no-browser") as address:
        watched = _ready(opened, address)
        page = watched.page
        _expect(page.locator("#live")).to_have_text("4 of 4 trials finished")
        assert "<b>one</b>" in page.inner_text("#arms")
        play(5)  # more trials are asked for
        _expect(page.locator("#live")).to_have_text("10 of 10 trials finished", timeout=15_000)
        page.get_by_label("Policy").select_option("Uniform")
        _expect(page.locator("#sentence")).to_have_text("Wants 50 % <b>one</b> + 50 % two")
        page.locator("#chart-shares summary").click()
        _expect(page.locator("#chart-shares tbody tr").nth(5)).to_be_attached()  # the numbers come a moment later
        watched.accessible()
        watched.check()
        watched.close()


def _free() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class _Api:
    def __init__(self, address: str, key: str) -> None:
        self.address, self.key = address, key

    def __call__(self, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}/v1/experiments/{path}", data, headers)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.loads(answer.read())

    def play(self, rounds: int) -> None:
        for _ in range(rounds // 20):
            asked = self("example/ask", {"n": 20})
            rewards = [{"A": 0.2, "B": 0.5, "C": 0.9}[arm] for arm in asked["arms"]]
            self("example/tell", {"tickets": asked["tickets"], "rewards": rewards})


@pytest.mark.slow
@pytest.mark.parametrize(("size", "dark"), [(web.DESKTOP, False), (web.PHONE, True)], ids=["desktop", "dark phone"])
def test_a_live_experiment_is_watched_and_paused_with_an_admin_key(
    opened: Any, tmp_path: Path, size: Any, dark: bool
) -> None:
    pytest.importorskip("fastapi")
    from pmbandits.service import keys
    from pmbandits.service.store import Store

    store = f"sqlite:///{tmp_path / 'store.db'}"
    with web.served("serve", "--example", "--port", str(_free()), "--store", store) as address:
        address = address.rstrip("/")
        opening = Store(store)
        admin, reader = (keys.create_key_in_store(opening, [scope], None, "", "test") for scope in ("admin", "read"))
        opening.close()
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{address}/ready", timeout=5).close()
                break
            except OSError:
                time.sleep(0.5)
        api = _Api(address, admin)
        api.play(200)
        watched = _ready(opened, f"{address}/board/", size=size, dark=dark, key=reader)
        page = watched.page
        watched.accessible()
        page.get_by_role("link", name="example").click()
        page.wait_for_selector("body[data-ready]", timeout=30_000)
        _expect(page.locator("#facts")).to_contain_text("200")
        api.play(100)
        _expect(page.locator("#facts")).to_contain_text("300", timeout=20_000)  # it moved by itself
        _expect(page.get_by_role("button", name="Pause the experiment")).to_be_hidden()  # this key may only read
        _expect(page.get_by_role("link", name="Log out")).to_be_visible()
        watched.check()
        watched.close()
        watched = _ready(opened, f"{address}/board/", size=size, dark=dark, key=admin)
        page = watched.page
        page.get_by_role("link", name="example").click()
        page.wait_for_selector("body[data-ready]", timeout=30_000)
        _expect(page.locator("#facts")).to_contain_text("300")
        page.get_by_role("button", name="Pause the experiment").click()
        _expect(page.locator("#confirm-body")).to_contain_text("every ask is refused")
        watched.accessible()
        page.get_by_label("An admin key").fill(reader)
        page.get_by_role("button", name="Do it").click()
        _expect(page.locator("#confirm-wrong")).to_contain_text("this key is not for")
        page.get_by_label("An admin key").fill(admin)
        page.get_by_role("button", name="Do it").click()
        _expect(page.locator("#status")).to_have_text("paused")
        _expect(page.locator("#marks")).to_contain_text("the experiment is paused")
        watched.accessible()
        watched.complaints = [said for said in watched.complaints if "403" not in said]  # the refusal above
        watched.check()
        watched.close()
