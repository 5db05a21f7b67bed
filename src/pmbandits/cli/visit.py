"""``pmbandits visit``: play against a running service, to see that it works and how it feels."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from pmbandits import _validation

out = Console()
_FIRST_START_PATIENCE = 600.0  # seconds: a slow machine compiles for minutes


def visit(
    address: Annotated[
        str, typer.Argument(help="The address of the service.", metavar="URL")
    ] = "http://127.0.0.1:8000",
    key: Annotated[
        str | None, typer.Option(help="A key for asking, telling and reading.", envvar="PMBANDITS_KEY")
    ] = None,
    experiment: Annotated[
        str, typer.Option(help="Which experiment; its rewards must lie between 0 and 1.")
    ] = "example",
    rounds: Annotated[int, typer.Option(help="How many asks and tells.", min=1, max=1_000_000)] = 500,
    seed: Annotated[int, typer.Option(help="The seed of the rewards.", min=0)] = 0,
) -> None:
    """Ask a service for arms, and tell it rewards that are drawn here. Each arm has a distribution of its own.

    The example has three arms. The first pays little, the last pays much, and the second is between them. The
    preference likes outcomes that are far apart. So a mixture of the first and the last arm is best, and no single arm
    is.

    Examples:

        pmbandits visit --key pmb_0123456789ab_0123456789

        pmbandits visit http://127.0.0.1:9000 --experiment example --rounds 200
    """
    from pmbandits.client import ServiceError

    try:
        found = _play_rounds(address, key, experiment, rounds, seed)
    except ServiceError as error:
        raise ValueError(str(error)) from None
    table = Table("arm", "pulls", "share played", "share wanted", "mean reward", box=None)
    for arm in found["arms"]:
        played = "" if arm["played"] is None else f"{100 * arm['played']:.1f} %"
        mean = "" if arm["mean"] is None else f"{arm['mean']:.3f}"
        name = _validation.escape_control_characters(arm["arm"])
        table.add_row(name, f"{arm['pulls']:,}", played, f"{100 * arm['wanted']:.1f} %", mean)
    out.print(
        f"After {rounds:,} asks and tells, the experiment {_validation.escape_control_characters(experiment)!r} has:",
        highlight=False,
    )
    out.print(table)
    if found["certainty"]:
        out.print(found["certainty"]["sentence"], highlight=False)


def _play_rounds(address: str, key: str | None, experiment: str, rounds: int, seed: int) -> dict[str, Any]:
    """Play rounds against the service, and return the state of the experiment."""
    import numpy as np

    from pmbandits.client import connect

    rng = np.random.default_rng(seed)
    if not connect(address, patience=0.0).ready():
        out.print(
            f"waiting for {_validation.escape_control_characters(address)}; "
            "at its first start a service compiles for a minute …"
        )
        connect(address, patience=_FIRST_START_PATIENCE).ready()
    with connect(address, key=key) as client:
        live_experiment = client.experiment(experiment)
        names = live_experiment.names
        low, high = np.linspace(2.0, 8.0, len(names)), np.linspace(8.0, 2.0, len(names))
        places = {name: place for place, name in enumerate(names)}
        for _ in track(range(rounds), "asking and telling", console=out, transient=True):
            ticket = live_experiment.ask()
            place = places.setdefault(ticket.arm, len(places) % len(names))
            live_experiment.tell(ticket, float(rng.beta(low[place], high[place])))
        return live_experiment.state()
