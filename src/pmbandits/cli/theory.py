"""``pmbandits theory``: tables, bounds and plans from the paper's analysis."""

from __future__ import annotations

import json
import math
from typing import Annotated

import typer

from pmbandits.arm_parser import HELP, parse_arms

app = typer.Typer(help="The paper's theory: tables, bounds, exponents, and how long to run.", no_args_is_help=True)

Metric = Annotated[
    str, typer.Option("--metric", "-m", help="A metric or a sum: gini, 'upper_cvar(0.9)', 'mean-0.5*gini'.")
]
Arms = Annotated[str, typer.Option("--arms", "-a", help=f"The arms: {HELP}.")]


@app.command()
def table(
    number: Annotated[int, typer.Argument(help="1: rates, 2: rates for Bernoulli arms, 3: β and β̄, 4: Hölder pairs.")],
    form: Annotated[str, typer.Option("--format", "-f", help="How to print it: text, markdown or latex.")] = "text",
) -> None:
    """Print one of the paper's tables, worked out anew.

    Examples:

        pmbandits theory table 2

        pmbandits theory table 1 --format latex
    """
    from pmbandits.theory.tables import table as compute_table

    print(compute_table(number).render(form))


@app.command()
def bound(
    metric: Metric,
    arms: Arms,
    horizon: Annotated[int, typer.Option("--horizon", "-T", help="How many rounds are played.")],
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="The spacing of the grid of mixtures.")],
    policy: Annotated[str, typer.Option("--policy", "-p", help="The policy: pmetc, pmucb, ceucb or cirt.")] = "pmetc",
    confidence: Annotated[str, typer.Option(help="The confidence set: paper, auto, dkw, wasserstein or kl.")] = "paper",
    gap: Annotated[str, typer.Option(help="The gap: 12, 13, or distinct where the best mixtures tie.")] = "12",
) -> None:
    """Print the regret bound of a policy, with its terms and what it needs.

    Examples:

        pmbandits theory bound --metric gini --arms bernoulli:0.1,0.9 --horizon 3000000 --epsilon 0.5
    """
    from pmbandits import _validation
    from pmbandits.theory.bounds import BOUNDS

    compute = BOUNDS[_validation.check_choice("policy", policy, BOUNDS)]
    print(compute(metric, parse_arms(arms), horizon, epsilon, gap=gap, confidence=confidence))


@app.command()
def exponent(
    metric: Metric,
    arms: Arms,
    gap: Annotated[str, typer.Option(help="The gap: 12 for β, 13 for β̄, or distinct.")] = "13",
) -> None:
    """Print how fast the gap between the best mixtures shrinks with the grid, and the fit.

    Examples:

        pmbandits theory exponent --metric gini --arms bernoulli:0.2,0.9
    """
    from pmbandits.theory.exponents import gap_exponent

    print(gap_exponent(metric, parse_arms(arms), gap=gap))  # type: ignore[arg-type]


@app.command()
def plan(
    metric: Metric,
    arms: Arms,
    regret: Annotated[float, typer.Option("--regret", "-r", help="How much utility may be lost.")] = 0.01,
    policy: Annotated[str, typer.Option("--policy", "-p", help="The policy: pmetc, pmucb, ceucb or cirt.")] = "pmetc",
    trials: Annotated[int, typer.Option(help="How many runs are simulated at each horizon.", min=2)] = 20,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print how long to play until the regret is small enough: by two bounds, and by simulation.

    Examples:

        pmbandits theory plan --metric gini --arms bernoulli:0.2,0.9 --regret 0.01
    """
    from pmbandits.theory.planning import plan as make

    found = make(metric, parse_arms(arms), target_regret=regret, policy=policy, trials=trials)
    if not json_output:
        print(found)
        return
    columns = {}
    for name, column in zip(("bound", "tight_set", "simulation"), found.columns, strict=True):
        numbers = {k: getattr(column, k) for k in ("horizon", "epsilon", "exploration", "regret")}
        finite = {k: v if math.isfinite(v) else None for k, v in numbers.items()}
        columns[name] = {**finite, "note": column.note}
    print(json.dumps({"policy": policy, "target": regret, **columns}, ensure_ascii=False, indent=1))
