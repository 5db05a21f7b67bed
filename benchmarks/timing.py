"""Timing helpers shared by the benchmarks."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def best_of(function: Callable[[], Any], repeats: int = 7) -> float:
    """The shortest of several runs: what the work costs when nothing else disturbs it."""
    function()
    shortest = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def cpu_of(function: Callable[[], Any], repeats: int = 5) -> float:
    """The same in seconds of computing time, which other work on the machine disturbs less."""
    function()
    shortest = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        function()
        shortest = min(shortest, time.process_time() - start)
    return shortest


def fresh_import(statement: str, repeats: int = 5) -> float:
    """Seconds that a statement takes in a new interpreter, start-up not counted."""
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(repeats)
    ]
    return min(runs)
