"""A real browser for tests: Debian's chromium, driven by playwright. Without one the tests are skipped, and say so."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def require() -> None:
    """Skip, with a line that says so, where there is no browser."""
    pytest.importorskip("starlette", reason="the extra 'service' is not installed: no pages to look at")
    pytest.importorskip("playwright", reason="playwright is not installed: pages are not tested in a browser")
    if CHROMIUM is None:
        pytest.skip("no chromium was found, and none could be installed: pages are not tested in a browser")


@contextmanager
def browser() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def served(*words: str) -> Iterator[str]:
    """A command that serves pages, as a user starts it; gives its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pmbandits", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, f"{line!r}: {process.stderr.read()}"
        yield found[0]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
        process.stderr.close()


class Watched:
    """A page of which every complaint is kept."""

    def __init__(
        self, opened: Any, address: str, *, size: Any = None, dark: bool = False, key: str | None = None
    ) -> None:
        size = size or DESKTOP
        self.context = opened.new_context(
            viewport=size,
            color_scheme="dark" if dark else "light",
            accept_downloads=True,
            reduced_motion="reduce",
        )
        if key is not None:  # as the login page does it
            self.context.add_cookies([{"name": "pmbandits_key", "value": key, "url": address}])
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.address = address

    def check(self) -> None:
        """Nothing was complained of, and nobody else was asked."""
        assert not self.complaints, self.complaints
        base = self.address.split("/", 3)
        assert all(url.startswith(("/".join(base[:3]), "blob:", "data:")) for url in self.asked), self.asked

    def accessible(self) -> None:
        """axe finds nothing that keeps people out. It is put in from outside, past the page's own policy."""
        axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
        found = axe.Axe().run(self.page).response["violations"]
        said = [f"{v['id']}: {v['help']} ({v['nodes'][0]['html'][:120]})" for v in found]
        assert not said, said

    def close(self) -> None:
        """Leave."""
        with suppress(Exception):
            self.context.close()
