"""The folder of a reproduction: whose it is, and what experiments leave in it.

==================  =====================================================================================
``index.html``      the page
``claims.json``     every claim with its verdict, statistic and uncertainty
``figures/``        SVG and PNG
``data/``           Parquet and CSV
``outcomes/``       text, claims and tables of each experiment; the page is made from these
``work/``           journals of the simulations: an interrupted reproduction goes on from there
``timings.json``    seconds, which differ from run to run
==================  =====================================================================================

But for ``timings.json``, the page, and what figure 8 leaves, which is about seconds, all files are the same every time.
"""

from __future__ import annotations

import io
import json
import math
import os
from pathlib import Path
from typing import Any

from pmbandits import __version__
from research.afterwards import CHOICES_AFTER_RESULTS
from research.draw import PAGE_STYLE
from research.outcome import VERDICTS, Outcome
from research.registry import entries, ours

MARKER = "reproduction.json"
SCHEMA = 2


def open_folder(folder: Path, *, seed: int, quick: bool) -> None:
    """Make the folder, or check that it is a reproduction of the same kind; nothing else is touched."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {str(folder)!r} is a file; give a folder.")
    mine = {"format": "pmbandits-reproduction", "schema": SCHEMA, "library": __version__, "seed": seed, "quick": quick}
    marker = folder / MARKER
    if marker.is_file():
        try:
            there = json.loads(marker.read_text(encoding="utf-8"))
        except ValueError:
            there = {}
        if there != mine:
            raise ValueError(
                f"{str(folder)!r} holds another reproduction ({_describe(there)}) than this one ({_describe(mine)}); "
                "give another folder with --out. Nothing was overwritten."
            )
    elif folder.is_dir() and any(folder.iterdir()):
        raise ValueError(
            f"{str(folder)!r} holds other files and no reproduction; give a new or empty folder with --out. "
            "Nothing was overwritten."
        )
    else:
        folder.mkdir(parents=True, exist_ok=True)
        write(marker, _json(mine))


def _describe(marker: Any) -> str:
    try:
        size = "quick" if marker["quick"] else "full size"
        return f"pmbandits {marker['library']}, layout {marker['schema']}, seed {marker['seed']}, {size}"
    except (KeyError, TypeError):
        return "unreadable"


def put(folder: Path, outcome: Outcome) -> None:
    """Write everything that an experiment left."""
    import matplotlib as mpl
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    for name, figure in outcome.figures.items():
        with mpl.rc_context(PAGE_STYLE):
            for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
                buffer = io.BytesIO()
                figure.savefig(buffer, format=suffix, metadata=metadata)
                figure.set_layout_engine("none")  # it is laid out now; doing it again takes half of the time
                write(folder / "figures" / f"{name}.{suffix}", buffer.getvalue())
    for name, table in outcome.data.items():
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        write(folder / "data" / f"{name}.parquet", buffer.getvalue())
        buffer = io.BytesIO()
        pc.write_csv(table, buffer)
        write(folder / "data" / f"{name}.csv", buffer.getvalue())
    record = {
        "name": outcome.name,
        "title": outcome.title,
        "text": [*outcome.text, *CHOICES_AFTER_RESULTS.get(outcome.name, ())],
        "claims": [
            {
                "name": claim.name,
                "says": claim.says,
                "verdict": claim.verdict,
                "evidence": claim.evidence,
                "numbers": {k: float(v) if math.isfinite(v) else None for k, v in claim.numbers.items()},
                "source": claim.source,
                "rule": claim.rule,
                "timed": claim.timed,
            }
            for claim in outcome.claims
        ],
        "shown": [
            {"caption": s.caption, "heads": list(s.heads), "rows": [list(row) for row in s.rows]} for s in outcome.shown
        ],
        "figures": list(outcome.figures),
        "data": list(outcome.data),
    }
    write(folder / "outcomes" / f"{outcome.name}.json", _json(record))


def records(folder: Path) -> list[dict[str, Any]]:
    """All experiments that were finished in this folder, in the order of the page."""
    files = {path.stem: path for path in (folder / "outcomes").glob("*.json")}
    order = [name for name in entries() if name in files]
    order += sorted(set(files) - set(order))
    return [json.loads(files[name].read_text(encoding="utf-8")) for name in order]


def put_time(folder: Path, name: str, seconds: float, table: Any) -> None:
    """Note how long an experiment took, and the times that it took itself."""
    times = timings(folder)
    times[name] = {"seconds": round(seconds, 2), "table": table}
    write(folder / "timings.json", _json(times))


def timings(folder: Path) -> dict[str, Any]:
    """Seconds by experiment."""
    path = folder / "timings.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def put_claims(folder: Path, *, seed: int, quick: bool) -> dict[str, Any]:
    """Write and return ``claims.json``: the claims of the paper, our own questions about it, and goals of our own."""
    found = [
        {"experiment": record["name"], **claim, "indicative": quick}
        for record in records(folder)
        for claim in record["claims"]
    ]
    claims = [claim for claim in found if not ours(claim["experiment"])]
    kinds = {"paper": [c for c in claims if c["source"]], "ours": [c for c in claims if not c["source"]]}
    counts = {kind: {v: sum(c["verdict"] == v for c in of) for v in VERDICTS} for kind, of in kinds.items()}
    whole = {
        "format": "pmbandits-claims",
        "schema": SCHEMA,
        "library": __version__,
        "seed": seed,
        "quick": quick,
        "counts": counts,
        **kinds,
        "goals": [claim for claim in found if ours(claim["experiment"])],
    }
    write(folder / "claims.json", _json(whole))
    return whole


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()


def write(path: Path, content: bytes) -> None:
    """Write a file of the folder, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
