"""In Jupyter: each picture is there exactly once, and what the library returns is shown as a table, not as raw text."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pmbandits as pmb

DOCS = Path(__file__).parent.parent / "docs"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_build_for_notebooks", DOCS / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def played(cells: list[str], folder: Path) -> list[list[Any]]:
    """What each cell of a notebook shows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Jupyter's own packages
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells])
        client = nbclient.NotebookClient(book, timeout=300, kernel_name="python3")
        library = str(Path(pmb.__file__).parent.parent)  # the kernel tests the same code as we do
        client.execute(cwd=str(folder), env={**os.environ, "PYTHONPATH": library})
    return [list(cell.outputs) for cell in book.cells]


def pictures(outputs: list[Any]) -> int:
    return sum("image/png" in output.get("data", {}) for output in outputs)


def errors(outputs: list[Any]) -> str:
    return "".join(output.text for output in outputs if output.get("name") == "stderr")


@pytest.mark.slow
def test_pictures_appear_once_and_results_are_tables(tmp_path: Path) -> None:
    draws = [
        "pmb.plot_mixture(pmb.GiniDeviation(), coins)",
        "pmb.plot_distortion(pmb.UpperCVaR(0.9))",
        "advice = pmb.advise({'a': [0, 1, 0, 0, 1], 'b': [1, 1, 1, 0, 1]}, 'gini')\nadvice.plot()",
        "parts = advice.plot()",
        "pmb.plot_arms(coins); assert matplotlib.is_interactive()",
    ]
    shows = ["policy.certainty()", "policy.estimates", "policy.confidence", "pmb.theory.table(3)", "policy", "advice",
             "pmb.simulate('gini', coins, [pmb.Uniform()], 100, trials=3).summary()"]  # fmt: skip
    start = (
        "import matplotlib, pmbandits as pmb\n"
        "coins = pmb.Bandit.bernoulli([0.2, 0.9])\n"
        "policy = pmb.Track(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())\n"
        "policy.tell([0, 1] * 20, [0, 1] * 10 + [1, 1] * 10)"
    )
    first, *rest = played([start, *draws, *shows, "parts[0].figure"], tmp_path)
    assert first == []
    for code, outputs in zip(draws, rest, strict=False):
        assert pictures(outputs) == 1, code
        assert errors(outputs) == ""
    for code, outputs in zip(shows, rest[len(draws) :], strict=False):
        assert len(outputs) == 1, code  # nothing is printed besides
        assert "<table" in outputs[0]["data"]["text/html"], code
    assert pictures(rest[-1]) == 1  # a figure of an earlier cell can be shown again by its name


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((DOCS / "gallery").glob("*.py")), ids=lambda p: p.stem)
def test_the_gallery_runs_as_notebooks(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = builder()
    book = nbformat.from_dict(build.notebook(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nbformat.validate(book)
    outputs = played([cell.source for cell in book.cells if cell.cell_type == "code"], tmp_path)
    monkeypatch.chdir(tmp_path)
    on_the_page = build.run_page(path, tmp_path)  # the same code in plain Python
    assert [pictures(shown) for shown in outputs] == [len(block["figures"]) for block in on_the_page]
    assert sum(map(pictures, outputs)) > 0
    assert "".join(map(errors, outputs)) == ""
