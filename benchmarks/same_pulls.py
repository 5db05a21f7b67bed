"""Whether two versions of the library make the same pulls: run this with each, and compare the two files.

    python -m benchmarks.same_pulls record before.json     # with the old source on the path
    python -m benchmarks.same_pulls record after.json      # with the new source on the path
    python -m benchmarks.same_pulls compare before.json after.json

Every policy plays every support and metric that it accepts. Each case is played twice: by hand, with rewards that come
late and in batches, and by ``simulate``. The file keeps a hash of all pulls and of the mixtures at the end.
Only public names are used, so the script runs with any version.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats as st

import pmbandits as pmb

ROUNDS = 600  # by hand, for each case
HORIZON = 1500  # by simulate, for each case
TRIALS = 2

POLICIES: dict[str, dict[str, Any]] = {
    "PMETC": {"horizon": HORIZON},
    "PMUCB": {"horizon": HORIZON},
    "PMUCB continuous": {"horizon": HORIZON, "search": "continuous"},
    "PMUCB wasserstein": {"horizon": HORIZON, "confidence": "wasserstein"},
    "CEUCB": {"horizon": HORIZON},
    "CEUCB continuous": {"horizon": HORIZON, "search": "continuous"},
    "CIRT": {"epsilon": 0.2},
    "CIRT continuous": {"epsilon": 0.2, "search": "continuous"},
    "CIRT literal": {"epsilon": 0.4, "stopping": "literal"},
    "CIRT sketch": {"epsilon": 0.3, "estimates": "sketch:64"},
    "FixedGrid": {},
    "Track": {},
    "Track binned": {"estimates": "binned:256"},
    "Track sketch": {"estimates": "sketch:64"},
    "Track certify": {"certify": 0.3},
    "Track limits": {"shares": "arm 0 >= 20%; arm 1 + arm 2 <= 60%"},
    "Track single limits": {"shares": "arm 0 >= 20%; arm 1 <= 50%"},
    "Track window": {"estimates": "window:200"},
    "Track discount": {"estimates": "discount:0.99"},
    "Track restart": {"detect": "restart"},
    "Vet": {},
    "Vet binned": {"estimates": "binned:256"},
    "Vet sketch": {"estimates": "sketch:64"},
    "Vet limits": {"shares": "arm 0 >= 20%; arm 1 + arm 2 <= 60%"},
    "Vet single limits": {"shares": "arm 0 >= 20%; arm 1 <= 50%"},
    "Vet window": {"estimates": "window:200"},
    "UCFW": {},
    "UCFW variance": {"bonus": "variance"},
    "MixtureUCB": {},
    "PMUCB limits": {"horizon": HORIZON, "shares": "arm 0 >= 20%"},
    "CIRT limits": {"epsilon": 0.2, "shares": "arm 0 >= 20%"},
    "Uniform": {},
    "SolitaryArm": {"arm": 1},
    "UCB1": {},
    "SolitaryUCB": {"horizon": HORIZON},
    "SolitaryUCB additive": {"horizon": HORIZON, "index": "additive"},
    "Thompson": {},
    "CVaRUCB": {"horizon": HORIZON, "alpha": 0.3},
    "BrownUCB": {"horizon": HORIZON, "alpha": 0.3},
    "UUCB": {},
    "WUCB": {},
    "MCVTS": {"alpha": 0.3},
    "BCVTS": {"alpha": 0.3},
    "RhoNPTS": {},
    "MVLCB": {"horizon": HORIZON},
}
METRICS = (
    "gini",
    "0.7*mean+0.3*upper_cvar(0.9)",
    "wang_right_tail",
    "lower_cvar(0.5)",
    "inverted_s(0.6)",
    "mean - 0.5*gini",
)
HEAVY = ("gini", "lower_cvar(0.5)")  # of these, on heavy tails: bounds take long there


def instances() -> dict[str, tuple[pmb.Bandit, pmb.Support]]:
    """Arms of every support."""
    atoms = np.array([0.0, 0.3, 0.5, 2.0])
    shares = ([0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.7, 0.1], [0.6, 0.0, 0.1, 0.3])
    finite = [st.rv_discrete(values=(np.arange(4), p)) for p in shares]
    draws = {f"arm {i}": atoms[law.rvs(size=4000, random_state=i)] for i, law in enumerate(finite)}
    return {
        "binary": (pmb.Bandit.bernoulli([0.4, 0.9, 0.15]), pmb.Binary()),
        "finite": (pmb.Bandit.from_samples(draws), pmb.Finite(atoms)),
        "interval": (pmb.Bandit([st.beta(2, 5), st.beta(0.5, 0.5), st.beta(4, 2)]), pmb.Interval(0, 1)),
        "heavy": (pmb.Bandit([st.lomax(3.5), st.lomax(3.0, scale=1.5), st.expon(0.2)]), pmb.Heavy(2, 5.0, lo=0.0)),
        "real": (pmb.Bandit([st.norm(1), st.norm(3), st.norm(2, 0.5)]), pmb.Real(1.0)),
    }


def simulate(metric: Any, bandit: Any, policies: Any, **options: Any) -> Any:
    """``pmb.simulate`` of any version: the oldest ones take the bandit first."""
    first = next(iter(inspect.signature(pmb.simulate).parameters))
    one, two = (bandit, metric) if first == "bandit" else (metric, bandit)
    return pmb.simulate(one, two, policies, **options)


def make(label: str, options: dict[str, Any], metric: Any, support: Any) -> Any:
    """The policy of a case, or None if it refuses the combination."""
    try:
        return getattr(pmb, label.split()[0])(metric, n_arms=3, support=support, seed=5, **options)
    except ValueError:
        return None


def by_hand(policy: Any, bandit: Any, late: int) -> list[int]:
    """Pulls while rewards come one by one at first, and then late and in batches."""
    rewards = pmb.simulation.Rewards(bandit, seed=11, trial=3)
    arms: list[int] = []
    waiting: list[tuple[int, float]] = []
    for t in range(ROUNDS):
        arm = int(policy.ask())
        arms.append(arm)
        waiting.append((arm, float(rewards.next(arm)[0])))
        if t < ROUNDS // 2 or len(waiting) > late:
            policy.tell([a for a, _ in waiting], [x for _, x in waiting])
            waiting.clear()
        if t % 97 == 0:
            assert abs(policy.mixture.sum() - 1.0) < 1e-9
    return arms


def cases(done: Container[str] = ()) -> Iterator[tuple[str, str]]:
    """Every case that is not done yet, with the hash of what it did."""
    for where, (bandit, support) in instances().items():
        for text in METRICS:
            metric = pmb.metric(text)
            for label, options in POLICIES.items():
                if where == "heavy" and text not in HEAVY:
                    continue
                if metric.shape == "neither" and (
                    "wasserstein" in label or (label == "FixedGrid" and where != "binary")
                ):
                    continue  # minutes for each case: there is no quick bound
                name = f"{label} | {where} | {text}"
                if name in done:
                    continue
                policy = make(label, options, metric, support)
                if policy is None:
                    yield name, "refused"
                    continue
                digest = hashlib.sha256()
                digest.update(np.array(by_hand(policy, bandit, late=13), dtype=np.int64).tobytes())
                digest.update(policy.mixture.tobytes())
                recipe = getattr(pmb, label.split()[0])(seed=5, **options)
                run = simulate(
                    metric, bandit, {"it": recipe.bind(metric, 3, support)}, horizon=HORIZON, trials=TRIALS, seed=2,
                    checkpoints=25, n_jobs=1,
                )  # fmt: skip
                table = run.to_arrow()
                for column in ("pulls", "mixture"):
                    flat = table[column].combine_chunks().flatten().to_numpy(zero_copy_only=False)
                    digest.update(np.ascontiguousarray(flat).tobytes())
                yield name, digest.hexdigest()[:24]


def main() -> None:
    """Record, or compare two records."""
    action, *files = sys.argv[1:]
    if action == "record":
        path = Path(files[0])
        found = json.loads(path.read_text()) if path.exists() else {}  # stopped, it goes on where it was
        for name, digest in cases(found):
            found[name] = digest
            print(name, digest, flush=True)
            path.write_text(json.dumps(found, indent=0, ensure_ascii=False))
        return
    # Records that are older than the name upper_cvar say cvar.
    one, two = (json.loads(Path(file).read_text().replace("*cvar(", "*upper_cvar(")) for file in files)
    different = [name for name in one if name in two and one[name] != two[name]]
    played = sum(1 for name in one if name in two and one[name] != "refused")
    refused = sum(1 for name in one if name in two and one[name] == "refused")
    print(f"{played} cases played, {played * (ROUNDS + TRIALS * HORIZON):,} rounds; {len(different)} differ")
    never = {name.split(" | ")[0] for name in one} - {name.split(" | ")[0] for name in one if one[name] != "refused"}
    print(f"{refused} cases refused by the policy; never played: {', '.join(sorted(never)) or 'none'}")
    for name in different:
        print("  ", name)
    missing = set(one) ^ set(two)
    if missing:
        print(f"{len(missing)} cases stand in one file only")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
