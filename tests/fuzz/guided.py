"""Readers under atheris, which looks for inputs that reach new code: ``python -m tests.fuzz.guided [seconds]``.

Each reader runs in a process of its own, beginning from good files and from what was found once (``seeds/``). Without
atheris, which does not exist for every Python, random damage to the same files has to do.
"""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SECONDS = 120
READERS = {
    "policy": ".pmb", "run": ".parquet", "csv": ".csv", "jsonl": ".jsonl", "parquet": ".parquet", "toml": ".toml",
}  # fmt: skip
# Only modules without kernels: numba would not know code that was changed to be watched.
WATCHED = [
    "pmbandits.engine.archive", "pmbandits.engine.policy_file",
    "pmbandits.engine.validate", "pmbandits.simulation.files",
    "pmbandits.simulation.spec", "pmbandits.logs.files", "pmbandits.logs.parse", "pmbandits.logs.row_report",
]  # fmt: skip


def reader(name: str) -> Callable[[Path], str]:
    """What reads such a file: refused with a sentence, or read."""
    import pmbandits as pmb
    from pmbandits.simulation.spec import read_spec
    from tests.fuzz import sentence
    from tests.fuzz.tables import try_to_read

    if name in ("csv", "jsonl", "parquet"):
        return try_to_read
    read: Callable[[Path], object] = {"policy": pmb.load, "run": pmb.Run.load, "toml": read_spec}[name]

    def attempt(path: Path) -> str:
        try:
            read(path)
        except Exception as error:
            sentence(error)
            return "refused"
        return "taken"

    return attempt


def corpus(name: str, folder: Path) -> list[bytes]:
    """Good files of a kind, and the seeds."""
    from pmbandits.simulation.spec import EXAMPLE
    from tests.fuzz.run_files import played

    if name == "policy":
        found = [path.read_bytes() for path in sorted((HERE.parent / "policies" / "files").glob("*.pmb"))]
    elif name == "run":
        played().save(folder / "good.parquet")
        found = [(folder / "good.parquet").read_bytes()]
    elif name == "toml":
        found = [EXAMPLE.encode()]
    elif name == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"arm": ["a", "b"], "reward": [1.0, 2.0]}), folder / "good.parquet")
        found = [(folder / "good.parquet").read_bytes()]
    else:
        found = [b"arm,reward\na,1\nb,2\n"] if name == "csv" else [b'{"arm": "a", "reward": 1}\n']
    return found + [path.read_bytes() for path in sorted((HERE / "seeds").glob(f"*{READERS[name]}"))]


def watch(name: str, seconds: int) -> None:
    """In a process of its own: let atheris look for inputs."""
    import atheris

    for module in WATCHED:
        for thing in vars(importlib.import_module(module)).values():
            mine = vars(thing).values() if inspect.isclass(thing) else (thing,)
            for function in mine:
                if inspect.isfunction(function) and function.__module__ == module:
                    atheris.instrument_func(function)
    attempt = reader(name)
    with tempfile.TemporaryDirectory() as folder:
        seeds = Path(folder) / "seeds"
        seeds.mkdir()
        for k, content in enumerate(corpus(name, Path(folder))):
            (seeds / str(k)).write_bytes(content)
        path = Path(folder) / f"file{READERS[name]}"

        def once(data: bytes) -> None:
            path.write_bytes(data)
            attempt(path)

        flags = [f"-max_total_time={seconds}", "-max_len=65536", "-timeout=60", "-rss_limit_mb=4096", "-verbosity=0"]
        atheris.Setup(
            [sys.argv[0], *flags, f"-artifact_prefix={tempfile.gettempdir()}/", "-print_final_stats=1", str(seeds)],
            once,
        )
        atheris.Fuzz()


def damage_at_random(name: str, seconds: int) -> int:
    """The same without atheris; returns how many files were tried."""
    attempt, rng, tries = reader(name), np.random.default_rng(0), 0
    with tempfile.TemporaryDirectory() as folder:
        seeds, path, end = corpus(name, Path(folder)), Path(folder) / f"file{READERS[name]}", time.monotonic() + seconds
        while time.monotonic() < end:
            raw = bytearray(seeds[int(rng.integers(len(seeds)))])
            for at in rng.integers(len(raw), size=int(rng.integers(0, 6))) if raw else ():
                raw[at] = int(rng.integers(256))
            path.write_bytes(bytes(raw))
            attempt(path)
            tries += 1
    return tries


def main(seconds: int) -> int:
    """Each reader in turn; 1 if one of them failed."""
    try:
        import atheris  # noqa: F401

        guided = True
    except ImportError:
        guided = False
    failed = 0
    for name in READERS:
        work = f"from tests.fuzz import guided; guided.{'watch' if guided else 'damage_at_random'}({name!r}, {seconds})"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", work], capture_output=True, text=True, check=False)
        counts = [line for line in done.stderr.splitlines() if "number_of_executed_units" in line]
        tries = counts[0].split(":")[-1].strip() if counts else "?"
        print(
            f"| {name} | {'atheris' if guided else 'random damage'} | {tries} | {int(done.returncode != 0)} |",
            flush=True,
        )
        if done.returncode:
            failed = 1
            print(done.stderr[-3000:], file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
