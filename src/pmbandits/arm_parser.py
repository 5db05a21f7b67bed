"""Arms written as text: ``bernoulli:0.4,0.9``, ``norm(1,1);norm(5,1)``, ``samples:rewards.csv``."""

from __future__ import annotations

import re
from pathlib import Path

from pmbandits.arms import Bandit

HELP = (
    "bernoulli:0.4,0.9 (means), 'norm(1,1);norm(5,1)' (any scipy.stats distributions), "
    "or samples:rewards.csv (columns arm,reward)"
)
_DISTRIBUTION = re.compile(r"([A-Za-z_]\w*)\(([^()]*)\)")


def parse_arms(text: str) -> Bandit:
    """A bandit from the ``--arms`` option. Names are looked up in scipy.stats; nothing is evaluated."""
    kind, colon, rest = text.partition(":")
    if colon and kind.strip() == "bernoulli":
        return Bandit.bernoulli([_parse_float(piece, text) for piece in rest.split(",")])
    if colon and kind.strip() == "samples":
        return read_samples(Path(rest.strip()))
    arms: list[object] = []
    names: list[str] = []
    for piece in filter(None, (p.strip() for p in text.split(";"))):
        arms.append(parse_distribution(piece, text))
        names.append(piece if piece not in names else f"{piece} #{len(names)}")
    if not arms:
        raise ValueError(f"--arms is empty; write {HELP}.")
    return Bandit(arms, names)


def parse_distribution(piece: str, text: str | None = None) -> object:
    """A frozen distribution of scipy.stats from text such as ``norm(1, 2)``; nothing is evaluated."""
    import scipy.stats as st

    inside = "" if text is None else f" in {text!r}"
    found = _DISTRIBUTION.fullmatch(piece.strip())
    if found is None:
        raise ValueError(f"cannot read the arm {piece!r}{inside}; write {HELP}.")
    family = getattr(st, found[1], None)
    if not isinstance(family, (st.rv_continuous, st.rv_discrete)):
        raise ValueError(f"scipy.stats has no distribution {found[1]!r}; write {HELP}.")
    arguments = [_parse_float(a, text or piece) for a in found[2].split(",")] if found[2].strip() else []
    try:
        return family(*arguments)
    except TypeError:
        needs = f"{family.shapes}, then loc and scale" if family.shapes else "loc and scale"
        raise ValueError(f"{piece!r} has wrong parameters: {found[1]} takes {needs}.") from None


def _parse_float(piece: str, text: str) -> float:
    try:
        return float(piece)
    except ValueError:
        raise ValueError(f"{piece.strip()!r} in {text!r} is not a number; write {HELP}.") from None


def read_samples(path: Path) -> Bandit:
    """Arms that draw from logged rewards: a CSV, Parquet or JSON lines file with the columns ``arm`` and ``reward``."""
    from pmbandits.logs import read_samples as read

    return Bandit.from_samples(read(path))
