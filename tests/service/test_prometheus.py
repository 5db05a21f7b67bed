"""Counters of several processes, wherever the question for them arrives."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from pmbandits.service.prometheus import RequestCounters, prometheus_lines
from tests.service.serving import SHOP, serving


def numbers(text: str, name: str) -> dict[str, float]:
    """Samples of a metric, by their labels."""
    return {labels: float(n) for labels, n in re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, re.MULTILINE)}


def test_a_scrape_of_one_process_has_the_counters_of_all(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    other = RequestCounters(str(folder))
    other.count_request("ask", 200, 0.003)
    other.publish(other.counter_values({"turns": 7, "events": 9, "failures": 0}, {"shop": (1000, 1), "old": (5, 0)}))
    (folder / f"{os.getpid()}.json").rename(folder / "123.json")  # as if another one had left it
    (folder / "124.json").write_text("{")  # damaged: left out
    with serving(tmp_path / "store.db", shared=str(folder)) as served:
        served.post("", SHOP)
        served.post("/shop/ask")
        served.post("/shop/ask")
        text = served.send("GET", "/metrics").text
        asks = {k: n for k, n in numbers(text, "pmbandits_requests_total").items() if 'route="ask"' in k}
        assert sorted(asks.values()) == [1, 2] and len(asks) == 2
        assert sum(numbers(text, "pmbandits_turns_total").values()) == 7 + 2
        assert numbers(text, "pmbandits_experiment_events") == {'experiment="old"': 5, 'experiment="shop"': 1000}
        assert numbers(text, "pmbandits_request_seconds_bucket")['route="ask",process="123",le="0.005"'] == 1
        until = time.monotonic() + 30
        while not (folder / f"{os.getpid()}.json").exists():
            assert time.monotonic() < until
            time.sleep(0.05)


def test_a_process_alone_leaves_nothing(tmp_path: Path) -> None:
    alone = RequestCounters()
    alone.count_request("tell", 409, 9.0)
    mine = alone.counter_values({"turns": 1}, {})
    alone.publish(mine)
    assert list(tmp_path.iterdir()) == []
    assert len(alone.all_processes(mine)) == 1
    text = "\n".join(prometheus_lines(alone.all_processes(mine)))
    assert 'status="409"' in text and 'le="+Inf"} 1' in text
