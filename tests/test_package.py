"""The package as a whole: light to import, complete, typed, its README true, its kernels never stale."""

from __future__ import annotations

import importlib.metadata
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

import pmbandits as pmb
from pmbandits.state import compile as _compile

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
HEAVY = ("scipy.stats", "scipy.optimize", "matplotlib", "typer", "rich", "pyarrow", "numba", "pandas")


def python(code: str, **env: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


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


def test_public_names_survive_the_import_of_every_module() -> None:
    names = [m.name for m in pkgutil.walk_packages(pmb.__path__, "pmbandits.") if not m.name.endswith("__main__")]
    assert "pmbandits.best" in names
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


# ---- compiled kernels -----------------------------------------------------------------------------------

CALLER = """
from pmbandits.state.compile import kernel
from {package}.helper import b

@kernel
def a(x):
    return b(x) + 1.0
"""
HELPER = """
from pmbandits.state.compile import kernel

@kernel
def b(x):
    return {factor} * x
"""
MAIN = """
import pathlib, sys
from pmbandits.state import compile as _compile
sys.path.insert(0, {root!r})
_compile.PACKAGE = pathlib.Path({root!r}) / {package!r}
from {package}.caller import a
print(a(10.0))
"""


class KernelPackage:
    """A small package with two kernels in two files, run in fresh interpreters with its own cache folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.name = root, "stalecheck"
        self.folder, self.cache = root / self.name, root / "cache"
        self.folder.mkdir()
        (self.folder / "__init__.py").write_text("")
        (self.folder / "caller.py").write_text(CALLER.format(package=self.name))
        self.write_helper("2.0")

    def write_helper(self, factor: str) -> None:
        (self.folder / "helper.py").write_text(HELPER.format(factor=factor))

    def run(self) -> float:
        code = MAIN.format(root=str(self.root), package=self.name)
        return float(python(code, PMBANDITS_CACHE_DIR=str(self.cache), PYTHONDONTWRITEBYTECODE="1"))

    def files(self) -> dict[str, int]:
        return {str(p.relative_to(self.cache)): p.stat().st_mtime_ns for p in self.cache.rglob("*") if p.is_file()}


@pytest.fixture
def kernels(tmp_path: Path) -> KernelPackage:
    return KernelPackage(tmp_path)


def test_a_changed_helper_in_another_file_changes_the_answer_of_its_caller(kernels: KernelPackage) -> None:
    assert kernels.run() == 21.0
    before = kernels.files()
    assert any(name.endswith(".nbc") for name in before)  # compiled code was kept
    kernels.write_helper("3.0")
    assert kernels.run() == 31.0
    assert set(before) < set(kernels.files())  # a folder of its own, the old one untouched
    kernels.write_helper("2.0")
    assert kernels.run() == 21.0


def test_an_unchanged_package_uses_the_cache_and_writes_nothing(kernels: KernelPackage) -> None:
    assert kernels.run() == 21.0
    before = kernels.files()
    assert before
    assert kernels.run() == 21.0
    assert kernels.files() == before


def test_the_fingerprint_follows_every_source_file(tmp_path: Path) -> None:
    # constants of a file without kernels are frozen into the kernels that use them
    kernel_file, plain = tmp_path / "k.py", tmp_path / "p.py"
    kernel_file.write_text("@kernel\ndef f(x):\n    return x\n")
    plain.write_text("x = 1\n")
    first = _compile.fingerprint([kernel_file, plain])
    assert _compile.fingerprint([plain, kernel_file]) == first  # the order of the file system does not matter
    plain.write_text("x = 2\n")
    second = _compile.fingerprint([kernel_file, plain])
    kernel_file.write_text("@kernel\ndef f(x):\n    return x + 1\n")
    assert len({first, second, _compile.fingerprint([kernel_file, plain])}) == 3


def test_the_fingerprint_tells_files_of_one_name_in_two_folders_apart(tmp_path: Path) -> None:
    one, two = tmp_path / "a" / "k.py", tmp_path / "b" / "k.py"
    for path, text in ((one, "@kernel\nx = 1\n"), (two, "@kernel\nx = 2\n")):
        path.parent.mkdir()
        path.write_text(text)
    before = _compile.fingerprint([one, two])
    one.write_text("@kernel\nx = 2\n")
    two.write_text("@kernel\nx = 1\n")
    assert _compile.fingerprint([one, two]) != before


DIVIDE = """
from pmbandits.state.compile import kernel

@kernel
def divide(x, y):
    return x / y
"""


def test_a_kernel_divides_like_numpy_and_leaves_numbas_settings_alone(tmp_path: Path) -> None:
    (tmp_path / "division.py").write_text(DIVIDE)
    code = f"""
        import math, sys, numba
        before = numba.config.CACHE_DIR
        sys.path.insert(0, {str(tmp_path)!r})
        from division import divide
        from pmbandits.state.compile import cache_folder
        assert numba.config.CACHE_DIR == before
        assert math.isinf(divide(1.0, 0.0))
        print(any(cache_folder().rglob("*.nbc")))
    """
    assert python(code, PMBANDITS_CACHE_DIR=str(tmp_path / "cache")) == "True"
