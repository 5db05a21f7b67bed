"""Pictures that are kept in the repository: that of the README, and short films of policies finding their mixtures.

    python docs/pictures.py              # all, into docs/ and docs/_static

A film is one SVG file that every browser plays: a still picture by matplotlib, on which a dot moves.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import scipy.stats as st

import pmbandits as pmb
from pmbandits._plot_style import pyplot_in_library_style

DOCS = Path(__file__).resolve().parent
SECONDS = 9.0  # a film, of which the last part stands still
STILL = 0.15


def readme() -> None:
    """Regret of the recommended policy, the paper's, and two that do not look for a mixture."""
    coins, far = pmb.Bandit.bernoulli([0.4, 0.9]), 30_000
    policies = {
        "Vet (recommended)": pmb.Vet(),
        "CIRT": pmb.CIRT(),
        "PM-UCB-M": pmb.PMUCB(horizon=far),
        "PM-ETC-M": pmb.PMETC(horizon=far),
        "UCB1 (best mean)": pmb.UCB1(),
        "equal shares": pmb.Uniform(),
    }
    run = pmb.simulate(pmb.GiniDeviation(), coins, policies, far, trials=100, seed=0)
    print(run.summary())
    run.plot(path=DOCS / "regret.png", title="two coins (0.4 and 0.9), variety: mean of 100 trials")
    plt.close("all")


def life(policy: pmb.Policy, bandit: pmb.Bandit, rounds: list[int], seed: int) -> list[np.ndarray]:
    """The shares that were played after these rounds."""
    rng, shares = np.random.default_rng(seed), []
    for t in range(1, rounds[-1] + 1):
        arm = policy.ask()
        policy.tell(arm, float(bandit.sample(arm, rng=rng)[0]))
        if t in rounds:
            shares.append(policy.pulls / t)
    return shares


def film(figure: Any, ax: Any, places: list[tuple[float, float]], rounds: list[int], path: Path) -> None:
    """Put a moving dot, its trace and a counter of rounds on a still picture."""
    with pyplot_in_library_style({"svg.fonttype": "none", "svg.hashsalt": "pmbandits", "savefig.bbox": "standard"}):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")
    height = figure.get_figheight() * 72.0
    spots = ax.transData.transform(places)  # in points, as the figure has 72 of them an inch
    spots[:, 1] = height - spots[:, 1]
    times = [*(np.arange(len(rounds)) / (len(rounds) - 1) * (1.0 - STILL)), 1.0]
    keys = ";".join(f"{t:.4f}" for t in times)
    moving = f'dur="{SECONDS:g}s" repeatCount="indefinite"'

    def values(k: int) -> str:
        return ";".join(f"{x:.1f}" for x in [*spots[:, k], spots[-1, k]])

    trace = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    length = float(np.hypot(*np.diff(spots, axis=0).T).sum()) + 1.0
    passed = np.concatenate(([0.0], np.cumsum(np.hypot(*np.diff(spots, axis=0).T))))
    offsets = ";".join(f"{length - d:.1f}" for d in [*passed, passed[-1]])
    parts = [
        f'<polyline points="{trace}" fill="none" stroke="#D55E00" stroke-width="1.5" stroke-opacity="0.55" '
        f'stroke-dasharray="{length:.1f}"><animate attributeName="stroke-dashoffset" values="{offsets}" '
        f'keyTimes="{keys}" {moving}/></polyline>',
        '<circle r="6" fill="#D55E00" stroke="white" stroke-width="1.5">'
        f'<animate attributeName="cx" values="{values(0)}" keyTimes="{keys}" {moving}/>'
        f'<animate attributeName="cy" values="{values(1)}" keyTimes="{keys}" {moving}/></circle>',
    ]
    words = 'x="84" y="16" font-family="sans-serif" font-size="13" fill="#222"'
    for k, t in enumerate(rounds):
        states = [("hidden", 0.0), ("visible", times[k]), ("hidden", times[k + 1])]
        states = states[(k == 0) : 2 if k + 1 == len(rounds) else 3]  # the first is there at once, the last stays
        parts.append(
            f'<text {words} visibility="hidden">round {t:,}<animate attributeName="visibility" calcMode="discrete" '
            f'values="{";".join(s for s, _ in states)}" keyTimes="{";".join(f"{at:.4f}" for _, at in states)}" '
            f"{moving}/></text>"
        )
    text = re.sub(r"</svg>\s*$", "\n".join(parts) + "\n</svg>\n", buffer.getvalue())
    path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    plt.close(figure)


def films() -> None:
    """Two arms on a line, and three in a triangle."""
    gini = pmb.GiniDeviation()
    rounds = sorted({*range(2, 12), *(int(x) for x in np.geomspace(12, 2000, 40))})
    coins = pmb.Bandit.bernoulli([0.2, 0.9], names=["rare coin", "often coin"])
    policy = pmb.Vet(gini, names=coins.names, support=pmb.Binary())
    shares = life(policy, coins, rounds, seed=3)
    with pyplot_in_library_style() as plot:
        figure, ax = plot.subplots(figsize=(5.4, 3.9), dpi=72, layout="constrained")
        pmb.plot_mixture(gini, coins, ax, title=" ")
        figure.canvas.draw()
        figure.set_layout_engine("none")  # it is laid out now, and must not move any more
    film(figure, ax, [(100 * s[1], pmb.utility(gini, coins, s)) for s in shares], rounds,
         DOCS / "_static" / "film-two-arms.svg")  # fmt: skip

    three = pmb.Bandit([st.beta(2, 8), st.beta(5, 5), st.beta(8, 2)], names=["low", "middle", "high"])
    policy = pmb.Vet(gini, names=three.names, support=pmb.Interval(0, 1))
    rounds = sorted({*range(3, 12), *(int(x) for x in np.geomspace(12, 2000, 40))})
    shares = life(policy, three, rounds, seed=5)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    with pyplot_in_library_style() as plot:
        figure, ax = plot.subplots(figsize=(5.4, 4.2), dpi=72, layout="constrained")
        pmb.plot_mixture(gini, three, ax, title=" ")
        for part in ax.collections:
            part.set_rasterized(True)
        figure.canvas.draw()
        figure.set_layout_engine("none")  # it is laid out now, and must not move any more
    film(figure, ax, [tuple(s @ corners) for s in shares], rounds, DOCS / "_static" / "film-three-arms.svg")


if __name__ == "__main__":
    films()
    readme()
