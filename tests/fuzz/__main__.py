"""The long run: ``python -m tests.fuzz`` (``make fuzz``). Prints a table: attack, tries, failures.

Tries are made in processes of their own, so that a crash is one failure and not the end. Each try depends on the seed
and on its number only: ``python -m tests.fuzz --only policy_files --first 1234 --tries 1`` repeats one.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

SEED = 7
PATIENCE = 120.0  # seconds without a sign of life, and a try counts as one that hangs
MOST_MEMORY = 3 << 30  # bytes; whoever takes more is stopped


class Attack:
    """A kind of attack: its module, how often it is tried, and whether numba checks the bounds of arrays."""

    def __init__(self, title: str, module: str, tries: int, *, bounds: bool = False) -> None:
        self.title, self.module, self.tries, self.bounds = title, module, tries, bounds


ATTACKS = (
    Attack("policy files, edited, with checksums that fit", "policy_files", 45_000),
    Attack("the same, while numba checks the bounds of arrays", "policy_files", 6_000, bounds=True),
    Attack("policy files with damaged bytes", "damaged_files", 8_000),
    Attack("run files and journals, edited, with checksums that fit", "run_files", 4_000),
    Attack("tables of rewards (CSV, JSON lines, Parquet) and TOML", "tables", 10_000),
    Attack("values of every kind given to public functions", "values", 10_000),
    Attack("processes killed in saves, journals and simulations", "kills", 900),
    Attack("Ctrl-C in saves", "interrupts", 700),
)


def work(module: str, first: int, tries: int) -> None:
    """In a process of its own: make the tries, and say what became of each."""
    import numpy as np

    attack = importlib.import_module(f"tests.fuzz.{module}").attack
    quick = "/dev/shm" if os.path.isdir("/dev/shm") else None  # files in memory: a disk would be what is waited for
    with tempfile.TemporaryDirectory(dir=quick) as folder:
        for number in range(first, first + tries):
            print(f"{number} ", end="", flush=True)
            try:
                said = attack(np.random.default_rng([SEED, number]), Path(folder))
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                said = f"FAILED {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            print(" ".join(said.split())[:500], flush=True)


def run(attack: Attack, tries: int, first: int, folder: Path) -> dict[str, Any]:
    """All tries of an attack; a process that ends early is begun again after the try that ended it."""
    counts: collections.Counter[str] = collections.Counter()
    failures: list[str] = []
    settings = dict(os.environ)
    if attack.bounds:
        settings |= {"NUMBA_BOUNDSCHECK": "1", "PMBANDITS_CACHE_DIR": str(folder / "kernels")}
    at, last, started = first, first + tries, time.monotonic()
    while at < last:
        log = folder / f"{attack.module}.log"
        code = "import sys; from tests.fuzz.__main__ import work; work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))"
        with log.open("w") as out, (folder / f"{attack.module}.err").open("w") as err:
            worker = subprocess.Popen(
                [
                    sys.executable,
                    "-X",
                    "faulthandler",
                    "-W",
                    "ignore",
                    "-c",
                    code,
                    attack.module,
                    str(at),
                    str(last - at),
                ],
                stdout=out,
                stderr=err,
                env=settings,
                preexec_fn=_limit,
            )
            hung = _wait(worker, log)
        lines = log.read_text(errors="replace").splitlines()
        for line in lines:
            number, _, said = line.partition(" ")
            if said in ("refused", "taken"):
                counts[said] += 1
            elif said:
                failures.append(line)
            at = int(number) + 1
        if lines and not lines[-1].partition(" ")[2]:
            failures.append(
                f"{lines[-1].strip()} FAILED {'it hung' if hung else f'the process ended: {worker.returncode}'}"
            )
        elif at < last and not lines:
            raise SystemExit((folder / f"{attack.module}.err").read_text()[-3000:])
    return {
        "attack": attack.title,
        "module": attack.module,
        "tries": tries,
        "refused": counts["refused"],
        "taken": counts["taken"],
        "failures": failures,
        "seconds": round(time.monotonic() - started),
    }


def _limit() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    os.nice(5)


def _wait(worker: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait for a worker; whether it hung, and was stopped."""
    size, since = -1, time.monotonic()
    while True:
        try:
            worker.wait(timeout=1.0)
            return False
        except subprocess.TimeoutExpired:
            now = log.stat().st_size
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                worker.kill()
                worker.wait()
                return True


def main() -> int:
    """Run the attacks, and print and keep the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--only", help="the module of one attack")
    parser.add_argument("--tries", type=int, help="how many tries of each; default as many as the documentation states")
    parser.add_argument("--first", type=int, default=0, help="the number of the first try")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="where the table goes")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True, mode=0o700)
    table, names = [], {attack.module for attack in ATTACKS}
    if given.only is not None and given.only not in names:
        parser.error(f"there is no attack {given.only!r}; known: {', '.join(sorted(names))}")
    for attack in ATTACKS:
        if given.only in (None, attack.module):
            row = run(attack, given.tries or attack.tries, given.first, given.out.resolve())
            table.append(row)
            for failure in row["failures"][:20]:
                print(f"  {failure}", file=sys.stderr)
            counts = (f"{row[key]:,}" for key in ("tries", "refused", "taken"))
            print(f"| {row['attack']} | {' | '.join(counts)} | {len(row['failures'])} |", flush=True)
            (given.out / "table.json").write_text(json.dumps(table, indent=1) + "\n")
    return int(any(row["failures"] for row in table))


if __name__ == "__main__":
    sys.exit(main())
