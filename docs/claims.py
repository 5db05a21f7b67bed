"""Write what the pages paper.md and limits.md say about the paper's claims.

    python docs/claims.py out/paper    # take over what `python -m research all` left, and write the pages
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
from research.page import label
from research.registry import chosen

DOCS = Path(__file__).resolve().parent
PAGES, KEPT = (DOCS / "paper.md", DOCS / "limits.md"), DOCS / "claims.json"
MARKED = re.compile(r"(<!-- written by docs/claims\.py: (\w+) -->).*?(<!-- end of \2 -->)", re.DOTALL)
NAMES = {"paper": "claims of the paper", "ours": "questions of our own"}


def take_over(folder: Path) -> None:
    """Copy the claims from the folder of a reproduction."""
    found = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    played = {claim["experiment"] for kind in NAMES for claim in found[kind]}
    whole = not found["quick"] and found["seed"] == SEED and played == {entry.name for entry in chosen(["all"])}
    fields = ("experiment", "name", "says", "verdict", "evidence", "source", "rule", "timed")
    kept = {
        "registered": whole,
        "seed": found["seed"],
        "counts": found["counts"],
        **{kind: [{key: claim[key] for key in fields} for claim in found[kind]] for kind in NAMES},
    }
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
    pilot = "" if kept["registered"] else " **This was a pilot with small sizes: it decides nothing.**"
    return " ".join(parts) + f" (Seed {kept['seed']}, on which nothing had been chosen.){pilot}"


def verdicts(kept: dict[str, Any]) -> str:
    """All claims of the paper, with their verdicts."""
    rows = [[label(c["experiment"]), c["says"], c["verdict"]] for c in kept["paper"]]
    return table(["where", "the paper claims", "here"], rows)


def failed(kept: dict[str, Any]) -> str:
    """What did not hold or could not be decided, with what was measured."""
    parts = []
    for kind, head in (("paper", "the paper claims"), ("ours", "we asked")):
        rows = [
            [label(c["experiment"]), c["says"], f"{c['verdict']}: {c['evidence']}"]
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
        take_over(Path(sys.argv[1]))
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    for path in PAGES:
        path.write_text(page(path.read_text(encoding="utf-8"), kept), encoding="utf-8")
    print(f"paper.md, limits.md: {'the registered run' if kept['registered'] else 'a pilot'}.")


if __name__ == "__main__":
    main()
