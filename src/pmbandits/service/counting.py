"""Counters and times of one process, in the text that Prometheus reads."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Counting:
    """Requests by route and status, and how long they took."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, int], int] = defaultdict(int)
        self.times: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))
        self.sums: dict[str, float] = defaultdict(float)

    def note(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[route, status] += 1
        self.times[route][bisect_left(BUCKETS, seconds)] += 1
        self.sums[route] += seconds

    def lines(self) -> Iterable[str]:
        """What was counted, for Prometheus."""
        process = str(os.getpid())
        yield "# TYPE pmbandits_requests_total counter"
        for (route, status), n in sorted(self.requests.items()):
            yield sample("pmbandits_requests_total", {"route": route, "status": str(status), "process": process}, n)
        yield "# TYPE pmbandits_request_seconds histogram"
        for route, counts in sorted(self.times.items()):
            label, total = {"route": route, "process": process}, 0
            for edge, n in zip((*BUCKETS, "+Inf"), counts, strict=True):
                total += n
                yield sample("pmbandits_request_seconds_bucket", {**label, "le": str(edge)}, total)
            yield sample("pmbandits_request_seconds_sum", label, self.sums[route])
            yield sample("pmbandits_request_seconds_count", label, total)


def sample(name: str, labels: Mapping[str, str], value: float) -> str:
    """One line; labels are text of anybody, and can do no harm."""
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value:.10g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "")
