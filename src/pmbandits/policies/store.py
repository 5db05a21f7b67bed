"""Policies on disk: a zip of one JSON description and plain arrays. Versioned, checked, never pickle."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pmbandits import __version__
from pmbandits._files import write_whole
from pmbandits.estimates._rewards import SAMPLES, STALE
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies.build import recall, roomier
from pmbandits.policies.policy import REGISTRY, Policy
from pmbandits.state.layout import FIELDS
from pmbandits.state.memory import Memory
from pmbandits.supports import Finite, Interval, Support

FORMAT = "pmbandits-policy"
VERSION = 4  # 1: without sketches; 2: single numbers by their position, see _from_version_2; 3: other sets by default
_POOL = ("x", "owner")

Arrays = dict[str, np.ndarray]
Numbers = dict[str, int | float]


def save(policy: Policy, path: Path) -> None:
    """See :meth:`Policy.save`: written beside the target, flushed, and then moved into place."""
    twin = policy._twin()
    assert policy.metric is not None and policy.support is not None
    arrays, numbers = _content(twin._memory)
    try:
        metric: Any = policy.metric.to_dict()
    except ValueError:
        metric = {"custom": repr(policy.metric)}
    options = dict(policy.options)
    if not isinstance(options.get("confidence", ""), str):
        options["confidence"] = {"custom": repr(options["confidence"])}
    description = {
        "format": FORMAT,
        "version": VERSION,
        "library": __version__,
        "policy": policy.name,
        "metric": metric,
        "support": policy.support.to_dict(),
        "names": list(policy.names) if policy._own_names else None,
        "n_arms": policy.n_arms,
        "seed": policy.seed,
        "options": options,
        "numbers": numbers,
        "sha256": _digest(arrays, numbers),
    }

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("policy.json", json.dumps(description, ensure_ascii=False, indent=1))
            for name, array in arrays.items():
                part = io.BytesIO()
                np.lib.format.write_array(part, np.ascontiguousarray(array), allow_pickle=False)
                archive.writestr(f"{name}.npy", part.getvalue())

    write_whole(path, write)


def _content(memory: Memory) -> tuple[Arrays, Numbers]:
    """What is saved of a memory: arrays, single numbers, and all numbers that the policy has of its own."""
    arrays: Arrays = {}
    numbers: Numbers = memory.own
    for field in FIELDS:
        if "saved" not in field.becomes:
            continue
        if field.single:
            numbers[field.name] = getattr(memory, field.name)
        elif field.name not in _POOL:
            arrays[field.name] = getattr(memory, field.name)
        elif memory.sketch_size == 0:  # of sketches the pool is laid out anew from their items
            arrays[field.name] = getattr(memory, field.name)[: memory.rewards]
    return arrays, numbers


def load(path: str | Path, *, metric: Distortion | None = None, confidence: Any = None) -> Policy:
    """A policy as it was when it was saved: it takes exactly the decisions that the saved one would have taken.

    Parameters
    ----------
    path : a file written by :meth:`Policy.save`.
    metric, confidence : only for a metric made from a function, or a confidence set of your own: code is never
        stored, so give it again.

    Examples
    --------
    >>> import tempfile, os, pmbandits as pmb
    >>> policy = pmb.CIRT(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
    >>> file = os.path.join(tempfile.mkdtemp(), "policy.pmb")
    >>> policy.save(file); pmb.load(file).ask() == policy.ask()
    True
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"there is no policy file {str(path)!r}.")
    description, arrays = _read(file)
    if description["version"] > VERSION:
        raise ValueError(
            f"{file.name} was written by a newer pmbandits ({description['library']}, format "
            f"{description['version']}); this one reads up to format {VERSION}: upgrade pmbandits."
        )
    cls = REGISTRY.get(description["policy"])
    if cls is None:
        raise ValueError(
            f"{file.name} holds a policy {description['policy']!r} that is not known here; "
            "import the module that defines it first."
        )
    options = dict(description["options"])
    if isinstance(description["metric"], dict) and "custom" in description["metric"]:
        if metric is None:
            raise ValueError(
                f"{file.name} uses a metric made from a function, {description['metric']['custom']}; "
                "give it again: load(path, metric=...)."
            )
        if repr(metric) != description["metric"]["custom"]:
            raise ValueError(
                f"{file.name} was saved with the metric {description['metric']['custom']}, but {metric!r} was given; "
                "give the one that it was saved with."
            )
    elif metric is not None:
        raise ValueError(f"{file.name} stores its metric; do not give another one.")
    else:
        metric = Distortion.from_dict(description["metric"])
    if isinstance(options.get("confidence"), dict):
        if confidence is None:
            raise ValueError(
                f"{file.name} uses a confidence set of your own; give it again: load(path, confidence=...)."
            )
        options["confidence"] = confidence
    elif confidence is not None:
        raise ValueError(f"{file.name} stores its confidence set; do not give another one.")
    support = Support.from_dict(description["support"])
    if description["version"] < 4 and options.get("confidence") == "auto" and isinstance(support, (Finite, Interval)):
        options["confidence"] = "dkw"  # what "auto" was then: the policy goes on as it would have
    policy = cls(
        metric,
        n_arms=description["n_arms"],
        support=support,
        names=description["names"],
        seed=description["seed"],
        **options,
    )
    numbers = description["numbers"]
    if description["version"] < 3:
        arrays, numbers = _from_version_2(policy, arrays, file.name)
    _restore(policy, arrays, numbers, file.name)
    if description["version"] < 4:
        policy._memory.seen[:] = 0  # the sets are worked out anew: they may be other ones
    return policy


def _read(file: Path) -> tuple[dict[str, Any], Arrays]:
    try:
        with zipfile.ZipFile(file) as archive:
            description = json.loads(archive.read("policy.json"))
            if not isinstance(description, dict) or description.get("format") != FORMAT:
                raise ValueError("format")
            if not isinstance(description.get("version"), int):
                raise ValueError("version")
            if description["version"] > VERSION:
                return description, {}
            arrays = {
                name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
        if description["version"] < 3:
            description.setdefault("numbers", {})
        missing = {"policy", "library", "metric", "support", "options", "n_arms", "seed", "names", "numbers"}
        if missing - set(description) or _digest(arrays, description["numbers"]) != description["sha256"]:
            raise ValueError("incomplete, or its checksum is wrong")
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, OSError, RuntimeError) as error:
        raise ValueError(
            f"{file.name} is not a policy file, or it is damaged ({type(error).__name__}); nothing was loaded."
        ) from None
    return description, arrays


def _restore(policy: Policy, arrays: Arrays, numbers: Numbers, label: str) -> None:
    rewards = numbers.get("rewards")
    if not isinstance(rewards, int) or rewards < 0 or "told" not in arrays:
        raise _unfit(label)
    memory = roomier(policy._memory, policy._plan, rewards)
    wanted, known = _content(memory)
    # Parts of no size belong to other algorithms; files need not have them.
    needed = {name for name, array in wanted.items() if array.size or name in _POOL}
    if set(numbers) != set(known) or not needed <= set(arrays) <= set(wanted):
        raise _unfit(label)
    for name, number in numbers.items():
        setattr(memory, name, number)
    for name, array in arrays.items():
        into = getattr(memory, name)
        if name in _POOL and array.size == rewards:
            into = into[:rewards]
        if into.size != array.size:
            raise ValueError(f"{label} has a part {name!r} of the wrong size; it is damaged and was not loaded.")
        into[...] = array.reshape(into.shape)
    if memory.sketch_size > 0:
        memory.ordered = STALE
    recall(memory)
    policy._memory = memory


def _unfit(label: str) -> ValueError:
    return ValueError(
        f"{label} does not fit its description: it is damaged, or the metric or confidence set given is not "
        "the one that it was saved with; nothing was loaded."
    )


def _digest(arrays: Arrays, numbers: Numbers) -> str:
    digest = hashlib.sha256(json.dumps(numbers, sort_keys=True).encode() if numbers else b"")
    for name in sorted(arrays):
        digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


# ---- files of earlier versions --------------------------------------------------------------------------

# Where format 2 kept its single numbers, in an array called clock; and what it called some arrays.
_CLOCK_2 = {
    "asked": 0, "rewards": 1, "current": 2, "dirty": 3, "phase": 4, "used": 5, "tracking": 6, "committed": 7,
    "stream": 8, "ordered": 9, "pooled": 10, "look_at": 14, "wide_at": 15,
}  # fmt: skip
_NAMES_2 = {"book": "sketch_book", "items": "sketch_items", "marks": "sketch_marks"}
# Of the array of sizes: arms, atoms, grid points, packed metric, table, mode, kind of set, shape, bounded, coarse, k.
_SIZES_2 = {
    "n_arms": 0, "n_atoms": 1, "n_grid": 2, "n_packed": 5, "n_table": 6, "mode": 7, "set_kind": 8, "metric_shape": 9,
    "bounded": 10, "coarse": 12, "sketch_size": 13,
}  # fmt: skip


def _from_version_2(policy: Policy, arrays: Arrays, label: str) -> tuple[Arrays, Numbers]:
    """What a file of format 1 or 2 says, in the names of today. Constants are made anew from the options."""
    memory = policy._memory
    size, clock = (np.asarray(arrays.get(name, [])) for name in ("size", "clock"))
    if size.size != 16 or clock.size != 16 or any(size[at] != getattr(memory, n) for n, at in _SIZES_2.items()):
        raise _unfit(label)
    rewards = int(clock[_CLOCK_2["rewards"]])
    wanted, known = _content(memory)
    constants = {name: number for name, number in memory.own.items() if name in policy._plan.setup.numbers}
    found = {_NAMES_2.get(name, name): array for name, array in arrays.items()}
    missing = {name for name, array in wanted.items() if array.size and name not in found}
    if not set(known) <= {*_CLOCK_2, *constants}:
        raise _unfit(label)
    if missing:
        raise ValueError(f"{label} has no part {sorted(missing)[0]!r}; it is damaged and was not loaded.")
    out = {name: found.get(name, array) for name, array in wanted.items()}
    for name in _POOL:
        if name in out and memory.mode == SAMPLES:
            out[name] = out[name][:rewards]
    return out, {name: constants[name] if name in constants else int(clock[_CLOCK_2[name]]) for name in known}
