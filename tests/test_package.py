"""The package as a whole: light to import, complete, typed, and its README true."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

import pmbandits as pmb
from tests.helpers import python
from tools import readme

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
HEAVY = ("scipy.stats", "scipy.optimize", "matplotlib", "typer", "rich", "pyarrow", "numba", "pandas")


# ---- importing ------------------------------------------------------------------------------------------


def test_import_loads_nothing_heavy() -> None:
    loaded = python("import sys, pmbandits; print(*sys.modules)").split()
    assert "pmbandits" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_evaluating_a_sample_loads_nothing_that_it_does_not_need() -> None:
    code = """
        import sys, pmbandits as pmb
        assert abs(pmb.GiniDeviation().value([1.0, 2.0, 4.0]) - 2 / 3) < 1e-12
        print(*sys.modules)
    """
    loaded = python(code).split()
    assert [name for name in HEAVY if name in loaded] == []


def test_every_public_name_resolves_and_is_listed() -> None:
    assert len(pmb.__all__) == len(set(pmb.__all__)) > 20
    for name in pmb.__all__:
        assert getattr(pmb, name) is not None
        assert name in dir(pmb)


@pytest.mark.parametrize("package", [pmb, pmb.theory])
def test_type_checkers_see_the_names_that_are_loaded_when_they_are_used(package: types.ModuleType) -> None:
    checked = next(n for n in ast.parse(Path(package.__file__).read_text("utf-8")).body if isinstance(n, ast.If))
    seen = {(n.module, alias.name) for n in checked.body if isinstance(n, ast.ImportFrom) for alias in n.names}
    submodules = {("pmbandits", name) for name in ("kit", "simulation", "theory")}
    assert {name for _, name in seen - submodules} == set(package.__all__)
    for module, name in seen - submodules:
        assert getattr(package, name) is getattr(importlib.import_module(module), name)


def test_star_import_brings_every_public_name() -> None:
    assert python("from pmbandits import *; import pmbandits; print(set(pmbandits.__all__) <= set(dir()))") == "True"


@pytest.mark.parametrize("first", ["Bandit", "gaps", "plot_mixture"])
def test_no_public_name_is_hidden_by_a_module_of_the_same_name_whatever_is_used_first(first: str) -> None:
    code = f"""
        import types, pmbandits as pmb
        pmb.{first}
        print([n for n in pmb.__all__ if isinstance(getattr(pmb, n), types.ModuleType)])
    """
    assert python(code) == "[]"


@pytest.mark.slow
def test_public_names_survive_the_import_of_every_module() -> None:
    names = [m.name for m in pkgutil.walk_packages(pmb.__path__, "pmbandits.")]
    names = [n for n in names if not n.endswith("__main__")]
    assert "pmbandits.optimize" in names
    code = f"""
        import importlib, types, pmbandits as pmb
        for name in {names!r}:
            importlib.import_module(name)
        print([n for n in pmb.__all__ if isinstance(getattr(pmb, n), types.ModuleType)])
    """
    assert python(code) == "[]"


def test_an_unknown_attribute_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no attribute 'GiniDeviaton'"):
        _ = pmb.GiniDeviaton  # type: ignore[attr-defined]
    assert not hasattr(pmb, "nothing_of_this_name")


def test_the_version_is_the_one_of_pyproject_and_of_the_installation() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert pmb.__version__ == declared
    assert importlib.metadata.version("pmbandits") == declared


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(pmb.__file__).parent / "py.typed").is_file()


def test_the_command_is_installed() -> None:
    scripts = importlib.metadata.entry_points(group="console_scripts", name="pmbandits")
    assert [script.value for script in scripts] == ["pmbandits.cli:main"]


# ---- tests are found by name ----------------------------------------------------------------------------

# tests/x/test_y.py tests x/y.py, x/_y.py or the package x/y (pages/test_studio_answers.py: pages/studio/answers.py).
# These test what several modules do together.
CROSS_CUTTING = {
    "advice/test_real_data",
    "cli/test_help", "client/test_page", "docs/test_paper", "engine/test_bounded_memory", "engine/test_interrupts",
    "engine/test_replay", "fuzz/test_short", "metrics/test_properties", "mixtures/test_survival_table_rows",
    "optimize/test_random_instances", "optimize/test_vertical_and_large", "pages/test_board_browser",
    "pages/test_studio_browser", "research/test_judging", "research/test_imports", "policies/test_contract",
    "policies/test_mixture_learners", "policies/test_reference", "policies/test_vet_segments", "service/test_commands",
    "service/test_processes", "service/test_production",
    "state/test_bounds_of_arrays", "state/test_field_lifecycle", "test_notebooks",
    "test_package", "theory/test_coverage", "theory/test_guarantees",
}  # fmt: skip


def test_every_test_file_has_the_name_of_what_it_tests() -> None:
    paths = [path.relative_to(ROOT / "src" / "pmbandits") for path in (ROOT / "src" / "pmbandits").rglob("*.py")]
    paths += [
        path.relative_to(ROOT)
        for top in ("docs", "tools", "benchmarks", "research")
        for path in (ROOT / top).rglob("*.py")
    ]
    modules = set()
    for path in paths:
        first, *below = (part.strip("_") for part in path.with_suffix("").parts)
        modules |= {"/".join([first, *below]), "/".join([first, "_".join(below)]), path.parent.as_posix()}
    files = {path.relative_to(ROOT / "tests").with_suffix("").as_posix() for path in ROOT.glob("tests/**/test_*.py")}
    lost = {name for name in files - CROSS_CUTTING if re.sub(r"(^|/)test_", r"\1", name) not in modules}
    assert lost == set()
    assert files >= CROSS_CUTTING


# ---- the README -----------------------------------------------------------------------------------------


def readme_blocks() -> list[str]:
    text = README.read_text(encoding="utf-8") if README.is_file() else ""
    pattern = re.compile(r"(<!-- not run -->\s*)?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
    return [found[2] for found in pattern.finditer(text) if not found[1]]


@pytest.mark.skipif(not readme_blocks(), reason="the README has no Python block")
def test_the_python_blocks_of_the_readme_run_one_after_the_other(tmp_path: Path) -> None:
    script = tmp_path / "readme.py"
    script.write_text("\n".join(readme_blocks()), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script.name],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
        timeout=900,  # a first run compiles
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_package_index_shows_the_readme_without_links_that_lead_nowhere() -> None:
    text, version = README.read_text(encoding="utf-8"), pmb.__version__
    assert readme.LINK.search(text)
    shown = readme.rendered(text, "", version)
    assert not readme.LINK.search(shown)
    assert "](https://pypi.org/project/river/)" in shown
    assert readme.urls("", version) == {}
    absolute = readme.rendered(text, "https://example.org/p", version)
    assert "![Utility of mixtures of arms" in absolute
    assert f"](https://example.org/p/raw/v{version}/docs/demo.png)" in absolute
    assert f"](https://example.org/p/blob/v{version}/docs/quickstart.md)" in absolute
    assert readme.urls("https://example.org/p", version)["Source"] == "https://example.org/p"


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    paths = [path.partition("#")[0] for _, _, path in readme.LINK.findall(README.read_text(encoding="utf-8"))]
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_importing_cvar_names_both_tails() -> None:
    with pytest.raises(ImportError, match=r"UpperCVaR.*LowerCVaR"):
        exec("from pmbandits import CVaR")
