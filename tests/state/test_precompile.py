"""Kernels compiled ahead: on the disk or not, and in an order in which parts come first."""

from __future__ import annotations

from pathlib import Path

from tests.helpers import python

KERNELS = """
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared, step

@kernel
def plain(x):
    return x + 1.0

@step("float -> float")
def part(x):
    return plain(x) * 2.0

@shared("float -> float")
def common(x):
    return part(x) - 1.0

@kernel
def first(x):
    return part(x) + common(x)

@kernel
def second(x, n):
    return plain(x) * n
"""


def run(folder: Path, code: str) -> str:
    file = folder / "mine" / "kernels.py"
    if not file.exists():  # numba looks at the time of the file
        file.parent.mkdir()
        file.write_text(KERNELS)
    head = f"import sys; sys.path.insert(0, {str(folder)!r})\nfrom mine.kernels import *\n"
    head += "from pmbandits.state.precompile import as_compile_item, compile_items_in_order\n"
    head += "entries = [as_compile_item(first, 'float'), as_compile_item(second, 'float, int')]\n"
    head += "items = compile_items_in_order(entries, 'mine')\n"
    return python(head + code, PMBANDITS_CACHE_DIR=str(folder / "cache"))


def test_parts_come_first_and_what_writes_the_same_files_waits(tmp_path: Path) -> None:
    said = run(tmp_path, "print([(item.own.py_func.__name__, sorted(item.needs)) for item in items])")
    # ``common`` is called by its address, so nobody waits for it. ``part`` and ``second`` both compile ``plain``.
    assert said == "[('part', []), ('common', [0]), ('first', [0]), ('second', [0])]"


def test_a_field_may_have_the_name_of_a_kernel(tmp_path: Path) -> None:
    file = tmp_path / "mine" / "fields.py"
    file.parent.mkdir()
    file.write_text(
        "from pmbandits.state.linking import step\n@step('state -> float')\ndef level(s):\n    return s.level\n"
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport mine.fields\n"
    code += (
        "from pmbandits.state.precompile import compile_items_in_order\nprint(len(compile_items_in_order([], 'mine')))"
    )
    assert python(code) == "1"


def test_what_was_made_is_found_on_the_disk_by_the_next_process(tmp_path: Path) -> None:
    look = "print([item.is_on_disk() for item in items])"
    assert run(tmp_path, look) == "[False, False, False, False]"
    assert run(tmp_path, f"items[1].compile_or_load()\n{look}") == "[True, True, False, False]"
    assert run(tmp_path, look) == "[True, True, False, False]"
    for data in (tmp_path / "cache").rglob("*common*.nbc"):
        data.unlink()
    assert run(tmp_path, look) == "[True, False, False, False]"


def test_a_kernel_that_python_calls_is_another_than_the_one_for_kernels(tmp_path: Path) -> None:
    code = "one = as_compile_item(common, 'float'); one.compile_or_load()\n"
    code += "print(one.is_on_disk(), items[1].is_on_disk(), common(1.0))"
    assert run(tmp_path, code) == "True False 3.0"
