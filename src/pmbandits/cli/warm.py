"""``pmbandits warm``: compile everything now, so that later commands start at once."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console


def warm(
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="How many processes; by default one for each core.", min=1)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Compile now what would be compiled on first use. If you stop it, the same command goes on where it was.

    Examples:

        pmbandits warm

        pmbandits warm --jobs 1 --quiet
    """
    from pmbandits.warming import warm as compile_all

    done = compile_all(jobs, progress=False if quiet else None)
    if not quiet:
        Console().print(str(done), highlight=False, markup=False, soft_wrap=True)
