"""Counters and times of all processes of one service, in the text that Prometheus reads.

Every process counts in its own memory. Where several serve at one port, a request for the counters reaches one of them
by chance: so each of them leaves what it counted in a folder that they share, and whoever is asked reads them all.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
PUBLISH_EVERY = 1.0  # seconds after which a process leaves its counters for the others

CounterValues = dict[str, Any]  # what one process counted, as JSON


class RequestCounters:
    """Requests by route and status, and how long they took."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self.requests: dict[tuple[str, int], int] = defaultdict(int)
        self.times: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))
        self.sums: dict[str, float] = defaultdict(float)

    @property
    def shared(self) -> bool:
        """Whether there are other processes."""
        return self._folder is not None

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[route, status] += 1
        self.times[route][bisect_left(BUCKETS, seconds)] += 1
        self.sums[route] += seconds

    def counter_values(self, counts: Mapping[str, int], experiments: Mapping[str, tuple[int, int]]) -> CounterValues:
        """All that this process counted; with its commits, and events and disagreements of its experiments."""
        return {
            "requests": [[route, status, n] for (route, status), n in self.requests.items()],
            "times": {route: list(counts) for route, counts in self.times.items()},
            "sums": dict(self.sums),
            "counts": dict(counts),
            "experiments": dict(experiments),
        }

    def publish(self, mine: CounterValues) -> None:
        """Write the counters of this process where the others read them."""
        if self._folder is not None:
            file = self._folder / f"{os.getpid()}.json"
            new = file.with_suffix(".new")
            new.write_text(json.dumps(mine))
            os.replace(new, file)

    def all_processes(self, mine: CounterValues) -> dict[str, CounterValues]:
        """What every process counted, by the number of the process; also of those that are gone."""
        found: dict[str, CounterValues] = {}
        if self._folder is not None:
            for file in sorted(self._folder.glob("*.json")):
                with suppress(OSError, ValueError):
                    found[file.stem] = json.loads(file.read_text())
        return {**found, str(os.getpid()): mine}


def forget_process(folder: str, pid: int) -> None:
    """Drop what a process that has ended left for the others."""
    (Path(folder) / f"{pid}.json").unlink(missing_ok=True)


def prometheus_lines(found: Mapping[str, CounterValues]) -> Iterable[str]:
    """What was counted, for Prometheus."""
    yield "# TYPE pmbandits_requests_total counter"
    for process, one in found.items():
        for route, status, n in sorted(one["requests"]):
            yield sample_line(
                "pmbandits_requests_total", {"route": route, "status": str(status), "process": process}, n
            )
    yield "# TYPE pmbandits_request_seconds histogram"
    for process, one in found.items():
        for route, counts in sorted(one["times"].items()):
            label, total = {"route": route, "process": process}, 0
            for edge, n in zip((*BUCKETS, "+Inf"), counts, strict=True):
                total += n
                yield sample_line("pmbandits_request_seconds_bucket", {**label, "le": str(edge)}, total)
            yield sample_line("pmbandits_request_seconds_sum", label, one["sums"][route])
            yield sample_line("pmbandits_request_seconds_count", label, total)
    for name in ("turns", "events", "failures"):
        yield f"# TYPE pmbandits_{name}_total counter"
        for process, one in found.items():
            yield sample_line(f"pmbandits_{name}_total", {"process": process}, one["counts"].get(name, 0))
    names = sorted({name for one in found.values() for name in one["experiments"]})
    for place, gauge in enumerate(("experiment_events", "experiment_disagreements")):
        yield f"# TYPE pmbandits_{gauge} gauge"
        for name in names:  # a process in which nobody asked lately knows less than another one
            most = max(one["experiments"][name][place] for one in found.values() if name in one["experiments"])
            yield sample_line(f"pmbandits_{gauge}", {"experiment": name}, most)


def sample_line(name: str, labels: Mapping[str, str], value: float) -> str:
    """One line; labels are text of anybody, and can do no harm."""
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value:.10g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "")
