"""The documentation without running it (``make docs`` does that): its names exist, its links lead somewhere."""

from __future__ import annotations

import ast
import csv
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pmbandits as pmb
import pmbandits.theory

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
REFERENCE = sorted((DOCS / "reference").glob("*.md"))
DIRECTIVE = re.compile(r"^\.\. auto(class|function|data|module):: (\S+)", re.MULTILINE)


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_build"] = module
    spec.loader.exec_module(module)
    return module


BUILD = builder()
PAGES: list[Path] = BUILD.sources()


def resolve(dotted: str) -> Any:
    found: Any = pmb
    for part in dotted.split(".")[1:]:
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(f"{found.__name__}.{part}")
    return found


def documented() -> set[str]:
    return {name for page in REFERENCE for _, name in DIRECTIVE.findall(page.read_text(encoding="utf-8"))}


def test_every_public_name_is_in_the_reference() -> None:
    names = documented()
    assert [n for n in pmb.__all__ if f"pmbandits.{n}" not in names] == []
    elsewhere = {"gaps", "half_wasserstein_diameter"}  # listed with the oracle and the arms
    assert [n for n in pmbandits.theory.__all__ if f"pmbandits.theory.{n}" not in names and n not in elsewhere] == []


def test_every_name_in_the_reference_exists() -> None:
    names = documented()
    assert len(names) > 100
    for name in names:
        assert resolve(name) is not None


@pytest.mark.parametrize("page", PAGES, ids=BUILD.name_of)
def test_the_names_that_examples_use_exist(page: Path) -> None:
    for language, code in BUILD.examples(page):
        if language != "python":
            continue
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pmb":
                assert hasattr(pmb, node.attr), f"pmb.{node.attr}"


@pytest.mark.parametrize("page", [ROOT / "README.md", *(p for p in PAGES if p.suffix == ".md")], ids=lambda p: p.stem)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    built = {"changelog.md": ROOT / "CHANGELOG.md", "contributing.md": ROOT / "CONTRIBUTING.md"}
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        file = link.partition("#")[0]
        target = (page.parent / file).resolve() if file else page
        written = target.with_suffix(".py")  # a gallery page is made from its script
        assert target.exists() or written.exists() or target.name in built, link


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = set(re.findall(r"^([\w/-]+)$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE))
    inner = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    listed |= {f"reference/{name}" for name in re.findall(r"^(\w+)$", inner, re.MULTILINE)}
    names = {BUILD.name_of(p) for p in PAGES if p.suffix == ".md"} - {"index"}
    assert names <= listed


def test_gallery_scripts_become_pages_with_text_and_code() -> None:
    scripts = [p for p in PAGES if p.suffix == ".py"]
    assert len(scripts) >= 5
    for path in scripts:
        text = BUILD.markdown(path)
        assert text.startswith("# ")
        assert len(BUILD.examples(path)) >= 3


def test_every_page_can_be_had_as_plain_markdown(tmp_path: Path) -> None:
    module = script("plain")
    pages = {BUILD.name_of(p): BUILD.markdown(p) for p in PAGES if p.stem != "index"}
    module.write(pages, tmp_path, "A library.")
    listed = (tmp_path / "llms.txt").read_text(encoding="utf-8")
    assert listed.count("\n- [") == len(pages)
    for name in pages:
        assert f"]({name}.md): " in listed
        text = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        assert "{eval-rst}" not in prose and "{toctree}" not in prose and "{container}" not in prose
    reference = (tmp_path / "reference" / "oracle.md").read_text(encoding="utf-8")
    assert "### pmbandits.oracle(" in reference and (pmb.oracle.__doc__ or "").splitlines()[0] in reference


def test_a_claim_that_the_numbers_deny_fails_the_page() -> None:
    shown, _ = BUILD._python("x = 3\nprint(x)\n# check: x == 3 and shown == '3\\n'\n", {}, "a page")
    assert shown == "3\n"
    with pytest.raises(ValueError, match="x > 5"):
        BUILD._python("x = 3\n# check: x > 5\n", {}, "a page")
    checked = [p for p in PAGES if any(BUILD.CHECK.search(code) for _, code in BUILD.examples(p))]
    assert len(checked) >= 12
    for page in checked:
        shown_on_page = BUILD.assembled(page, [{"text": "", "html": "", "figures": [], "widths": []}] * 99, 0)
        assert "# check:" not in shown_on_page


def script(name: str) -> Any:
    """A script of the documentation."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_the_pages_say_about_claims_is_what_the_run_left() -> None:
    module = script("claims")
    kept = json.loads(module.KEPT.read_text(encoding="utf-8"))
    assert kept["registered"]  # the whole run at full size, with the seed on which nothing was chosen
    for path in module.PAGES:
        text = path.read_text(encoding="utf-8")
        assert text == module.page(text, kept)  # else: python docs/claims.py
    limits = (DOCS / "limits.md").read_text(encoding="utf-8")
    for claim in (*kept["paper"], *kept["ours"]):
        assert (claim["says"].replace("|", "\\|") in limits) == (claim["verdict"] != "holds")
    counts = kept["counts"]["paper"]
    assert f"Of {len(kept['paper'])} claims of the paper {counts['holds']} held" in limits


def test_the_comparison_of_the_family_is_what_its_run_left() -> None:
    module = script("family")
    kept = json.loads(module.KEPT.read_text(encoding="utf-8"))
    text = module.PAGE.read_text(encoding="utf-8")
    assert text == module.page(text, kept)  # else: python docs/family.py
    with (DOCS / "_static" / "family-ratios.csv").open(encoding="utf-8", newline="") as file:
        ratios = [row for row in csv.DictReader(file) if row["others"] == "all" and int(row["t"]) > 1_000]
    assert ratios
    for row in ratios:
        assert f"| {float(row['ratio']):.2f} ± {float(row['ratio_error']):.2f} |" in text
