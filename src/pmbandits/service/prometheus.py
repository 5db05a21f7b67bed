"""What a service counts, for Prometheus.

Where several processes serve at one port, a request for the numbers reaches one of them by chance. So they count in
files that they share (the multiprocess mode of prometheus_client): counters of processes that have ended still count,
and what is said of a process that lives goes when it dies.
"""

from __future__ import annotations

import os
import platform
from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Iterable
from typing import Any, NamedTuple

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from pmbandits import __version__

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client reads it when it is imported
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # a second number for each counter


class ExperimentNumbers(NamedTuple):
    """What Prometheus is told of an experiment; ``changes`` of each arm, None while not all rewards were looked at."""

    events: int
    disagreements: int
    changes: dict[str, int] | None
    sample_ratio_p_value: float | None = None
    arrivals: dict[str, int] | None = None  # of each segment


class Times:
    """Times, counted in plain numbers and handed on to a histogram now and then: that takes a sixth as long."""

    def __init__(self, histogram: Any) -> None:
        self._histogram, self._counts, self._sum = histogram, [0] * (len(BUCKETS) + 1), 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(BUCKETS, seconds)] += 1
        self._sum += seconds

    def hand_on(self) -> None:
        """Add what was counted since the last time to the histogram."""
        for bucket, n in zip(self._histogram._buckets, self._counts, strict=True):
            if n:
                bucket.inc(n)
        self._histogram._sum.inc(self._sum)
        self._counts, self._sum = [0] * (len(BUCKETS) + 1), 0.0


class ServiceMetrics:
    """The counters, times and gauges of one process.

    What each request or transaction counts is in plain numbers first. :meth:`hand_on_counts`, called every second and
    before somebody reads, hands it on to prometheus_client, where other processes see it.
    """

    def __init__(self) -> None:
        given: dict[str, Any] = {"registry": CollectorRegistry()}
        self.registry: CollectorRegistry = given["registry"]
        self._requests = Counter("pmbandits_requests", "Requests, by route and status.", ["route", "status"], **given)
        self._seconds = Histogram(
            "pmbandits_request_seconds", "Seconds from a request to its answer.", ["route"], buckets=BUCKETS, **given
        )
        self._turns = Counter("pmbandits_turns", "Transactions that were written, each for all who waited.", **given)
        self._events = Counter("pmbandits_events", "Events that were written.", **given)
        self.failures = Counter("pmbandits_failures", "Transactions that failed; nothing of them counts.", **given)
        store = Histogram(
            "pmbandits_store_seconds", "Seconds in the store: to begin a transaction (with the wait for the lock), and "
            "to bring it to disk.", ["step"], buckets=BUCKETS, **given,
        )  # fmt: skip
        self.begin_seconds, self.commit_seconds = Times(store.labels("begin")), Times(store.labels("commit"))
        self._waiting = Gauge(
            "pmbandits_waiting_requests", "Requests that wait for a transaction.", multiprocess_mode="livesum", **given
        )
        self._memory = Gauge(
            "pmbandits_memory_bytes", "Memory of a process (resident).", multiprocess_mode="liveall", **given
        )
        build = ["version", "python"]
        info = Gauge("pmbandits_build_info", "Versions that serve; 1.", build, multiprocess_mode="livemax", **given)
        info.labels(__version__, platform.python_version()).set(1)
        self._by_route: Tally[tuple[str, int]] = Tally()
        self._seconds_by_route: dict[str, Times] = {}
        self.turns = self.events = 0  # since they were handed on

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._by_route[route, status] += 1
        times = self._seconds_by_route.get(route)
        if times is None:
            times = self._seconds_by_route[route] = Times(self._seconds.labels(route))
        times.observe(seconds)

    def hand_on_counts(self, waiting: int) -> None:
        """Let other processes see what was counted, how many requests wait, and how much memory this process takes."""
        for (route, status), n in self._by_route.items():
            self._requests.labels(route, str(status)).inc(n)
        self._by_route.clear()
        for times in (*self._seconds_by_route.values(), self.begin_seconds, self.commit_seconds):
            times.hand_on()
        self._turns.inc(self.turns)
        self._events.inc(self.events)
        self.turns = self.events = 0
        self._waiting.set(waiting)
        self._memory.set(resident_bytes())

    def prometheus_text(self, experiments: dict[str, ExperimentNumbers]) -> bytes:
        """What all processes counted, and what is said of experiments, as Prometheus reads it."""
        counted = self.registry
        if FOLDER_VARIABLE in os.environ:
            counted = CollectorRegistry()
            multiprocess.MultiProcessCollector(counted)  # type: ignore[no-untyped-call]
        read = CollectorRegistry()
        read.register(_Experiments(experiments))
        return generate_latest(counted) + generate_latest(read)


class _Experiments:
    """Numbers that follow from the log, the same in every process."""

    def __init__(self, experiments: dict[str, ExperimentNumbers]) -> None:
        self._experiments = experiments

    def collect(self) -> Iterable[Metric]:
        """The numbers as prometheus_client takes them."""
        events = CounterMetricFamily("pmbandits_experiment_events", "Events of an experiment.", labels=["experiment"])
        disagreements = GaugeMetricFamily(
            "pmbandits_experiment_disagreements",
            "Runs of stored asks that the process which answers would have answered otherwise.",
            labels=["experiment"],
        )
        changes = GaugeMetricFamily(
            "pmbandits_experiment_changes",
            "How often the rewards of an arm have changed; a correction of rewards can take one back.",
            labels=["experiment", "arm"],
        )
        ratio = GaugeMetricFamily(
            "pmbandits_experiment_sample_ratio_p_value",
            "Of randomised play: the p-value, valid at all times, of rewards coming in as arms were drawn.",
            labels=["experiment"],
        )
        arrivals = CounterMetricFamily(
            "pmbandits_experiment_arrivals",
            "How many people of a segment have come.",
            labels=["experiment", "segment"],
        )
        for name, found in self._experiments.items():
            events.add_metric([name], found.events)
            disagreements.add_metric([name], found.disagreements)
            for arm, n in (found.changes or {}).items():
                changes.add_metric([name, arm], n)
            if found.sample_ratio_p_value is not None:
                ratio.add_metric([name], found.sample_ratio_p_value)
            for segment, n in (found.arrivals or {}).items():
                arrivals.add_metric([name, segment], n)
        return events, disagreements, changes, ratio, arrivals


def shared_memory() -> str | None:
    """Where files are in memory, so that counting never waits for a disk; None if this system has no such place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None


def drop_gauges_of_process(folder: str, pid: int) -> None:
    """Drop what is said of a process that lives; what it counted stays."""
    multiprocess.mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]


def resident_bytes() -> int:
    """The memory of this process."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no such file on this system: the largest that it ever was
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
