"""``make bench``: every table of the project in one run, each with the limit it is measured against."""

from __future__ import annotations

import sys

from rich.console import Console

from benchmarks import (
    advice,
    arms,
    certainty,
    exact_bounds,
    foundation,
    intervals,
    memory,
    oracle,
    policies,
    regret,
    sets,
    simulation,
    vet,
    walls,
)

ROOMS = {
    "foundation": foundation.tables,
    "oracle": oracle.tables,
    "policies": policies.tables,
    "simulation": simulation.tables,
    "regret": regret.tables,
    "exact": exact_bounds.tables,
    "sets": sets.tables,
    "walls": walls.tables,
    "arms": arms.tables,
    "vet": vet.tables,
    "certainty": certainty.tables,
    "memory": memory.tables,
    "advice": advice.tables,
    "intervals": intervals.tables,
}


def main() -> None:
    console = Console(width=110)
    wanted = sys.argv[1:] or list(ROOMS)
    for name in wanted:
        for table in ROOMS[name]():
            console.print(table)


main()
