"""``pmbandits serve`` and ``pmbandits key``: the live service, and who may use it."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pmbandits._check import readable
from pmbandits._extras import need

if TYPE_CHECKING:
    from pmbandits.service.store import Store as Opened

out = Console()
app = typer.Typer(help="Keys of the service: who may do what.", no_args_is_help=True)

Store = Annotated[
    str,
    typer.Option(
        help="Where experiments are kept: sqlite:///file.db or postgresql://…", envvar="PMBANDITS_STORE", metavar="URL"
    ),
]
_DEFAULT = "sqlite:///experiments.db"


def serve(
    store: Store = _DEFAULT,
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 means all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen at.", min=1, max=65535)] = 8000,
    processes: Annotated[int, typer.Option(help="How many processes answer requests.", min=1, max=64)] = 1,
    without_keys: Annotated[
        bool, typer.Option("--open", help="Ask for no keys; only on a loopback address such as 127.0.0.1.")
    ] = False,
    rate: Annotated[
        float, typer.Option(help="How many requests a second one key may send to each process.", min=1)
    ] = 20_000.0,
    example: Annotated[
        bool, typer.Option("--example", help="Make an experiment to try it with, and a key for it.")
    ] = False,
) -> None:
    """Serve experiments over HTTP: every ask and tell is on disk before it is answered.

    Examples:

        pmbandits serve --example

        pmbandits serve --store sqlite:///shop.db --port 9000

        pmbandits serve --store postgresql://localhost/shop --host 0.0.0.0 --processes 4
    """
    _needs_extra()
    from pmbandits.service.run import check
    from pmbandits.service.run import serve as run
    from pmbandits.service.settings import Settings

    settings = Settings(store=store, host=host, port=port, open=without_keys, processes=processes, rate=rate)
    check(settings)
    lines = _addresses(host, port)
    lines |= _example(store) if example else _advice(store, without_keys)
    out.print("\n".join(f"{name:<12}{text}" for name, text in lines.items()), highlight=False, soft_wrap=True)
    run(settings)


def _addresses(host: str, port: int) -> dict[str, str]:
    """Where it can be reached, from this machine at least."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    address = f"http://{f'[{name}]' if ':' in name else name}:{port}"
    return {"address": address, "board": f"{address}/board/", "interface": f"{address}/docs"}


def _example(store: str) -> dict[str, str]:
    """An experiment with three offers, unless there is one; and a new key, which takes the place of the last one."""
    from pmbandits.service import keys
    from pmbandits.service.example import LABEL, NAME, SPEC

    opened = _opened(store)
    if opened.find(NAME) is None:
        opened.create(NAME, SPEC, _who())
    for old in keys.listed(opened):
        if old.revoked is None and old.label == LABEL and old.experiments == frozenset({NAME}):
            keys.revoke(opened, old.id, _who())
    key = keys.create(opened, ("read", "ask", "tell"), [NAME], LABEL, _who())
    opened.close()
    return {"experiment": NAME, "key": key}


def _advice(store: str, without_keys: bool) -> dict[str, str]:
    """What somebody lacks who has no key yet."""
    from pmbandits.service import keys

    opened = _opened(store)
    good = without_keys or any(key.revoked is None for key in keys.listed(opened))
    opened.close()
    return {} if good else {"key": "there is none yet; make one with: pmbandits key create --scopes admin"}


@app.command("create")
def create_key(
    scopes: Annotated[
        str, typer.Option(help="What the key allows: read, ask, tell, admin; admin includes all.")
    ] = "read,ask,tell",
    experiment: Annotated[
        list[str] | None,
        typer.Option("--experiment", "-e", help="Only for this experiment; can be given several times."),
    ] = None,
    label: Annotated[str, typer.Option(help="A note on what the key is for.")] = "",
    store: Store = _DEFAULT,
) -> None:
    """Make a key. It is shown once, and cannot be shown again.

    Examples:

        pmbandits key create --label 'the web shop'

        pmbandits key create --scopes admin --store sqlite:///shop.db

        pmbandits key create --scopes read --experiment offers --experiment prices
    """
    _needs_extra()
    from pmbandits.service import keys
    from pmbandits.service.store import check_name

    for name in experiment or ():
        check_name(name)
    opened = _opened(store, new=True)
    wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
    print(keys.create(opened, wanted, experiment or None, label, _who()))
    opened.close()


@app.command("list")
def list_keys(store: Store = _DEFAULT) -> None:
    """Show all keys: what they are for, and when they were used last (UTC).

    Examples:

        pmbandits key list

        pmbandits key list --store sqlite:///shop.db
    """
    _needs_extra()
    from pmbandits.service import keys

    opened = _opened(store)
    table = Table("key", "label", "scopes", "experiments", "made", "last used", box=None, pad_edge=False)
    for place in (0, 4, 5):
        table.columns[place].no_wrap = True
    for column in table.columns:
        column.overflow = "fold"
    for key in keys.listed(opened):
        where = "all" if key.experiments is None else ", ".join(sorted(key.experiments))
        used = "revoked" if key.revoked is not None else _when(key.used, "%Y-%m-%d %H:%M")
        cells = (key.id, key.label, ", ".join(sorted(key.scopes)), where, _when(key.created, "%Y-%m-%d"), used)
        table.add_row(*(escape(readable(cell)) for cell in cells))
    out.print(table)
    opened.close()


@app.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(help="The twelve characters that pmbandits key list shows.")],
    store: Store = _DEFAULT,
) -> None:
    """Make a key invalid. All processes know it after a second at most.

    Examples:

        pmbandits key revoke 0123456789ab

        pmbandits key revoke 0123456789ab --store sqlite:///shop.db
    """
    _needs_extra()
    from pmbandits.service import keys

    opened = _opened(store)
    number = key.removeprefix("pmb_").partition("_")[0]  # also the whole key, or its beginning
    keys.revoke(opened, number, _who())
    opened.close()
    print(f"{readable(number)} is revoked.")


def _opened(url: str, *, new: bool = False) -> Opened:
    from pmbandits.service.store import opened

    return opened(url, new=new)


def _who() -> str:
    return f"command line, {readable(getpass.getuser())}"


def _when(at: int | None, form: str) -> str:
    return "never" if at is None else datetime.fromtimestamp(at / 1000, UTC).strftime(form)


def _needs_extra() -> None:
    for package in ("fastapi", "uvicorn", "sqlalchemy", "alembic", "msgspec"):
        need(package, "serving experiments, and their keys,")
