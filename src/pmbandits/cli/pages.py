"""``pmbandits studio`` and ``pmbandits board``: pages for a browser on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

out = Console()
Port = Annotated[int, typer.Option(help="The port; by default any free one.", min=0, max=65535)]
Browse = Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open it in a browser.")]


def _print_address(what: str, address: str) -> None:
    out.print(f"{what}: [bold]{escape(address)}[/]  (Ctrl-C ends it)", highlight=False, soft_wrap=True)


def studio(
    data: Annotated[Path | None, typer.Argument(help="Logged rewards: CSV, Parquet, JSON lines or Excel.")] = None,
    port: Port = 0,
    browse: Browse = True,
) -> None:
    """Find out what you value, in a browser: move sliders, and see what to play. Only this machine can reach it.

    Examples:

        pmbandits studio

        pmbandits studio log.csv --no-browser --port 8080
    """
    from pmbandits.pages.web import check_web_server_installed

    check_web_server_installed("pmbandits studio")
    from pmbandits.pages.studio.app import serve_studio

    serve_studio(data, port=port, show=lambda address: _print_address("The studio", address), browse=browse)


def board(
    folder: Annotated[Path, typer.Argument(help="The folder of a simulation, running or finished.")],
    port: Port = 0,
    browse: Browse = True,
) -> None:
    """Watch a simulation in a browser, while it is played or afterwards. Only this machine can reach it.

    Examples:

        pmbandits run study.toml --out study

        pmbandits board study
    """
    from pmbandits.pages.web import check_web_server_installed

    check_web_server_installed("pmbandits board")
    from pmbandits.pages.board.folder import serve_board

    serve_board(folder, port=port, show=lambda address: _print_address("The board", address), browse=browse)
