"""The command line: ``pmbandits`` or ``python -m pmbandits``."""

from __future__ import annotations

import os
import sys

from pmbandits._extras import import_optional

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> None:
    """Run the command line; typer and rich are loaded only now."""
    if sys.argv[1:2] in (["studio"], ["serve"]):  # before numpy is loaded: in small products threads only wait
        for name in ONE_THREAD:
            os.environ.setdefault(name, "1")
    try:
        for package in ("typer", "rich"):
            import_optional(package, "commands")
    except ImportError as error:
        sys.exit(str(error))
    from pmbandits.cli.app import main

    main()
