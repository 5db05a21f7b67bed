"""The pages about the paper: every label is one of the paper's, and every name is one of the code's."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import pmbandits as pmb

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "paper-items.md"
# All labels of the paper's LaTeX source.
LABELS = frozenset((Path(__file__).parent / "paper-labels.txt").read_text(encoding="utf-8").splitlines())
STATES = ("identical", "differs", "not compared")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| item |")
]
QUOTED = re.compile(r"`((?:eq|lemma|theorem|corollary|table|fig|sec|algorithm|assumption): ?[^`]+)`")


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def state(row: list[str]) -> str:
    return next(known for known in STATES if row[3].startswith(known))


def resolve(name: str) -> object:
    """A file of the repository, a public name, or a function of a module."""
    if "/" in name:
        assert (ROOT / name).is_file(), name
        return ROOT / name
    if ":" in name:
        module, _, function = name.partition(":")
        return getattr(importlib.import_module(module), function)
    if name.startswith("pmbandits."):
        return importlib.import_module(name)
    first, *rest = name.split(".")
    assert first == "pmb", name
    found: object = pmb
    for part in rest:
        found = getattr(found, part)
    return found


def test_all_items_of_the_audit_are_there() -> None:
    assert len(ROWS) == 170
    assert all(len(row) == 4 and row[0] and row[2] for row in ROWS)


def test_the_page_counts_its_states() -> None:
    counts = [sum(state(row) == known for row in ROWS) for known in STATES]
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    said = re.search(
        r"Of the 170 items (\d+) are identical, (\d+) differ in the way .*?, and (\d+) were not compared", page
    )
    assert said is not None
    assert [int(number) for number in said.groups()] == counts


def test_what_differs_says_how() -> None:
    for row in ROWS:
        if state(row) == "differs":
            assert row[3].startswith("differs: "), row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_labels_and_names_of_an_item_exist(row: list[str]) -> None:
    assert set(quoted(row[1])) <= LABELS
    for name in quoted(row[2]):
        assert resolve(name) is not None


@pytest.mark.parametrize("folder", ["src", "research", "docs"])
def test_every_label_that_is_quoted_is_the_papers(folder: str) -> None:
    found = 0
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in (".py", ".md") and "_build" not in path.parts:
            for label in QUOTED.findall(path.read_text(encoding="utf-8")):
                if "…" not in label:
                    assert label in LABELS, f"{path.relative_to(ROOT)}: {label}"
                    found += 1
    assert found > 5


@pytest.mark.parametrize(
    "label", ["eq: ETC_samp", "eq:any_regret", "eq: CIRT_UCB_LCB", "eq:empirical_CDF", "eq:UCB_alpha"]
)
def test_the_advertised_search_finds_labels_in_the_source(label: str) -> None:
    assert any(label in path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
