"""The command line: ``pmbandits`` or ``python -m pmbandits``."""

from __future__ import annotations


def main() -> None:
    """Run the command line; typer and rich are loaded only now."""
    from pmbandits.cli.app import main

    main()
