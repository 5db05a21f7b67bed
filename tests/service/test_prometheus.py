"""Numbers for Prometheus: of one process, and of several that count in files which they share."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pmbandits import __version__
from pmbandits.service import prometheus, run
from pmbandits.service.prometheus import FOLDER_VARIABLE
from pmbandits.service.settings import Settings
from tests.service.serving import SHOP, serving


def numbers(text: str, name: str) -> dict[str, float]:
    """Samples of a metric, by their labels."""
    return {labels: float(n) for labels, n in re.findall(rf"^{name}\{{?(.*?)\}}? (\S+)$", text, re.MULTILINE)}


def test_what_one_process_counts(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        served.post("/shop/ask", {"n": 5})
        assert served.refused("/shop/tell", {"ticket": 99, "reward": 1})[0] == 404
        found = served.send("GET", "/metrics")
    text = found.text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert found.headers["content-type"] == prometheus.CONTENT_TYPE
    assert all(family.documentation for family in families.values()), "each says what it is"
    counters = {name for name, family in families.items() if family.type == "counter"}
    assert counters == {
        f"pmbandits_{name}"
        for name in ("requests", "turns", "events", "failures", "experiment_events", "experiment_arrivals")
    }
    assert numbers(text, "pmbandits_requests_total")['route="tell",status="404"'] == 1
    assert numbers(text, "pmbandits_events_total") == {"": 5} and numbers(text, "pmbandits_failures_total") == {"": 0}
    assert numbers(text, "pmbandits_experiment_events_total") == {'experiment="shop"': 5}
    assert numbers(text, "pmbandits_store_seconds_count") == {'step="begin"': 2, 'step="commit"': 2}
    assert numbers(text, "pmbandits_waiting_requests") == {"": 0}
    (memory,) = numbers(text, "pmbandits_memory_bytes").values()
    assert 1e7 < memory < 1e11
    (build,) = numbers(text, "pmbandits_build_info")
    assert f'version="{__version__}"' in build
    assert not any(name.endswith("_created") for name in families)


_COUNT = """
import sys
from pmbandits.service.prometheus import ServiceMetrics
metrics = ServiceMetrics()
metrics.count_request("ask", 200, 0.003)
metrics.hand_on_counts(waiting=3)
print(metrics.prometheus_text({}).decode() if sys.argv[1] == "show" else "")
"""


def test_any_process_tells_what_all_counted_and_the_dead_are_forgotten(tmp_path: Path) -> None:
    environment = {**os.environ, prometheus.FOLDER_VARIABLE: str(tmp_path)}

    def count(do: str) -> str:
        command = [sys.executable, "-c", _COUNT, do]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    count("count")
    count("count")
    (first, second) = sorted(tmp_path.glob("gauge_livesum_*.db"))
    prometheus.drop_gauges_of_process(str(tmp_path), int(first.stem.rpartition("_")[2]))
    assert not first.exists() and second.exists()
    text = count("show")
    assert numbers(text, "pmbandits_requests_total") == {'route="ask",status="200"': 3}, "counters never go back"
    assert numbers(text, "pmbandits_request_seconds_bucket")['le="0.005",route="ask"'] == 3
    assert numbers(text, "pmbandits_waiting_requests") == {"": 6}, "of the two that live"
    assert len(numbers(text, "pmbandits_memory_bytes")) == 2


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="this system has no files in memory")
def test_processes_count_in_memory_whatever_the_disk_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[str] = []

    class Nobody:
        def __init__(self, config: Any, sockets: list[Any], counters: str) -> None:
            folders.append(counters)
            sockets[0].close()

        def run(self) -> None:
            assert os.environ[FOLDER_VARIABLE] == folders[0]

    for name in (FOLDER_VARIABLE, run._SETTINGS_VARIABLE):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # as if that were on a disk that is stuck
    monkeypatch.setattr(run, "Supervisor", Nobody)
    monkeypatch.setattr(run, "configure_process_log", lambda *given: None)
    run.serve(Settings(port=0, processes=2))
    assert Path(folders[0]).parent == Path("/dev/shm") and not Path(folders[0]).exists()
