"""The demonstration: four preferences, known arms, and rewards drawn to check every number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Column, Table

from pmbandits._plot_style import pyplot_in_library_style
from pmbandits.arms import Bandit
from pmbandits.metrics import Distortion, GiniDeviation, Mean, UpperCVaR, WangRightTail
from pmbandits.optimize import OracleResult, oracle, utility
from pmbandits.plots import plot_mixture


def demo_problems() -> list[tuple[str, Distortion, Bandit]]:
    """Return title, metric and arms of each problem of the demonstration."""
    import scipy.stats as st

    coins = Bandit.bernoulli([0.4, 0.9], names=["coin A", "coin B"])
    suppliers = Bandit([st.norm(1), st.norm(3), st.norm(5)], names=["low", "mid", "high"])
    payoffs = Bandit([st.beta(1, 3), st.beta(0.5, 0.5)], names=["modest", "bold"])
    return [
        ("both outcomes often (Gini)", GiniDeviation(), coins),
        ("variety (Gini)", GiniDeviation(), suppliers),
        ("upside (Wang right-tail)", WangRightTail(), payoffs),
        ("mean and top tenth", 0.7 * Mean() + 0.3 * UpperCVaR(0.9), payoffs),
    ]


def show_demo(out: Console, path: Path, rounds: int) -> None:
    """Print the table, draw the picture, say how to go on."""
    out.print("[bold]Which arms should you play, and in which proportions?[/]")
    numbers = (Column(head, justify="right") for head in ("measured", "gain"))
    caption = f"measured: the metric of {rounds:,} rewards drawn by playing it"
    table = Table("you value", "best arm alone", "best mixture", *numbers, caption=caption)
    problems: list[tuple[str, Distortion, Bandit]] = []
    for title, metric, bandit in track(demo_problems(), description="solving and playing", console=out, transient=True):
        best = oracle(metric, bandit)
        _, rewards = bandit.sample_mixture(best.weights, rounds, rng=0)
        table.add_row(
            title,
            f"{best.best_arm_value:.4f}  {bandit.names[best.best_arm]}",
            f"[bold]{best.value:.4f}[/]  {_mixture_text(best)}",
            f"{metric.value(rewards):.4f}",
            f"+{100 * best.gain / abs(best.best_arm_value):.0f} %" if best.is_mixture else "none",
        )
        problems.append((title, metric, bandit))
    out.print(table)
    out.print(_learning_table(out))
    _save_figure(problems, path)
    out.print(f"Picture: [bold]{escape(str(path))}[/]")
    out.print(
        "\n[bold]Your own data[/] (a CSV file with the columns arm and reward):\n"
        "  . .venv/bin/activate\n"
        "  pmbandits advise rewards.csv --metric 'avoid the worst 10 %' --out report.html\n"
        "[bold]In Python[/]:\n"
        "  import pmbandits as pmb\n"
        "  print(pmb.advise({'a': [0, 1, 1], 'b': [2, 0, 5]}, 'steady'))\n"
        "  policy = pmb.Vet(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())\n"
        "  arm = policy.ask(); policy.tell(arm, 1.0)\n"
        "[bold]Other preferences[/]: pmbandits metrics --by-wish",
        highlight=False,
    )


def _learning_table(out: Console) -> Table:
    """Run Vet on the first problem with unknown arms; return a table of its shares and their utility over time."""
    from pmbandits.policies import Vet

    title, metric, bandit = demo_problems()[0]
    best = oracle(metric, bandit)
    policy = Vet(metric, support=bandit.support, names=bandit.names)
    wanted = (f"{name} (best {w:.0%})" for name, w in zip(bandit.names, best.weights, strict=True))
    heads = (Column(head, justify="right") for head in ("rounds", *wanted, f"utility (best {best.value:.4f})"))
    table = Table(*heads, title=f"{title}, not knowing the arms: what Vet plays")
    rng, reported_rounds = np.random.default_rng(0), (100, 1_000, 10_000)
    with out.status("learning (the first time compiles for a minute)"):
        for t in range(1, reported_rounds[-1] + 1):
            arm = policy.ask()
            policy.tell(arm, float(bandit.sample(arm, 1, rng=rng)[0]))
            if t in reported_rounds:
                shares = policy.pulls / t
                utility_text = f"{utility(metric, bandit, shares):.4f}"
                table.add_row(f"{t:,}", *(f"{share:.1%}" for share in shares), utility_text)
    return table


def _mixture_text(best: OracleResult) -> str:
    used = np.flatnonzero(best.weights > 0.0)
    return " + ".join(f"{100 * best.weights[i]:.0f} % {best.names[i]}" for i in used)


def _save_figure(problems: list[tuple[str, Distortion, Bandit]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    with pyplot_in_library_style() as plt:
        figure, axes = plt.subplots(2, 2, figsize=(10.5, 8.0), layout="constrained")
        for ax, (title, metric, bandit) in zip(axes.flat, problems, strict=True):
            plot_mixture(metric, bandit, ax, title=title)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
        plt.close(figure)
