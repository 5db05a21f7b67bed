"""Write the numbers of the page family.md.

    python docs/family.py out/family    # take over what `python -m research family` left, and write the page
    python docs/family.py               # write the page again from what was taken over before

Taken over are ``docs/family.json`` (the plan, and what was not played), the picture, and the regrets and ratios as CSV.
All that stands in the page between the two marks comes from the first of them and the ratios.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import numpy as np
from research.family_plan import CLOSE_RATIO, HORIZONS, JUDGED, SEED, WORST_RATIO

DOCS = Path(__file__).resolve().parent
PAGE, KEPT, RATIOS = DOCS / "family.md", DOCS / "family.json", DOCS / "_static" / "family-ratios.csv"
COUNTED = ["rounds", f"ratio at most {CLOSE_RATIO:g}", f"above {WORST_RATIO:g}", "median ratio", "largest"]
COLUMNS = [
    "problem", "Vet", "95 %, worst trial", "best other", "its regret", "ratio", "ratio to the best published",
]  # fmt: skip
BEGIN, END = "<!-- written by docs/family.py: begin -->", "<!-- written by docs/family.py: end -->"
NOT_PLAYED = "What was not"  # how the caption of this table begins
READ = {  # head of a section: what to see in its tables
    "Vet beside the best other policy": (
        "Each row is one problem: the arms, their number K, and the preference. A ratio below 1 means that Vet has "
        "less regret than the best other policy. Its error (±) is one standard error; where the trials of the other "
        "policy were not kept, it is taken as if both had not got the same rewards, and so it is a little too "
        "large. Regret is small in most trials and large in a few: so the third column says what 95 % of the trials "
        "of Vet stay below, and how bad the worst one was. The last column compares Vet with the best policy that "
        "was published by others or in the paper, so it leaves out Track."
    ),
    "What was not played": (
        "Some policies accept only certain preferences or rewards, and some would take too long. Each row says which "
        "policy was left out, why, and on which problems."
    ),
    "The plan, as it was written down before": (
        "This is the text that was committed before the run, word for word. It is short and technical. In simple "
        "words: the score is the regret after 1,000, 10,000 and 100,000 rounds. Every policy gets the same rewards. "
        "Vet is compared with whichever other policy turned out best, which is hard on Vet. And nothing may be left "
        "out afterwards. An *instance* is what this page calls a problem. T is the number of rounds, and K the number "
        "of arms."
    ),
}
HEADS = (
    "Score.",
    "Trials.",
    "Seeds.",
    "Comparison.",
    "Goals.",
    "The best mixture.",
    "Looked at before.",
    "Nothing is left out",
)


def take_over(folder: Path) -> None:
    """Copy what the page needs from the folder of a reproduction."""
    record = json.loads((folder / "outcomes" / "family.json").read_text(encoding="utf-8"))
    made = json.loads((folder / "reproduction.json").read_text(encoding="utf-8"))
    shown = [table for table in record["shown"] if table["caption"].startswith(NOT_PLAYED)]
    full = not made["quick"] and made["seed"] == SEED
    kept = {"registered": full, "text": [p for p in record["text"] if p.startswith(HEADS)], "shown": shown}
    KEPT.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    shutil.copy(folder / "figures" / "family.png", DOCS / "_static" / "family.png")
    for name in ("family", "family-ratios"):
        shutil.copy(folder / "data" / f"{name}.csv", DOCS / "_static" / f"{name}.csv")


def markdown_table(heads: list[str], rows: list[list[str]]) -> str:
    """A table as Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def body(kept: dict[str, Any]) -> str:
    """What stands between the marks."""
    parts = []
    if not kept["registered"]:
        parts.append(
            ":::{warning}\nThis is a pilot with other seeds, few trials and short horizons, to show the layout. It "
            "decides nothing; the run of the plan below is still to be made.\n:::"
        )
    parts += _head("Vet beside the best other policy")
    rows = read_ratios()
    parts.append(markdown_table(COUNTED, [counts(t, rows) for t in HORIZONS]))
    for t in JUDGED:
        parts += [f"After {t:,} rounds, mean regrets:", markdown_table(COLUMNS, lines(t, rows))]
    parts += _head("What was not played")
    parts += [markdown_table(table["heads"], table["rows"]) for table in kept["shown"]]
    parts += _head("The plan, as it was written down before")
    parts.append("\n".join(f"- {p}" for p in kept["text"] if p.startswith(HEADS)))
    return "\n\n".join(parts)


def read_ratios() -> list[dict[str, str]]:
    """Vet beside the best other policy and beside the best published one: a row for each problem and horizon."""
    with RATIOS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def counts(t: int, rows: list[dict[str, str]]) -> list[str]:
    """How many ratios are within the limits after so many rounds."""
    ratios = [float(r["ratio"]) for r in rows if r["t"] == str(t) and r["others"] == "all"]
    close, far = sum(r <= CLOSE_RATIO for r in ratios), sum(r > WORST_RATIO for r in ratios)
    return [f"{t:,}", f"{close} of {len(ratios)}", str(far), f"{np.median(ratios):.2f}", f"{max(ratios):.3g}"]


def lines(t: int, rows: list[dict[str, str]]) -> list[list[str]]:
    """The table after so many rounds."""
    mine = {(r["instance"], r["others"]): r for r in rows if r["t"] == str(t)}
    out = []
    for key in dict.fromkeys(key for key, _ in mine):
        r, p = mine[key, "all"], mine[key, "published"]
        out.append([
            r["title"], f"{float(r['vet']):.2e}", f"{float(r['vet_95']):.1e}, {float(r['vet_worst']):.1e}",
            r["best_other"], f"{float(r['other']):.2e}", ratio_text(r), f"{ratio_text(p)} ({p['best_other']})",
        ])  # fmt: skip
    return out


def ratio_text(row: dict[str, str]) -> str:
    """A ratio with its standard error."""
    return f"{float(row['ratio']):.2f} ± {float(row['ratio_error']):.2f}"


def _head(head: str) -> list[str]:
    return [f"## {head}", READ[head]]


def page(text: str, kept: dict[str, Any]) -> str:
    """The page with its numbers."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{body(kept)}\n\n{END}{after}"


def main() -> None:
    if len(sys.argv) > 1:
        take_over(Path(sys.argv[1]))
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), kept), encoding="utf-8")
    print(f"{PAGE.relative_to(DOCS.parent)}: {'the run of the plan' if kept['registered'] else 'a pilot'}.")


if __name__ == "__main__":
    main()
