"""Policy files with edits and a checksum that fits: each is refused, or loads to a policy that can be played."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import zipfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import pmbandits as pmb
from pmbandits.engine import policy_file
from pmbandits.engine.registry import REGISTRY
from tests.fuzz import Failed, sentence

GINI, NEITHER, CAUTIOUS = pmb.GiniDeviation(), pmb.InvertedS(0.7), pmb.LowerCVaR(0.3)
UNIT, THREE, LINE = pmb.Interval(0.0, 1.0), pmb.Finite([0.0, 0.5, 2.0]), pmb.Real(1.0)
HORIZON = {"horizon": 2000, "epsilon": 0.25, "rho": 0.02}
RECIPES: dict[str, tuple[pmb.Policy, Any]] = {
    "cirt-binary": (pmb.CIRT(GINI, epsilon=0.2, delta=0.5), pmb.Binary()),
    "cirt-interval": (pmb.CIRT(GINI, epsilon=0.3, delta=0.5), UNIT),
    "cirt-sketch": (pmb.CIRT(GINI, epsilon=0.3, estimates="sketch:16"), UNIT),
    "cirt-continuous": (pmb.CIRT(GINI, search="continuous"), UNIT),
    "pmucb-finite": (pmb.PMUCB(GINI, **HORIZON), THREE),
    "pmucb-chords": (pmb.PMUCB(pmb.WangRightTail(), **HORIZON), UNIT),
    "pmucb-continuous": (pmb.PMUCB(GINI, search="continuous", **HORIZON), pmb.Binary()),
    "ceucb-binned": (pmb.CEUCB(GINI, estimates="binned:32", **HORIZON), UNIT),
    "pmetc-interval": (pmb.PMETC(GINI, horizon=2000, epsilon=0.25, n_explore=100), UNIT),
    "fixed-grid-binary": (pmb.FixedGrid(GINI, epsilon=0.3), pmb.Binary()),
    "track-real": (pmb.Track(pmb.UpperCVaR(0.5)), LINE),
    "track-neither": (pmb.Track(NEITHER), UNIT),
    "track-certify": (pmb.Track(GINI, certify=0.2), pmb.Binary()),
    "track-sketch": (pmb.Track(GINI, estimates="sketch:8"), LINE),
    "vet-interval": (pmb.Vet(GINI), UNIT),
    "vet-finite": (pmb.Vet(NEITHER), THREE),
    "vet-real": (pmb.Vet(CAUTIOUS), LINE),
    "vet-binary": (pmb.Vet(GINI), pmb.Binary()),
    "vet-window-interval": (pmb.Vet(GINI, estimates="window:50", detect="restart:0.3"), UNIT),
    "vet-window-finite": (pmb.Vet(GINI, estimates="window:50"), THREE),
    "track-discount-binary": (pmb.Track(GINI, estimates="discount:0.98"), pmb.Binary()),
    "track-watched-real": (pmb.Track(pmb.UpperCVaR(0.5), detect="warn"), LINE),
    "thompson-binary": (pmb.Thompson(), pmb.Binary()),
    "rho-npts-interval": (pmb.RhoNPTS(CAUTIOUS), UNIT),
    "b-cvts-interval": (pmb.BCVTS(CAUTIOUS), UNIT),
    "ucfw-interval": (pmb.UCFW(GINI, tolerance=0.05), UNIT),
    "mixture-ucb-cab-finite": (pmb.MixtureUCB(GINI, form="cab"), THREE),
    "mixture-ucb-ogd-interval": (pmb.MixtureUCB(GINI), UNIT),
    "solitary-finite": (pmb.SolitaryUCB(GINI, horizon=2000), THREE),
    "solitary-arm": (pmb.SolitaryArm(arm=1), LINE),
    "uniform": (pmb.Uniform(), UNIT),
    "ucb1": (pmb.UCB1(), UNIT),
}
ROUNDS = (0, 2, 9, 60, 300)
COUNTS = (
    -1,
    -2,
    -3,
    -100_000,
    0,
    1,
    2,
    3,
    64,
    255,
    100_000,
    2**31,
    2**32,
    2**53,
    2**53 + 1,
    2**62,
    2**63 - 1,
    -(2**63),
)
OTHERS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e300, -1e300, 1e-300, 5e-324, 1e18, 0.3333)
STRANGE = (None, True, "", "x", "1", [], {}, [[1]], {"custom": "x"}, 10**30, -(10**30), 1.5, float("nan"), float("inf"))
WORDS = ("auto", "grid", "continuous", "exact", "binned:8", "sketch:8", "sketch:1048576", "binned:1048576", "dkw", "kl",
         "window:8", "window:1073741824", "discount:0.9", "restart", "warn:0.5")  # fmt: skip
METRICS = (
    {"name": "mean"},
    {"name": "upper_cvar", "c": 0.9},
    {"name": "var", "c": 0.5},
    {"name": "inverted_s", "s": 0.5},
)
SUPPORTS = (
    {"kind": "binary"}, {"kind": "interval", "lo": -1, "hi": 5}, {"kind": "finite", "atoms": [0, 1]},
    {"kind": "finite", "atoms": list(range(5000))}, {"kind": "real", "sigma": 1e-300}, {"kind": "real", "sigma": 1e300},
    {"kind": "interval", "lo": -8e307, "hi": 8e307}, {"kind": "interval", "lo": 0, "hi": 5e-324},
)  # fmt: skip


@cache
def base(name: str, rounds: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and the arrays of a policy that was played for some rounds."""
    recipe, support = RECIPES[name]
    metric = recipe.metric if recipe.metric is not None else pmb.Mean()
    policy, rng = recipe.bind(metric, 3, support, seed=5), np.random.default_rng(rounds)
    for _ in range(rounds):
        arm = policy.ask()
        policy.tell(arm, reward(policy, rng, arm))
    if rounds:
        policy.ask(2)
    out = io.BytesIO()
    write, policy_file.write_atomically = policy_file.write_atomically, lambda path, wr: wr(out)  # type: ignore[assignment]
    try:
        policy.save(Path("nowhere"))
    finally:
        policy_file.write_atomically = write
    with zipfile.ZipFile(out) as archive:
        description = json.loads(archive.read("policy.json"))
        arrays = {
            n.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(archive.read(n)), allow_pickle=False)
            for n in archive.namelist()
            if n.endswith(".npy")
        }
    return description, arrays


def reward(policy: pmb.Policy, rng: np.random.Generator, arm: int) -> float:
    """A reward that the support allows."""
    x, support = float(rng.beta(2 + arm % 4, 3)), policy.support
    if isinstance(support, pmb.Binary):
        return float(x > 0.5)
    if isinstance(support, pmb.Finite):
        return float(support.atoms[min(int(x * support.atoms.size), support.atoms.size - 1)])
    if isinstance(support, pmb.Interval):
        return min(max(support.lo + x * (support.hi - support.lo), support.lo), support.hi)
    assert isinstance(support, pmb.Real)
    return float(rng.normal(arm, 1.0) * support.sigma)


def pack(path: Path, description: dict[str, Any], arrays: dict[str, Any], extra: dict[str, bytes]) -> None:
    """Write a file; whatever was done to its parts, the checksums fit."""
    parts: dict[str, bytes] = {}
    for name, array in arrays.items():
        content = io.BytesIO()
        np.lib.format.write_array(content, np.asanyarray(array), allow_pickle=True)
        parts[name] = content.getvalue()
    description = dict(description)
    if isinstance(description.get("parts"), dict):
        description["parts"] = {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}
    if "sha256" in description:
        description["sha256"] = policy_file.description_checksum(description)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("policy.json", json.dumps(description))
        for name, content in parts.items():
            archive.writestr(f"{name}.npy", content)
        for name, content in extra.items():
            archive.writestr(name, content)


Parts = dict[str, Any]


def pick(rng: np.random.Generator, things: Any) -> Any:
    """One of several, as it is."""
    things = list(things)
    return things[int(rng.integers(len(things)))]


def edit_number(rng: np.random.Generator, description: Parts, arrays: Parts) -> None:
    numbers = description["numbers"]
    name = pick(rng, numbers)
    kind = rng.random()
    if kind < 0.6:
        numbers[name] = pick(rng, COUNTS)
    elif kind < 0.8 and isinstance(numbers[name], int):
        numbers[name] += int(rng.integers(-5, 6))
    elif kind < 0.9:
        numbers[name] = pick(rng, OTHERS)
    else:
        numbers[name] = pick(rng, STRANGE)


def edit_elements(rng: np.random.Generator, description: Parts, arrays: Parts) -> None:
    name = pick(rng, arrays)
    array = arrays[name] = np.array(arrays[name])
    flat = array.reshape(-1)
    if flat.dtype.kind not in "if" or not flat.size:
        return
    at = rng.integers(flat.size, size=flat.size if rng.random() < 0.1 else int(rng.integers(1, 4)))
    kind = rng.random()
    with np.errstate(all="ignore"):
        if kind < 0.6:
            value = pick(rng, COUNTS if flat.dtype.kind == "i" else OTHERS)
            flat[at] = np.array(value).astype(flat.dtype)
        elif kind < 0.8:
            flat[at] = flat[at] + np.array(rng.integers(-3, 4)).astype(flat.dtype)
        else:
            flat[at] = flat[rng.permutation(at)]


def edit_array(rng: np.random.Generator, description: Parts, arrays: Parts) -> None:
    name, kind = pick(rng, arrays), int(rng.integers(9))
    array = np.asarray(arrays[name])
    if kind == 0:
        new = pick(rng, ("<c16", "S8", "<U4", "<f4", "<i4", ">i8", ">f8", "?", "<u8", "<f2", "<M8[s]"))
        with np.errstate(all="ignore"):
            arrays[name] = np.zeros(array.shape, new) if new == "<M8[s]" else array.real.astype(new)
    elif kind == 1:
        arrays[name] = array.reshape(-1)[:-1]
    elif kind == 2:
        arrays[name] = np.append(array.reshape(-1), array.reshape(-1)[:1])
    elif kind == 3:
        arrays[name] = array.T if array.ndim == 2 else array.reshape(-1, 1)
    elif kind == 4:
        arrays[name] = np.asfortranarray(array.reshape(-1, 1) if array.ndim < 2 else array)
    elif kind == 5:
        arrays[name] = array.reshape(-1)[0] if array.size else array
    elif kind == 6:
        del arrays[name]
    elif kind == 7:
        arrays[pick(rng, ("lower", "seen", "points", "h", "radii", "value", "../x", "policy", "size"))] = array
    else:
        arrays[name] = np.zeros((int(pick(rng, (0, 1, 10, 10_000, 1_000_000))),), array.dtype)


def edit_description(rng: np.random.Generator, description: Parts, arrays: Parts) -> None:
    kind = int(rng.integers(10))
    if kind == 0:
        description["n_arms"] = pick(rng, (*COUNTS, 10**9, *STRANGE))
    elif kind == 1:
        description["policy"] = pick(rng, (*REGISTRY, *STRANGE))
    elif kind == 2:
        description["support"] = pick(rng, (*SUPPORTS, *STRANGE))
    elif kind == 3:
        description["metric"] = pick(
            rng, (*METRICS, *STRANGE, {"name": "sum", "terms": [{"weight": 1e300, "metric": 1}]})
        )
    elif kind in (4, 5, 6):
        options = description["options"]
        if isinstance(options, dict) and options and rng.random() < 0.9:
            options[pick(rng, options)] = pick(rng, (*COUNTS, *map(float, OTHERS), *WORDS, *STRANGE))
        elif isinstance(options, dict):
            options[pick(rng, ("horizon", "epsilon", "delta", "surprise"))] = 1
    elif kind == 7:
        key = pick(rng, description)
        description[key] = pick(rng, (*COUNTS, *STRANGE))
    elif kind == 8:
        description.pop(pick(rng, description))
    else:
        description["names"] = pick(rng, (["a", "b", "c"], ["\x1b[2J", "b", "c"], ["a", "a", "a"], ["a"], *STRANGE))


def edit_together(rng: np.random.Generator, description: Parts, arrays: Parts) -> None:
    """Counts that fit each other, so that the sums do not give the edit away."""
    numbers, arm = description["numbers"], int(rng.integers(3))
    more = int(pick(rng, (1, 2, 50, 10_000, 10**7, 2**40, -1, -2, -50)))
    for name in ("pulls", "pending", "n_rewards", "counts", "sums"):
        if name in arrays:
            arrays[name] = np.array(arrays[name])
    with np.errstate(all="ignore"):
        try:
            if rng.random() < 0.5:
                arrays["pulls"][arm] += more
                numbers["t"] += more
                arrays["pending"][arm] += more
            else:
                arrays["n_rewards"][arm] += more
                numbers["rewards"] += more
                if "counts" in arrays:
                    arrays["counts"][arm, -1] += more
                    arrays["sums"][arm] += more * float(description["support"].get("hi", 1.0))
        except (KeyError, IndexError, TypeError, OverflowError, AttributeError, ValueError):
            return


EDITS = (edit_number, edit_elements, edit_elements, edit_array, edit_description, edit_together)


def attack(rng: np.random.Generator, folder: Path, recipes: Iterable[str] = tuple(RECIPES)) -> str:
    """One file with one to four edits."""
    description, arrays = copy.deepcopy(base(pick(rng, recipes), pick(rng, ROUNDS)))
    extra: dict[str, bytes] = {}
    for _ in range(int(pick(rng, (1, 1, 1, 2, 3, 4)))):
        try:
            pick(rng, EDITS)(rng, description, arrays)
        except (KeyError, TypeError, ValueError, OverflowError):
            continue  # an earlier edit has left nothing to edit here
    if rng.random() < 0.02:
        extra = {pick(rng, ("a.npy", "../../b.npy", "c.txt", "policy.json")): b"x" * int(rng.integers(100))}
    path = folder / "policy.pmb"
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pack(path, description, arrays, extra)
    return try_to_load(path, rng)


def try_to_load(path: Path, rng: np.random.Generator) -> str:
    """Refused with a sentence, or loaded and then played."""
    try:
        policy = pmb.load(path)
    except Exception as error:
        sentence(error)
        return "refused"
    use(policy, rng, path)
    return "taken"


def use(policy: pmb.Policy, rng: np.random.Generator, path: Path) -> None:
    """Everything that a user does with a policy, and what must be true then."""
    before, told = policy.t, sum(arm.n for arm in policy.estimates)
    for _ in range(12):
        arm = policy.ask()
        if not 0 <= arm < policy.n_arms:
            raise Failed(f"there is no arm {arm}")
        policy.tell(arm, reward(policy, rng, arm))
    arms = policy.ask(8)
    policy.tell(arms, [reward(policy, rng, int(arm)) for arm in arms])
    if policy.t != before + 20 or policy.pulls.sum() != policy.t or (policy.pending < 0).any():
        raise Failed("rounds are not counted")
    now, forgetting = sum(arm.n for arm in policy.estimates), policy._plan.forgetting
    if now != told + 20 if forgetting is None or not forgetting.forgets_rewards else not 0 <= now <= told + 20:
        raise Failed("rewards are not counted")
    mixture = policy.mixture
    if not (np.isfinite(mixture).all() and mixture.min() >= -1e-9 and abs(mixture.sum() - 1.0) < 1e-6):
        raise Failed(f"a mixture of {mixture}")
    for estimate in policy.estimates:
        if estimate.n and abs(float(estimate.p.sum()) - 1.0) > 1e-6:
            raise Failed("probabilities of an arm")
    policy.explain()
    if policy.confidence is not None:
        policy.utility_bounds()
    policy.save(path)
    again = pmb.load(path)
    if again.t != policy.t or again.ask() != policy.ask():
        raise Failed("another policy was saved")
