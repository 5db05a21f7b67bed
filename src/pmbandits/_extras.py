"""Packages that only a part of the library needs: each is imported when that part is used, in one clear sentence."""

from __future__ import annotations

import importlib
from typing import Any

# The packages of each extra of pyproject.toml. "cli" brings plots, specs and tables along: commands draw and read.
EXTRAS = {
    "plots": ("matplotlib",),
    "tables": ("pyarrow", "openpyxl"),
    "frames": ("pandas", "polars", "xarray"),
    "specs": ("pydantic",),
    "cli": ("typer", "rich"),
    "service": ("fastapi", "uvicorn", "sqlalchemy", "msgspec", "psycopg"),
}


def import_optional(module: str, what: str) -> Any:
    """Import a package that is not always installed, or say how to get it.

    >>> import_optional("matplotlib.colors", "pictures").__name__
    'matplotlib.colors'
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != package:  # it is there, but something that it needs is not
            raise
        extra = next((name for name, packages in EXTRAS.items() if package in packages), None)
        command = f"pip install 'pmbandits[{extra}]'" if extra else f"pip install {package}"
        raise ImportError(
            f"{what} need the package {package}, which is not installed: {command}.", name=package
        ) from None
