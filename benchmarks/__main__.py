"""``make bench``: every table of the project in one run, each with the limit it is measured against."""

from __future__ import annotations

import sys

from rich.console import Console

from benchmarks import (
    advice,
    arms,
    board,
    certainty,
    changes,
    cold,
    exact_bounds,
    foundation,
    grids,
    intervals,
    limits,
    memory,
    newcomers,
    oracle,
    policies,
    regret,
    segments,
    sets,
    simulation,
    studio,
    vet,
    vet_theorems,
    walls,
    worlds,
)

ROOMS = {
    "foundation": foundation.tables,
    "oracle": oracle.tables,
    "cold": cold.tables,
    "policies": policies.tables,
    "simulation": simulation.tables,
    "regret": regret.tables,
    "exact": exact_bounds.tables,
    "sets": sets.tables,
    "walls": walls.tables,
    "grids": grids.tables,
    "arms": arms.tables,
    "board": board.tables,
    "vet": vet.tables,
    "theorems": vet_theorems.tables,
    "worlds": worlds.tables,
    "certainty": certainty.tables,
    "changes": changes.tables,
    "memory": memory.tables,
    "newcomers": newcomers.tables,
    "limits": limits.tables,
    "advice": advice.tables,
    "intervals": intervals.tables,
    "studio": studio.tables,
    "segments": segments.tables,
}


def main() -> None:
    console = Console(width=110)
    wanted = sys.argv[1:] or list(ROOMS)
    for name in wanted:
        for table in ROOMS[name]():
            console.print(table)


main()
