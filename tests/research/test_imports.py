"""Research is a user of the library like any other: it takes public names only."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[2] / "research").glob("**/*.py"))
PUBLIC = ("pmbandits", "pmbandits.kit", "pmbandits.simulation", "pmbandits.testing", "pmbandits.theory")
NOT_OURS = ("os._exit", "util._run_finalizers", "look._replace")  # of Python's own library


def is_public(module: str, name: str) -> bool:
    """Whether a name is one that a package of the library offers to everybody."""
    known = getattr(importlib.import_module(module), "__all__", ("PolicyContract",)) if module in PUBLIC else ()
    return name in known or f"{module}.{name}" in (*PUBLIC, "pmbandits.__version__")


def violations(tree: ast.AST) -> Iterator[str]:
    """What a file takes of the library that is not public, and attributes that are somebody's own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pmbandits"):
            yield from (f"{node.module}.{a.name}" for a in node.names if not is_public(str(node.module), a.name))
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("pmbandits") and a.name not in PUBLIC)
        elif isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            if node.attr.startswith("_") and not node.attr.endswith("__") and not own:
                yield ast.unparse(node)
            if isinstance(node.value, ast.Name) and node.value.id == "pmb" and not is_public("pmbandits", node.attr):
                yield ast.unparse(node)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_takes_public_names_only(path: Path) -> None:
    assert [v for v in violations(ast.parse(path.read_text(encoding="utf-8"))) if v not in NOT_OURS] == []


@pytest.mark.parametrize(
    "code",
    ["from pmbandits._files import x", "from pmbandits.arms import Bandit", "from pmbandits.kit import _x",
     "import pmbandits.engine", "from pmbandits import policies", "policy._state", "pmb.policies.Track"],
)  # fmt: skip
def test_what_is_not_public_is_found(code: str) -> None:
    assert list(violations(ast.parse(code)))
