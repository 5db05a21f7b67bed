"""``pmbandits serve`` and ``pmbandits key``: the live service, and who may use it."""

from __future__ import annotations

import getpass
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pmbandits._extras import import_optional
from pmbandits._validation import check_choice, escape_control_characters

if TYPE_CHECKING:
    from pmbandits.service.store import Store as OpenStore

out = Console()
app = typer.Typer(help="Keys of the service: who may do what.", no_args_is_help=True)

Store = Annotated[
    str,
    typer.Option(
        help="Where experiments are kept: sqlite:///file.db or postgresql://…", envvar="PMBANDITS_STORE", metavar="URL"
    ),
]
_DEFAULT_STORE = "sqlite:///experiments.db"


_SETTINGS = ("store", "host", "port", "processes", "open", "rate", "log_format", "log_level")  # in a file
_CONFIG_HELP = f"A TOML file with {', '.join(_SETTINGS)}. Options and environment variables come before it."


def _use_config_file_as_defaults(context: typer.Context, path: Path | None) -> Path | None:
    """Take the settings of a TOML file as defaults; options and environment variables come before them."""
    if path is not None:
        try:
            found = tomllib.loads(path.read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise typer.BadParameter(f"{path} cannot be read: {escape_control_characters(str(error))}") from None
        for name in found:
            check_choice("setting", name, _SETTINGS)
        if "open" in found:
            found["without_keys"] = found.pop("open")
        context.default_map = found
    return path


def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            help=_CONFIG_HELP,
            envvar="PMBANDITS_CONFIG",
            callback=_use_config_file_as_defaults,
            is_eager=True,
        ),
    ] = None,
    store: Store = _DEFAULT_STORE,
    host: Annotated[
        str, typer.Option(help="The address to listen at; 0.0.0.0 means all.", envvar="PMBANDITS_HOST")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen at.", min=1, max=65535, envvar="PMBANDITS_PORT")] = 8000,
    processes: Annotated[
        int, typer.Option(help="How many processes answer requests.", min=1, max=64, envvar="PMBANDITS_PROCESSES")
    ] = 1,
    without_keys: Annotated[
        bool, typer.Option("--open", help="Ask for no keys; only on a loopback address such as 127.0.0.1.")
    ] = False,
    rate: Annotated[
        float,
        typer.Option(
            help="How many requests a second one key may send to each process.", min=1, envvar="PMBANDITS_RATE"
        ),
    ] = 20_000.0,
    log_format: Annotated[
        str, typer.Option(help="Lines of the log: text, or json.", envvar="PMBANDITS_LOG_FORMAT")
    ] = "text",
    log_level: Annotated[
        str,
        typer.Option(help="The log has debug (every request), info, warning or error.", envvar="PMBANDITS_LOG_LEVEL"),
    ] = "info",
    example: Annotated[
        bool, typer.Option("--example", help="Make an experiment to try it with, and a key for it.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Read the whole store, say whether it can be served, and change nothing.")
    ] = False,
) -> None:
    """Serve experiments over HTTP: every ask and tell is on disk before it is answered.

    Examples:

        pmbandits serve --example

        pmbandits serve --store sqlite:///shop.db --port 9000

        pmbandits serve --store postgresql://localhost/shop --host 0.0.0.0 --processes 4

        pmbandits serve --store sqlite:///copy.db --check

        pmbandits serve --config service.toml --log-format json
    """
    _require_service_extra()
    if check:
        _check_store(store)
        return
    from pmbandits.service.request_log import json_line
    from pmbandits.service.run import check_address_and_store
    from pmbandits.service.run import serve as run
    from pmbandits.service.settings import Settings

    del config  # its settings are the defaults of the others
    settings = Settings(
        store=store, host=host, port=port, open=without_keys, processes=processes, rate=rate,
        log_format=check_choice("log-format", log_format, ("text", "json")),
        log_level=check_choice("log-level", log_level, ("debug", "info", "warning", "error")),
    )  # fmt: skip
    check_address_and_store(settings)
    lines = _service_urls(host, port)
    lines |= _create_example(store) if example else _missing_key_hint(store, without_keys)
    if settings.log_format == "json":
        print(json_line("starting", lines), flush=True)
    else:
        out.print("\n".join(f"{name:<12}{text}" for name, text in lines.items()), highlight=False, soft_wrap=True)
    run(settings)


def _check_store(url: str) -> None:
    """Print a sentence for each experiment of a store; an error says what is wrong."""
    from pmbandits.service.check import check_store

    store = _open_store(url, make=False)
    for sentence in check_store(store):
        out.print(sentence, highlight=False, markup=False)
    store.close()


def _service_urls(host: str, port: int) -> dict[str, str]:
    """Return the URLs of the service, its board and its interface."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    address = f"http://{f'[{name}]' if ':' in name else name}:{port}"
    return {"address": address, "board": f"{address}/board/", "interface": f"{address}/docs"}


def _create_example(store: str) -> dict[str, str]:
    """Create the example experiment unless it exists, and a new key for it that replaces the last one."""
    from pmbandits.service import keys
    from pmbandits.service.example import LABEL, NAME, SPEC

    open_store = _open_store(store)
    if open_store.find_experiment(NAME) is None:
        open_store.create_experiment(NAME, SPEC, _actor_name())
    for old in keys.list_keys(open_store):
        if old.revoked is None and old.label == LABEL and old.experiments == frozenset({NAME}):
            keys.revoke_key_in_store(open_store, old.id, _actor_name())
    key = keys.create_key_in_store(open_store, ("read", "ask", "tell"), [NAME], LABEL, _actor_name())
    open_store.close()
    return {"experiment": NAME, "key": key}


def _missing_key_hint(store: str, without_keys: bool) -> dict[str, str]:
    """Return a hint on how to create a key, if the store has none and keys are required."""
    from pmbandits.service import keys

    open_store = _open_store(store)
    good = without_keys or any(key.is_valid(open_store.now_ms()) for key in keys.list_keys(open_store))
    open_store.close()
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
    days: Annotated[float | None, typer.Option(help="After so many days the key expires.", min=0.001)] = None,
    store: Store = _DEFAULT_STORE,
) -> None:
    """Make a key. It is shown once, and cannot be shown again.

    Examples:

        pmbandits key create --label 'the web shop'

        pmbandits key create --scopes admin --store sqlite:///shop.db

        pmbandits key create --scopes read --experiment offers --experiment prices --days 90
    """
    _require_service_extra()
    from pmbandits.service import keys
    from pmbandits.service.store import check_name

    for name in experiment or ():
        check_name(name)
    open_store = _open_store(store, new=True)
    wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
    expires = None if days is None else open_store.now_ms() + int(86_400_000 * days)
    print(keys.create_key_in_store(open_store, wanted, experiment or None, label, _actor_name(), expires=expires))
    open_store.close()


@app.command("rotate")
def rotate_key(
    key: Annotated[str, typer.Argument(help="The twelve characters that pmbandits key list shows.")],
    days: Annotated[float, typer.Option(help="For so many days the old key stays good.", min=0)] = 1.0,
    store: Store = _DEFAULT_STORE,
) -> None:
    """Make a key for the same as another one, which expires when the days are over. The new one is shown once.

    Examples:

        pmbandits key rotate 0123456789ab

        pmbandits key rotate 0123456789ab --days 7 --store sqlite:///shop.db
    """
    _require_service_extra()
    from pmbandits.service import keys

    open_store = _open_store(store)
    print(keys.rotate_key_in_store(open_store, _key_number_from_key(key), _actor_name(), grace=86_400 * days))
    open_store.close()


@app.command("list")
def list_keys(store: Store = _DEFAULT_STORE) -> None:
    """Show all keys: what they are for, and when they were used last (UTC).

    Examples:

        pmbandits key list

        pmbandits key list --store sqlite:///shop.db
    """
    _require_service_extra()
    from pmbandits.service import keys

    open_store = _open_store(store)
    table = Table("key", "label", "scopes", "experiments", "made", "expires", "last used", box=None, pad_edge=False)
    for place in (0, 4, 5, 6):
        table.columns[place].no_wrap = True
    for column in table.columns:
        column.overflow = "fold"
    for key in keys.list_keys(open_store):
        where = "all" if key.experiments is None else ", ".join(sorted(key.experiments))
        used = "revoked" if key.revoked is not None else _time_text(key.used, "%Y-%m-%d %H:%M")
        made, ends = (_time_text(at, "%Y-%m-%d") for at in (key.created, key.expires))
        cells = (key.id, key.label, ", ".join(sorted(key.scopes)), where, made, ends, used)
        table.add_row(*(escape(escape_control_characters(cell)) for cell in cells))
    out.print(table)
    open_store.close()


@app.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(help="The twelve characters that pmbandits key list shows.")],
    store: Store = _DEFAULT_STORE,
) -> None:
    """Make a key invalid. All processes know it after a second at most.

    Examples:

        pmbandits key revoke 0123456789ab

        pmbandits key revoke 0123456789ab --store sqlite:///shop.db
    """
    _require_service_extra()
    from pmbandits.service import keys

    open_store = _open_store(store)
    number = _key_number_from_key(key)
    keys.revoke_key_in_store(open_store, number, _actor_name())
    open_store.close()
    print(f"{escape_control_characters(number)} is revoked.")


def _open_store(url: str, *, new: bool = False, make: bool = True) -> OpenStore:
    from pmbandits.service.store import open_store

    return open_store(url, new=new, make=make)


def _key_number_from_key(key: str) -> str:
    """The number of a key; also from the whole key, or its beginning."""
    return key.removeprefix("pmb_").partition("_")[0]


def _actor_name() -> str:
    return f"command line, {escape_control_characters(getpass.getuser())}"


def _time_text(at: int | None, form: str) -> str:
    return "never" if at is None else datetime.fromtimestamp(at / 1000, UTC).strftime(form)


def _require_service_extra() -> None:
    for package in ("fastapi", "uvicorn", "sqlalchemy", "msgspec"):
        import_optional(package, "serving experiments, and their keys,")
