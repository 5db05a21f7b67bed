"""The command line: ``pmbandits`` or ``python -m pmbandits``."""

from __future__ import annotations

import sys

from pmbandits._extras import need


def main() -> None:
    """Run the command line; typer and rich are loaded only now."""
    try:
        for package in ("typer", "rich"):
            need(package, "commands")
    except ImportError as error:
        sys.exit(str(error))
    from pmbandits.cli.app import main

    main()
