"""The files of the page "Run the service in production" are checked by the programs that read them, where there are."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.service.replaying import replayed, rows_of, same
from tests.service.serving import SHOP, serving

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "production.md"


def block(language: str, place: int = 0) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)[place]


def tried(*words: str | Path, **given: str) -> str:
    """What a program says of a file; without the program, the test is skipped."""
    program = os.environ.get(f"PMBANDITS_{str(words[0]).upper().replace('-', '_')}") or shutil.which(str(words[0]))
    if program is None:
        pytest.skip(f"there is no {words[0]} here")
    done = subprocess.run(
        [program, *words[1:]], capture_output=True, text=True, timeout=60, env={**os.environ, **given}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_unit_file(tmp_path: Path) -> None:
    unit = tmp_path / "pmbandits.service"
    unit.write_text(block("ini").replace("/opt/pmbandits/bin/pmbandits", sys.executable))
    assert "pmbandits.service" not in tried("systemd-analyze", "verify", unit)


def test_the_file_of_caddy(tmp_path: Path) -> None:
    (tmp_path / "Caddyfile").write_text(block("text"))
    tried("caddy", "validate", "--adapter", "caddyfile", "--config", tmp_path / "Caddyfile", HOME=str(tmp_path))


def test_the_file_of_nginx(tmp_path: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=shop.example.com",
         "-keyout", tmp_path / "privkey.pem", "-out", tmp_path / "fullchain.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    server = block("nginx").replace("/etc/letsencrypt/live/shop.example.com", str(tmp_path)).replace("443", "18443")
    whole = tmp_path / "nginx.conf"
    folders = " ".join(f"{kind}_temp_path {tmp_path};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    whole.write_text(f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {folders} {server} }}")
    tried("nginx", "-t", "-p", tmp_path, "-c", whole)


def test_the_rules_of_alerts(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text(block("yaml").replace("/etc/prometheus", str(tmp_path)))
    (tmp_path / "pmbandits.key").write_text("pmb_0_0")
    (tmp_path / "rules.yml").write_text(block("yaml", 1))
    (tmp_path / "test.yml").write_text("""
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'pmbandits_experiment_changes{experiment="shop",arm="A"}', values: '0x10 1x100'}
      - {series: 'pmbandits_experiment_changes{experiment="shop",arm="B"}', values: '1x20 _x5 1x90'}
    alert_rule_test:
      - {eval_time: 5m, alertname: ArmChanged, exp_alerts: []}
      - eval_time: 12m
        alertname: ArmChanged
        exp_alerts:
          - exp_labels: {experiment: shop, arm: A}
            exp_annotations: {summary: "shop: the rewards of A have changed"}
      - {eval_time: 100m, alertname: ArmChanged, exp_alerts: []}
""")
    tried("promtool", "check", "config", tmp_path / "prometheus.yml")
    assert "4 rules found" in tried("promtool", "check", "rules", tmp_path / "rules.yml")
    assert "SUCCESS" in tried("promtool", "test", "rules", tmp_path / "test.yml")


def test_a_service_goes_on_from_a_backup_that_was_made_under_load(tmp_path: Path) -> None:
    """The command of the page; where it is missing, the same function of SQLite."""
    store, copy = tmp_path / "experiments.db", tmp_path / "copy.db"
    words = re.search(r"^sqlite3 (\S+) \"(\.backup '\S+')\"$", PAGE.read_text(encoding="utf-8"), re.M)
    assert words is not None
    with serving(store) as served:
        served.post("", SHOP)
        stop = threading.Event()

        def play() -> None:
            while not stop.is_set():
                asked = served.post("/shop/ask", {"n": 20})
                served.post("/shop/tell", {"tickets": asked["tickets"], "rewards": [1, 0] * 10})

        player = threading.Thread(target=play)
        player.start()
        while served.get("/shop")["events"] < 200:
            pass
        if shutil.which("sqlite3"):
            act = words[2].replace("/backup/experiments.db", str(copy))
            subprocess.run(["sqlite3", "-cmd", ".timeout 20000", store, act], check=True, timeout=60)
        else:
            with sqlite3.connect(store) as source, sqlite3.connect(copy) as target:
                source.backup(target)
        stop.set()
        player.join()
        every = rows_of(f"sqlite:///{store}", "shop")[1]
    spec, rows = rows_of(f"sqlite:///{copy}", "shop")
    assert 200 <= len(rows) <= len(every) and rows == every[: len(rows)]
    with serving(copy) as served:
        same(served.service.experiment_cache.live_experiments["shop"].replay.policy, replayed(spec, rows))
        assert served.post("/shop/ask")["ticket"] == len(rows) + 1
