"""Write what the pages paper.md and limits.md say about the paper's claims.

    python docs/claims.py out/paper    # take over what `python -m research all` left, and write the pages
    python docs/claims.py out/paper out/quick    # what is missing in the first comes from the second, and is marked
    python docs/claims.py              # write the pages again from what was taken over before

Taken over is ``docs/claims.json``: every claim with its verdict and evidence. All that stands in the pages between two
marks comes from it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from research.afterwards import SEED
from research.outcome import VERDICTS
from research.page import label
from research.registry import chosen

DOCS = Path(__file__).resolve().parent
PAGES, KEPT = (DOCS / "paper.md", DOCS / "limits.md"), DOCS / "claims.json"
MARKED = re.compile(r"(<!-- written by docs/claims\.py: (\w+) -->).*?(<!-- end of \2 -->)", re.DOTALL)
NAMES = {"paper": "claims of the paper", "ours": "questions of our own"}


def take_over(*folders: Path) -> None:
    """Copy the claims from the folders of reproductions; an experiment comes from the first folder that has it."""
    every = [json.loads((folder / "claims.json").read_text(encoding="utf-8")) for folder in folders]
    order = [entry.name for entry in chosen(["all"])]
    fields = ("experiment", "name", "says", "verdict", "evidence", "source", "rule", "timed")
    kept: dict[str, Any] = {"registered": False, "seed": every[0]["seed"], "small": [], "counts": {}}
    owner: dict[str, int] = {}
    for number, found in enumerate(every):
        for claim in (claim for kind in NAMES for claim in found[kind]):
            owner.setdefault(claim["experiment"], number)
    for kind in NAMES:
        claims = [
            claim for number, found in enumerate(every) for claim in found[kind] if owner[claim["experiment"]] == number
        ]
        claims.sort(key=lambda claim: order.index(claim["experiment"]))
        kept[kind] = [{key: claim[key] for key in fields} for claim in claims]
        kept["counts"][kind] = {verdict: sum(c["verdict"] == verdict for c in claims) for verdict in VERDICTS}
    kept["small"] = [name for name in order if name in owner and every[owner[name]]["quick"]]
    kept["registered"] = not kept["small"] and every[0]["seed"] == SEED and set(owner) == set(order)
    KEPT.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def counts(kept: dict[str, Any]) -> str:
    """How many claims there are, and what became of them; the paper's and ours apart."""
    said = {
        "holds": "held",
        "does not hold": "did not hold",
        "depends on a choice": "depended on a choice that the paper leaves open",
        "not decidable": "could not be decided",
        "not observed": "were about what did not happen",
    }
    parts = []
    for kind, name in NAMES.items():
        of = {verdict: n for verdict, n in kept["counts"][kind].items() if n}
        listed = [f"{n} {said[verdict]}" for verdict, n in of.items()]
        parts.append(f"Of {sum(of.values())} {name} {', '.join(listed[:-1])}, and {listed[-1]}.")
    small = ", ".join(label(name) for name in kept.get("small", []))
    pilot = f" **These were played with small sizes only, which decides nothing: {small}.**" if small else ""
    return " ".join(parts) + f" (Seed {kept['seed']}, on which nothing had been chosen.){pilot}"


def verdict(claim: dict[str, Any], kept: dict[str, Any]) -> str:
    """The verdict on a claim, with a note where it was found with small sizes."""
    return str(claim["verdict"]) + (" (small size)" if claim["experiment"] in kept.get("small", []) else "")


def verdicts(kept: dict[str, Any]) -> str:
    """All claims of the paper, with their verdicts."""
    rows = [[label(c["experiment"]), c["says"], verdict(c, kept)] for c in kept["paper"]]
    return table(["where", "the paper claims", "here"], rows)


def failed(kept: dict[str, Any]) -> str:
    """What did not hold or could not be decided, with what was measured."""
    parts = []
    for kind, head in (("paper", "the paper claims"), ("ours", "we asked")):
        rows = [
            [label(c["experiment"]), c["says"], f"{verdict(c, kept)}: {c['evidence']}"]
            for c in kept[kind]
            if c["verdict"] != "holds"
        ]
        parts.append(table(["where", head, "what was measured"], rows))
    return "\n\n".join(parts)


BLOCKS: dict[str, Callable[[dict[str, Any]], str]] = {"counts": counts, "verdicts": verdicts, "failed": failed}


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A table as Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def page(text: str, kept: dict[str, Any]) -> str:
    """A page with what the claims say."""
    return MARKED.sub(lambda found: f"{found[1]}\n\n{BLOCKS[found[2]](kept)}\n\n{found[3]}", text)


def main() -> None:
    if len(sys.argv) > 1:
        take_over(*map(Path, sys.argv[1:]))
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    for path in PAGES:
        path.write_text(page(path.read_text(encoding="utf-8"), kept), encoding="utf-8")
    print(f"paper.md, limits.md: {'the registered run' if kept['registered'] else 'not all at full size'}.")


if __name__ == "__main__":
    main()
