"""The typer application with all commands of ``pmbandits``."""

from __future__ import annotations

import inspect
import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from pmbandits import __version__
from pmbandits._validation import escape_control_characters
from pmbandits.arm_parser import HELP, parse_arms
from pmbandits.cli.advise import advise
from pmbandits.cli.pages import board, studio
from pmbandits.cli.run import run
from pmbandits.cli.serve import app as key_app
from pmbandits.cli.serve import serve
from pmbandits.cli.theory import app as theory_app
from pmbandits.cli.visit import visit
from pmbandits.cli.warm import warm
from pmbandits.metrics import Family

app = typer.Typer(
    help="Preference-centric bandits: the mixture of arms that is best for what you value.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
app.add_typer(theory_app, name="theory")
app.add_typer(key_app, name="key")
app.command()(advise)  # help lists commands in this order: what most people need comes first
app.command()(studio)
out = Console()
err = Console(stderr=True)


def main() -> None:
    """Run a command. Bad input gives one sentence on standard error, and exit code 2."""
    try:
        app()
    except (ValueError, TypeError, IndexError) as error:
        _exit_with_error(str(error))
    except OSError as error:
        ours = error.filename is None  # one of our sentences
        _exit_with_error(
            str(error) if ours else f"cannot use {str(error.filename)!r}: {error.strerror}; give another path."
        )
    except SystemExit as end:
        if end.code == 130:  # Ctrl-C, which typer turns into this without a word
            err.print(
                "interrupted; what was finished in a folder is kept, and the same command goes on from there",
                soft_wrap=True,
            )
        raise


def _exit_with_error(sentence: str) -> None:
    err.print(f"[bold red]error:[/] {escape(escape_control_characters(sentence))}", highlight=False, soft_wrap=True)
    sys.exit(2)


def _print_version(show: bool) -> None:
    if show:
        out.print(f"pmbandits {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@app.command()
def metrics(
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    by_wish: Annotated[
        bool, typer.Option("--by-wish", help="Start from plain statements of what you value instead.")
    ] = False,
) -> None:
    """List all preferences, with their shape and their meaning.

    Examples:

        pmbandits metrics

        pmbandits metrics --by-wish
    """
    from pmbandits.metrics.registry import ALIASES, FAMILIES

    if by_wish:
        _print_preferences(json_output)
        return
    if json_output:
        keys = ("name", "parameters", "h", "shape", "meaning", "use")
        rows = ((c.name, _parameters_text(c), c.formula, _shape_text(c), c.meaning, c.use) for c in FAMILIES)
        _print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    table = Table(title="Preference metrics", show_lines=True, expand=True)
    for head, ratio in (("metric", None), ("h(u)", 2), ("shape", None), ("meaning, and when to use it", 4)):
        table.add_column(head, overflow="fold", no_wrap=ratio is None, ratio=ratio)
    for cls in FAMILIES:
        parameters = _parameters_text(cls)
        name = cls.name if parameters == "–" else f"{cls.name}\n  ({parameters})"
        table.add_row(name, cls.formula, _shape_text(cls), f"{cls.meaning}; use it {cls.use}")
    out.print(table)
    for line in (
        "concave: a mixture is often best. convex, linear: one arm is best. neither: it depends.",
        "concave*: only for loading ≤ ½, else neither. by sign: concave for shift > 0, convex for shift < 0.",
        "Also accepted: " + ", ".join(f"{a} = {n}" for a, n in ALIASES.items()),
        "From what you value to a metric: pmbandits metrics --by-wish",
    ):
        out.print(line, highlight=False)


def _print_json(data: Any) -> None:
    print(json.dumps(data, ensure_ascii=False, indent=1))


def _print_preferences(json_output: bool) -> None:
    from pmbandits.metrics import preferences

    head, *rows = preferences().rows()
    if json_output:
        keys = ("statement", "metric", "does", "mixtures")
        _print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    table = Table(*(Column(name, overflow="fold") for name in head), title="What do you value?", show_lines=True)
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)


def _parameters_text(cls: type[Family]) -> str:
    """A metric's parameters as the user writes them."""
    parts = [str(p).partition(":")[0] for p in inspect.signature(cls).parameters.values()]
    return ", ".join(parts) or "–"


def _shape_text(cls: type[Family]) -> str:
    return {"wang_transform": "by sign", "gini_shortfall": "concave*"}.get(cls.name, cls.example().shape)


@app.command()
def oracle(
    metric_text: Annotated[
        str,
        typer.Option(
            "--metric", "-m", help="A metric or a sum: gini, 'upper_cvar(0.9)', '0.7*mean+0.3*upper_cvar(0.9)'."
        ),
    ],
    arms: Annotated[str, typer.Option("--arms", "-a", help=f"The arms: {HELP}.")],
    shares: Annotated[
        str | None,
        typer.Option("--shares", "-s", help="Limits on the shares: 'A >= 10%; B + C <= 0.3; A == 2 * B'."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Also save a picture of the utility of mixtures.")] = None,
) -> None:
    """Find the best mixture of known arms, and what it gains over the best single arm.

    Examples:

        pmbandits oracle --metric gini --arms bernoulli:0.4,0.9

        pmbandits oracle --metric '0.7*mean+0.3*upper_cvar(0.9)' --arms 'norm(1,1);beta(2,2)' --json

        pmbandits oracle --metric gini --arms samples:log.csv --shares 'A >= 10%'
    """
    import numpy as np

    from pmbandits.metrics import metric
    from pmbandits.optimize import oracle as solve
    from pmbandits.optimize import utilities

    preference = metric(metric_text)
    bandit = parse_arms(arms)
    best = solve(preference, bandit, shares=shares)
    arm_utilities = utilities(preference, bandit, np.eye(bandit.n_arms))
    if plot is not None:
        import matplotlib as mpl

        mpl.use("Agg")
        from pmbandits.plots import plot_mixture

        plot = plot if plot.suffix else plot.with_suffix(".png")
        plot_mixture(preference, bandit, shares=shares, path=plot)
    if json_output:
        answer = {
            "metric": preference.to_dict(),
            "arms": list(bandit.names),
            "weights": best.weights.tolist(),
            "value": best.value,
            "gap": best.gap if best.certified else None,
            "certified": best.certified,
            "is_mixture": best.is_mixture,
            "best_arm": bandit.names[best.best_arm],
            "best_arm_value": best.best_arm_value,
            "gain": best.gain,
            "unique": best.unique,
            "alternative": None if best.alternative is None else best.alternative.tolist(),
            "arm_values": arm_utilities.tolist(),
        }
        if best.limits is not None:
            answer["limits"] = {
                text: {
                    "multiplier": price.multiplier if math.isfinite(price.multiplier) else None,
                    "without": price.without,
                    "words": str(price),
                }
                for text, price in best.prices.items()
            }
        _print_json(answer)
        return
    shown = [escape(name) for name in bandit.names]
    numbers = (Column(head, justify="right") for head in ("utility alone", "weight"))
    table = Table("arm", *numbers, title=f"{escape(repr(preference))}: the best mixture")
    for k, name in enumerate(shown):
        table.add_row(name, f"{arm_utilities[k]:.6g}", f"{best.weights[k]:.4f}" if best.weights[k] > 0.0 else "–")
    table.add_section()
    table.add_row("[bold]best mixture[/]", f"[bold]{best.value:.6g}[/]", "")
    out.print(table)
    certificate_text = "no mixture is better" + (f" by more than {best.gap:.1g}" if best.gap else "")
    certificate_text = certificate_text if best.certified else "not certified: it was found by a search"
    if best.limits is not None and len(best.limits):
        out.print(
            f"Within the limits {certificate_text}. {shown[best.best_arm]} alone has utility {best.best_arm_value:.6g}."
        )
        for price in best.prices.values():
            sentence = str(price)
            out.print(f"- {escape(sentence[0].upper() + sentence[1:])}.", highlight=False, soft_wrap=True)
    elif best.is_mixture:
        out.print(f"The mixture gains {best.gain:.4g} over {shown[best.best_arm]} alone ({certificate_text}).")
    else:
        out.print(f"One arm is best: {shown[best.best_arm]} ({certificate_text}).")
    if best.unique is False:
        out.print("Other mixtures are as good.")
    if plot is not None:
        out.print(f"Picture: {escape(str(plot))}")


@app.command()
def demo(
    path: Annotated[Path, typer.Option("--out", help="The file for the picture.")] = Path("pmbandits-demo.png"),
    rounds: Annotated[int, typer.Option(help="How many rewards are drawn to check each line.", min=100)] = 200_000,
) -> None:
    """Show in a table and a picture where a mixture of arms beats every single arm.

    Examples:

        pmbandits demo

        pmbandits demo --out mixtures.png
    """
    from pmbandits.cli.demo import show_demo

    show_demo(out, path, rounds)


for _command in (run, board, serve, visit, warm):
    app.command()(_command)
