"""Films of screenshots: three stories in a real browser, one picture after the other.

    python -m tools.films [FOLDER] [analyst|team|student ...]

It needs chromium and playwright, and the extra ``service``. The pictures of the documentation are among them:
``python -m tools.films --docs`` writes those to docs/_static.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STORIES = ("analyst", "student", "team")
SIZE = {"width": 1180, "height": 860}


@contextmanager
def served(*words: str) -> Iterator[str]:
    """A command that serves pages; gives its address."""
    process = subprocess.Popen([sys.executable, "-m", "pmbandits", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        if found is None:
            raise SystemExit(f"pmbandits {words[0]} did not start")
        yield found[0]
    finally:
        process.terminate()
        process.wait()


class Film:
    """Pictures with numbers, in a folder of their own."""

    def __init__(self, folder: Path, name: str, browser: Any, **more: Any) -> None:
        self.folder = folder / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.page = browser.new_context(viewport=SIZE, accept_downloads=True, **more).new_page()
        self.count = 0
        self.words: list[str] = []

    def take(self, said: str, *, focus: str | None = None) -> None:
        """A picture, and what happens in it."""
        if focus is None:
            self.page.evaluate("scrollTo(0, 0)")
        else:
            self.page.locator(focus).evaluate("element => element.scrollIntoView({block: 'center'})")
        self.page.wait_for_timeout(400)
        self.count += 1
        self.page.screenshot(path=self.folder / f"{self.count:02}.png")
        self.words.append(f"{self.count:02}. {said}")
        (self.folder / "story.txt").write_text("\n".join(self.words) + "\n", encoding="utf-8")
        print(f"{self.folder.name} {self.words[-1]}")


def analyst(folder: Path, browser: Any) -> None:
    """An analyst drops in a log of revenue, most of it zero, and leaves with a report."""
    from pmbandits.pages.studio.examples import write_example_csv

    table = write_example_csv("shop", Path(tempfile.mkdtemp()))
    with served("studio", "--no-browser") as address:
        film = Film(folder, "analyst", browser)
        page = film.page
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        film.take("The studio is open. It waits for a table.")
        page.set_input_files("#pick", str(table))
        page.wait_for_selector("#answer[data-count]")
        film.take("The log is dropped in. The quick numbers are there at once; the verdict is being worked out.")
        page.wait_for_selector("#verdict .badge:not(.wait)", timeout=60_000)
        film.take("The careful verdict on the plain average has come.")
        page.locator("#said").fill("bad weeks are not too bad")
        page.keyboard.press("Enter")
        page.wait_for_selector("#offers button")
        film.take("The analyst says in words what counts. That says nothing of single visits: most buy nothing.")
        page.locator("#said-period button").click()
        page.wait_for_timeout(800)
        page.wait_for_selector("#verdict .badge:not(.wait)", timeout=60_000)
        film.take("A week is one reward now, and the question has an answer.")
        page.locator("#per").select_option("")
        page.locator("#said").fill("go for the best 10 %")
        page.keyboard.press("Enter")
        page.wait_for_timeout(800)
        page.wait_for_selector("#verdict .badge:not(.wait)", timeout=60_000)
        film.take("Another wish, on single visits: a mixture is best, and it is said why.")
        page.locator("#columns-said").click()
        page.locator("#range").select_option("between")
        page.locator("#range-lo").fill("0")
        page.locator("#range-hi").fill("300")
        film.take("No order can be above 300, so that is declared.", focus="#range")
        page.get_by_role("button", name="Read it like this").click()
        page.wait_for_timeout(800)
        page.wait_for_selector("#verdict .badge:not(.wait)", timeout=60_000)
        page.locator("#limits-details > summary").click()
        page.locator("#most-0").fill("50")
        page.wait_for_timeout(800)
        page.wait_for_selector("#verdict .badge:not(.wait)", timeout=60_000)
        film.take("A limit is tried: one offer at most half of the time. Its cost is said.", focus="#limits-cost")
        page.get_by_role("button", name="Remove all limits").click()
        page.get_by_role("button", name="Keep this preference").click()
        page.locator("#statement").select_option(label="just the average")
        page.wait_for_timeout(600)
        page.get_by_role("button", name="Keep this preference").click()
        page.wait_for_selector("#compared tbody tr:nth-child(2)")
        film.take("Two preferences side by side, with what each loses by the choice of the other.", focus="#compare")
        with page.expect_download(timeout=60_000) as download:
            page.get_by_role("button", name="Download the report").click()
        report = film.folder / "report.html"
        download.value.save_as(report)
        film.take("The report is taken away, with the command and the lines of Python.", focus="#take")
        page.goto(report.resolve().as_uri())
        film.take("The report.")


def student(folder: Path, browser: Any) -> None:
    """A student moves from the average to the worst cases, and watches what is played move."""
    with served("studio", "--no-browser") as address:
        film = Film(folder, "student", browser, color_scheme="dark")
        page = film.page
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        page.get_by_role("button", name="savings").click()
        page.wait_for_selector("#answer[data-count]")
        page.locator("#statement").select_option(label="avoid the worst 10 %")
        slider = page.locator("#average")
        for share, said in (
            (0, "Only the average counts: start-ups alone."),
            (20, "The worst tenth counts for a fifth."),
            (35, "A little more caution: shares instead of start-ups."),
            (55, "Bonds."),
            (100, "Only the worst tenth counts: the deposit."),
        ):
            slider.fill(str(share))
            page.wait_for_timeout(900)
            page.wait_for_selector("#verdict .badge:not(.wait)", timeout=60_000)
            film.take(said)
        film.take("Along the slider: where the choice changes.", focus="#chart-way")
        page.locator("#limits-details > summary").click()
        page.locator("#most-0").fill("60")
        page.wait_for_timeout(900)
        page.wait_for_selector("#verdict .badge:not(.wait)", timeout=60_000)
        film.take("With at most 60 % in the deposit it is a mixture, and the limit has a price.")
        film.take("And along the slider it is one as well.", focus="#chart-way")


def team(folder: Path, browser: Any) -> None:
    """A team watches a live experiment, is warned that an arm has changed, and pauses it."""
    from pmbandits.service import keys
    from pmbandits.service.store import Store

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    url = f"sqlite:///{Path(tempfile.mkdtemp()) / 'store.db'}"
    store = Store(url)
    admin = keys.create_key_in_store(store, ["admin"], None, "the team", "films")
    store.close()
    process = subprocess.Popen([sys.executable, "-m", "pmbandits", "serve", "--port", str(port), "--store", url])
    try:
        _team(folder, browser, f"http://127.0.0.1:{port}", admin)
    finally:
        process.terminate()
        process.wait()


def _team(folder: Path, browser: Any, address: str, admin: str) -> None:
    def call(path: str, body: Any) -> Any:
        headers = {"authorization": f"Bearer {admin}", "content-type": "application/json"}
        request = urllib.request.Request(f"{address}/v1/experiments{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.loads(answer.read())

    for _ in range(1200):
        try:
            urllib.request.urlopen(f"{address}/ready", timeout=5).close()
            break
        except (OSError, urllib.error.URLError):
            time.sleep(0.5)
    spec = {"metric": "0.7*mean + 0.3*upper_cvar(0.9)", "arms": ["no offer", "ten off", "bundle"], "policy": "vet"}
    call("", {"name": "shop", **spec, "support": {"kind": "interval", "lo": 0, "hi": 1}})
    rng = random.Random(1)

    def reward(arm: str, broken: bool) -> float:
        if arm == "bundle":
            return 0.9 + 0.1 * rng.random() if rng.random() < (0.03 if broken else 0.25) else 0.0
        low, chance = (0.3, 0.7) if arm == "ten off" else (0.2, 0.8)
        return low + 0.2 * rng.random() if rng.random() < chance else 0.0

    def play(rounds: int, broken: bool = False) -> None:
        for _ in range(rounds // 20):
            asked = call("/shop/ask", {"n": 20})
            rewards = [reward(arm, broken) for arm in asked["arms"]]
            call("/shop/tell", {"tickets": asked["tickets"], "rewards": rewards})

    play(400)
    film = Film(folder, "team", browser, http_credentials={"username": "team", "password": admin})
    page = film.page
    page.goto(f"{address}/board/")
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    film.take("All experiments at a glance.")
    page.get_by_role("link", name="shop").click()
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    for _ in range(5):
        play(300)
        page.wait_for_timeout(2500)
    film.take("One experiment, live: what is wanted, how sure that is, and the arms.")
    film.take("Shares over time, and what the mixture is worth.", focus="#chart-shares")
    for _ in range(4):
        play(300, broken=True)
        page.wait_for_timeout(2500)
    page.wait_for_selector(".warning", timeout=30_000)
    film.take("An arm has changed: the board warns.")
    film.take("The moment of the change is marked in the charts.", focus="#chart-shares")
    pause = page.locator("#warnings button").first
    if pause.count():
        pause.click()
        page.wait_for_timeout(2500)
        film.take("The confirmation says what will happen.")
        page.get_by_label("An admin key").fill(admin)
        page.get_by_role("button", name="Do it").click()
        page.wait_for_timeout(1500)
        play(300, broken=True)
        page.wait_for_timeout(4000)
        film.take("The arm pauses, and the others share its place.")
    film.take("The last decisions, with reasons.", focus="#decisions-card")


def main(words: list[str]) -> None:
    """Make films, or the pictures of the documentation."""
    from playwright.sync_api import sync_playwright

    docs = "--docs" in words
    words = [word for word in words if word != "--docs"]
    folder = Path(words.pop(0)) if words and words[0] not in STORIES else Path("out/films")
    chosen = words or list(STORIES)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name in chosen:
            {"analyst": analyst, "student": student, "team": team}[name](folder, browser)
        browser.close()
    if docs:
        pictures = {"studio.png": "analyst/06.png", "studio-way.png": "student/06.png", "board.png": "team/04.png"}
        static = Path(__file__).parent.parent / "docs" / "_static"
        for target, source in pictures.items():
            if (folder / source).is_file():
                shutil.copy(folder / source, static / target)


if __name__ == "__main__":
    main(sys.argv[1:])
