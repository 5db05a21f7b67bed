"""Write the numbers of the page family.md.

    python docs/family.py out/family    # take over what `python -m research family` left, and write the page
    python docs/family.py               # write the page again from what was taken over before

Taken over are ``docs/family.json`` (text, goals and tables), the picture, and the regrets and ratios as CSV. All that
stands in the page between the two marks comes from the first of them.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from research.family_plan import HORIZONS, SEED

DOCS = Path(__file__).resolve().parent
PAGE, KEPT = DOCS / "family.md", DOCS / "family.json"
BEGIN, END = "<!-- written by docs/family.py: begin -->", "<!-- written by docs/family.py: end -->"
SECTIONS = {  # head of a section: how the captions of its tables begin
    "Vet beside the best other policy": "Vet beside",
    "Where means and medians differ": "Where the mean",
    "What was not played": "What was not",
}
READ = {  # head of a section: what to see in its tables
    "What Vet was to reach": (
        "These goals were set before the run. The right column says what was measured, and it names the problems whose "
        "ratio is so close to the limit that chance may have decided."
    ),
    "Vet beside the best other policy": (
        "Each row is one problem: the arms, their number K, and the preference. A ratio below 1 means that Vet has "
        "less regret than the best other policy. “Not told apart” means that the difference is at most two standard "
        "errors. The last column compares Vet with the best policy that was published by others or in the paper, so "
        "it leaves out Track."
    ),
    "Where means and medians differ": (
        "Regret is small in most trials and large in a few. The last column says how many times the median the worst "
        "trial was: the larger it is, the less a mean says about a single run."
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
MARKS = {"holds": "reached", "does not hold": "**missed**", "not decidable": "not decided"}


def take_over(folder: Path) -> None:
    """Copy what the page needs from the folder of a reproduction."""
    record = json.loads((folder / "outcomes" / "family.json").read_text(encoding="utf-8"))
    made = json.loads((folder / "reproduction.json").read_text(encoding="utf-8"))
    full = not made["quick"] and made["seed"] == SEED and _played_to_the_end(record)
    used = [table for table in record["shown"] if table["caption"].startswith(tuple(SECTIONS.values()))]
    shown = [table for table in used if f"T = {HORIZONS[0]:,}:" not in table["caption"]]  # the shortest is in the CSV
    kept = {"registered": full, "text": record["text"], "claims": record["claims"], "shown": shown}
    KEPT.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    shutil.copy(folder / "figures" / "family.png", DOCS / "_static" / "family.png")
    for name in ("family", "family-ratios"):
        shutil.copy(folder / "data" / f"{name}.csv", DOCS / "_static" / f"{name}.csv")


def _played_to_the_end(record: dict[str, Any]) -> bool:
    return any(f"T = {HORIZONS[-1]:,}" in shown["caption"] for shown in record["shown"])


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
    parts += [paragraph for paragraph in kept["text"] if not paragraph.startswith(("Not in the paper", *HEADS))]
    parts += _head("What Vet was to reach")
    lines = [
        [goal["says"], MARKS[goal["verdict"]] if kept["registered"] else "(pilot)", goal["evidence"]]
        for goal in kept["claims"]
    ]
    parts.append(markdown_table(["goal", "", "measured"], lines))
    for head, captions in SECTIONS.items():
        found = [table for table in kept["shown"] if table["caption"].startswith(captions) and table["rows"]]
        parts += _head(head) if found else []
        for table in found:
            parts += [table["caption"], markdown_table(table["heads"], table["rows"])]
    parts += _head("The plan, as it was written down before")
    parts.append("\n".join(f"- {p}" for p in kept["text"] if p.startswith(HEADS)))
    return "\n\n".join(parts)


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
