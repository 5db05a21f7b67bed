"""The kernel cache is never stale, and compiled arithmetic is that of numpy."""

from __future__ import annotations

import ast
import os
import pickle
import stat
from pathlib import Path

import pytest

from pmbandits.state import compile as _compile
from tests.helpers import python

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


@pytest.mark.slow
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
    first = _compile.hash_of_files([kernel_file, plain])
    assert _compile.hash_of_files([plain, kernel_file]) == first  # the order of the file system does not matter
    plain.write_text("x = 2\n")
    second = _compile.hash_of_files([kernel_file, plain])
    kernel_file.write_text("@kernel\ndef f(x):\n    return x + 1\n")
    assert len({first, second, _compile.hash_of_files([kernel_file, plain])}) == 3


def test_the_fingerprint_tells_files_of_one_name_in_two_folders_apart(tmp_path: Path) -> None:
    one, two = tmp_path / "a" / "k.py", tmp_path / "b" / "k.py"
    for path, text in ((one, "@kernel\nx = 1\n"), (two, "@kernel\nx = 2\n")):
        path.parent.mkdir()
        path.write_text(text)
    before = _compile.hash_of_files([one, two])
    one.write_text("@kernel\nx = 2\n")
    two.write_text("@kernel\nx = 1\n")
    assert _compile.hash_of_files([one, two]) != before


DIVIDE = """
from pmbandits.state.compile import kernel

@kernel
def divide(x, y):
    return x / y
"""


def test_a_kernel_of_a_user_divides_like_python_and_leaves_numbas_settings_alone(tmp_path: Path) -> None:
    (tmp_path / "division.py").write_text(DIVIDE)
    code = f"""
        import sys, numba
        before = numba.config.CACHE_DIR
        sys.path.insert(0, {str(tmp_path)!r})
        from division import divide
        from pmbandits.state.compile import cache_folder
        assert numba.config.CACHE_DIR == before
        assert divide(1.0, 4.0) == 0.25
        try:
            divide(1.0, 0.0)
        except ZeroDivisionError:
            print(any(cache_folder().rglob("*.nbc")))
    """
    assert python(code, PMBANDITS_CACHE_DIR=str(tmp_path / "cache")) == "True"


# ---- which files the cache depends on --------------------------------------------------------------------
KERNELS = {"kernel", "step", "shared", "inlined", "intrinsic"}


def _decorators(function: ast.FunctionDef) -> set[str]:
    names = (one.func if isinstance(one, ast.Call) else one for one in function.decorator_list)
    return {name.id for name in names if isinstance(name, ast.Name)}


def _home(module: str, name: str) -> Path:
    """The file in which a name of a module is defined: packages hand names on."""
    file = _compile.PACKAGE.parent / Path(*module.split("."))
    if (file / f"{name}.py").exists():
        return file / f"{name}.py"
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pmbandits"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _home(node.module, alias.name)
    return file


def test_the_cache_depends_on_every_file_from_which_kernels_take_names() -> None:
    listed, checked = set(_compile.source_files_of_machine_code(_compile.PACKAGE)), 0
    for file in _compile.PACKAGE.rglob("*.py"):
        tree = ast.parse(file.read_text())
        kernels = [node for node in tree.body if isinstance(node, ast.FunctionDef) and _decorators(node) & KERNELS]
        if not kernels:
            continue
        assert file in listed, file
        # What a body uses counts; annotations of arguments are for readers and are never compiled.
        bodies = (part for one in kernels for line in one.body for part in ast.walk(line))
        used = {name.id for name in bodies if isinstance(name, ast.Name)}
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pmbandits"):
                for alias in node.names:
                    if (alias.asname or alias.name) in used - {"Any", "FloatArray"}:
                        checked += 1
                        assert _home(node.module, alias.name) in listed, (file, alias.name)
    assert checked > 200


def test_only_files_that_are_compiled_count() -> None:
    listed = {
        str(path.relative_to(_compile.PACKAGE)) for path in _compile.source_files_of_machine_code(_compile.PACKAGE)
    }
    assert {"supports.py", "mixtures/_lazy_argmax.py", "policies/pm_ucb.py", "metrics/families/powers.py"} <= listed
    for name in ("plots.py", "engine/policy.py", "engine/policy_file.py", "simulation/run.py", "advice/recommend.py"):
        assert name not in listed


# ---- the hint on a terminal ------------------------------------------------------------------------------

HINTED = """
import sys
sys.stderr.isatty = lambda: True
sys.stderr.write = sys.stdout.write
import pmbandits as pmb
from pmbandits.state import compile
policy = pmb.Uniform  # loads kernels, and compiles none
print("loaded")
{more}
pmb.Uniform("mean", n_arms=2, support=pmb.Binary()).ask()
pmb.UCB1("mean", n_arms=2, support=pmb.Binary()).ask()
"""


@pytest.mark.slow
def test_a_terminal_is_told_once_when_the_first_kernel_is_compiled(tmp_path: Path) -> None:
    folder = str(tmp_path)
    quiet = python(HINTED.format(more="compile.silence_compile_hint()"), PMBANDITS_CACHE_DIR=str(tmp_path / "quiet"))
    assert quiet == "loaded"
    assert python(HINTED.format(more=""), PMBANDITS_CACHE_DIR=folder) == f"loaded\n{_compile.HINT}"
    assert _compile.HINT.endswith("pmbandits warm")
    assert python(HINTED.format(more=""), PMBANDITS_CACHE_DIR=folder) == "loaded"


# ---- the folder, and what is in it -----------------------------------------------------------------------
posix = pytest.mark.skipif(os.name != "posix", reason="rights are others there")


@posix
def test_the_folder_is_for_its_owner_only(kernels: KernelPackage) -> None:
    kernels.run()
    for folder in (kernels.cache, next(kernels.cache.iterdir())):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@posix
@pytest.mark.parametrize("mode", [0o770, *(pytest.param(m, marks=pytest.mark.slow) for m in (0o702, 0o777))])
def test_a_folder_that_others_can_write_to_is_not_used(kernels: KernelPackage, mode: int) -> None:
    kernels.cache.mkdir()
    kernels.cache.chmod(mode)
    assert kernels.run() == 21.0
    assert not kernels.files()


@posix
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_not_used(kernels: KernelPackage) -> None:
    kernels.cache.mkdir(mode=0o700)
    os.chown(kernels.cache, 12345, -1)
    assert kernels.run() == 21.0
    assert not kernels.files()


@posix
def test_why_a_folder_is_not_used_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setattr(_compile, "cache_folder", lambda: tmp_path / "x")
    _compile.cache_is_safe.cache_clear()
    with pytest.warns(UserWarning, match="PMBANDITS_CACHE_DIR"):
        assert not _compile.cache_is_safe()
    _compile.cache_is_safe.cache_clear()


def test_a_file_that_was_copied_over_that_of_another_kernel_is_not_run(kernels: KernelPackage) -> None:
    assert kernels.run() == 21.0
    caller, helper = (next(kernels.cache.rglob(f"{name}.*.nbc")) for name in ("caller", "helper"))
    caller.write_bytes(helper.read_bytes())
    assert kernels.run() == 21.0
    assert caller.read_bytes() != helper.read_bytes()  # it was compiled again


@pytest.mark.parametrize(
    "damage",
    ["cut off", *(pytest.param(d, marks=pytest.mark.slow) for d in ("empty", "flipped", "of numba", "another pickle"))],
)
def test_entries_that_are_damaged_or_foreign_are_compiled_again(kernels: KernelPackage, damage: str) -> None:
    assert kernels.run() == 21.0
    for path in [p for p in kernels.cache.rglob("*") if p.is_file()]:
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 255
        path.write_bytes({
            "empty": b"", "cut off": path.read_bytes()[: len(raw) // 2], "flipped": bytes(raw),
            "of numba": pickle.dumps("0.61.0") + pickle.dumps((1, {})), "another pickle": pickle.dumps([1, 2]),
        }[damage])  # fmt: skip
    spoiled = kernels.files()
    assert kernels.run() == 21.0
    repaired = kernels.files()
    assert set(repaired) == set(spoiled) and all(repaired[name] != spoiled[name] for name in spoiled)
    assert kernels.run() == 21.0
    assert kernels.files() == repaired  # and now it is used
