"""The commands as people type them: one serves and prints a key, one is a client; killed, nothing is lost."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.service.replaying import replayed, rows_of

pytestmark = pytest.mark.slow


def started(store: str, port: int, log: Path, *more: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "pmbandits", "serve", "--store", store, "--port", str(port), *more]
    with log.open("ab") as out:
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
    until = time.monotonic() + 300
    while True:
        assert process.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).close()
            return process
        except OSError:
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.2)


def test_the_two_commands_of_the_readme(tmp_path: Path) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    store, log = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "log"
    first = started(store, port, log, "--example")
    try:
        key = re.search(r"^key +(pmb_\S+)$", log.read_text(), re.MULTILINE)
        address = re.search(r"^address +(\S+)$", log.read_text(), re.MULTILINE)
        assert key is not None and address is not None
        words = [sys.executable, "-m", "pmbandits", "visit", address[1], "--key", key[1], "--rounds", "60"]
        shown = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True).stdout
        assert "After 60 asks and tells" in shown
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        again = started(store, port, log, "--processes", "2")
        subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
        again.send_signal(signal.SIGTERM)
        assert again.wait(60) is not None
    finally:
        first.kill()
    spec, rows = rows_of(store, "example")
    assert len(rows) == 2 * 2 * 60
    assert replayed(spec, rows).t == 120
    assert key[1].split("_")[2] not in log.read_text().replace(key[1], "", 1), "the secret is shown once"
