"""Policies on disk: a zip of one JSON description and plain arrays. Versioned, checked, never pickle.

A file is as safe to open as a JSON text. Before anything is unpacked its size is known. Constants are made anew from
the options, and are not read. Whatever is read must have the type and the shape that the table in ``state/layout.py``
gives it, and every count and index must fit the others (``soundness.py``), or nothing is loaded.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pmbandits import __version__, _check
from pmbandits._files import write_whole
from pmbandits.estimates._rewards import STALE
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies.archive import Archive, Damaged
from pmbandits.policies.build import TooLarge, limit_rewards, recall, room_for
from pmbandits.policies.old_files import read_old
from pmbandits.policies.policy import REGISTRY, Policy
from pmbandits.policies.shelving import SHELF, described, fits_in, read_bench, read_shelf, shelved
from pmbandits.policies.soundness import what_is_wrong
from pmbandits.policies.ticket_files import described_tickets, kept_names, kept_tickets, read_tickets
from pmbandits.state.layout import FIELDS, MOST, POOLS
from pmbandits.state.memory import Memory
from pmbandits.supports import Support

FORMAT = "pmbandits-policy"
VERSION = 5  # 1 to 3: see old_files.py; 4 had other sets for Real rewards, and no arms that come and go
_MEMORY = 1 << 30  # bytes that a policy from a file may take, and so many times the size of the file more
_UNPACKED = 100
_KEYS = frozenset(
    ("format", "version", "library", "policy", "metric", "support", "names", "n_arms", "seed", "options", "numbers")
)  # and "parts", "bench", "tickets" and "sha256"

_GRID = {"used", "grid", "steps", "kept", "ends"}

Arrays = dict[str, np.ndarray]
Numbers = dict[str, Any]


def save(policy: Policy, path: Path) -> None:
    """See :meth:`Policy.save`. The file is written beside the target, flushed, and then moved into place."""
    policy = twin = policy._twin()
    assert policy.metric is not None and policy.support is not None
    arrays, numbers = _content(policy, twin._memory)
    arrays |= shelved(twin) | kept_tickets(twin._tickets)
    try:
        metric: Any = policy.metric.to_dict()
    except ValueError:
        metric = {"custom": repr(policy.metric)}
    options = dict(policy.options)
    if not isinstance(options.get("confidence", ""), str):
        options["confidence"] = {"custom": repr(options["confidence"])}
    parts = {name: _packed(array) for name, array in arrays.items()}
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
        "bench": described(policy._bench),
        "tickets": described_tickets(policy._tickets),
        "parts": {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()},
    }
    description["sha256"] = digest(description)

    def write(file: BinaryIO) -> None:
        archive = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        try:
            archive.writestr("policy.json", json.dumps(description, ensure_ascii=False, indent=1))
            for name, content in parts.items():
                archive.writestr(f"{name}.npy", content)
            archive.close()
        except BaseException:
            archive.fp = None  # else it tries to finish the file, and complains that a part is half written
            raise

    write_whole(path, write)


def digest(description: dict[str, Any]) -> str:
    """The checksum of a description, which holds those of all other parts."""
    rest = {key: value for key, value in description.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _packed(array: np.ndarray) -> bytes:
    part = io.BytesIO()
    np.lib.format.write_array(part, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return part.getvalue()


def _content(policy: Policy, memory: Memory) -> tuple[Arrays, Numbers]:
    """What is saved of a memory: arrays that are not empty, single numbers, and the policy's own that may change."""
    arrays: Arrays = {}
    constants = _constants(policy)
    numbers: Numbers = {name: number for name, number in memory.own.items() if name not in constants}
    for field in FIELDS:
        if "saved" not in field.becomes or field.name in constants:
            continue
        if field.single:
            numbers[field.name] = getattr(memory, field.name)
        elif field.name not in POOLS:
            arrays[field.name] = getattr(memory, field.name)
        elif field.name in ("recent", "recent_arm"):
            arrays[field.name] = getattr(memory, field.name)[: memory.rewards if memory.n_recent else 0]
        elif memory.sketch_size == 0 and memory.n_atoms == 0:  # with sketches the pool is made anew from their items
            arrays[field.name] = getattr(memory, field.name)[: memory.rewards]
    return {name: array for name, array in arrays.items() if array.size}, numbers


def _constants(policy: Policy) -> set[str]:
    """What follows from the options of this policy and is not saved: numbers of its own, and a grid that stays.

    Kernels of users may change all of that, so it is saved for their policies.
    """
    if not type(policy).__module__.startswith("pmbandits."):
        return set()
    moves = "phases" in policy._own
    return (set(policy._own) & set(policy._plan.setup.numbers)) | (set() if moves else _GRID)


def load(
    path: str | Path, *, metric: Distortion | None = None, confidence: Any = None, max_memory: int | None = None
) -> Policy:
    """Load a policy that was saved. It takes exactly the decisions that the saved one would have taken.

    Files from strangers can do no harm: whatever is not the state of a policy is refused.

    Parameters
    ----------
    path : a file written by :meth:`Policy.save`.
    metric, confidence : needed only for a metric made from a function, or a confidence set of your own. Code is never
        stored, so give it again.
    max_memory : how many bytes the policy may take in memory. The default is 1 GiB plus 100 times the size of the file.

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
    limit = _MEMORY + _UNPACKED * file.stat().st_size if max_memory is None else max_memory
    try:
        with Archive(file) as archive:
            description = _description(archive, file.name)
            policy = _made(description, file.name, metric, confidence, limit)
            policy._memory = _memory(archive, description, policy)
            if not fits_in(policy):
                raise Damaged("an arm came after the last round")
            policy._tickets = read_tickets(
                policy,
                description.get("tickets"),
                lambda name, shape, kind: _part(archive, description, name, shape, kind),
            )
    except Damaged as error:
        raise ValueError(f"{file.name} is not a policy file, or it is damaged ({error}); nothing was loaded.") from None
    except TooLarge as error:
        raise ValueError(
            f"{file.name} is a policy that takes {error} bytes of memory, more than the {limit:,} that a file of its "
            "size may take; if you trust it, give load(path, max_memory=...)."
        ) from None
    del policy._most_bytes
    return policy


def _description(archive: Archive, label: str) -> dict[str, Any]:
    found = archive.text("policy.json")
    version = found.get("version")
    if found.get("format") != FORMAT or not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise Damaged("it has another format")
    if version > VERSION:
        raise ValueError(
            f"{label} was written by a newer pmbandits ({_check.readable(str(found.get('library')))[:40]}, format "
            f"{version}); this one reads up to format {VERSION}: upgrade pmbandits."
        )
    needed = _KEYS - (set() if version > 2 else {"numbers"}) | {"sha256"}
    needed |= ({"parts"} if version > 3 else set()) | ({"bench", "tickets"} if version > 4 else set())
    if set(found) != needed:
        raise Damaged("its description is not complete")
    try:
        if version > 3 and digest(found) != found["sha256"]:
            raise Damaged("its checksum is wrong")
    except RecursionError:
        raise Damaged("its description cannot be read") from None
    kinds = {"policy": str, "metric": dict, "support": dict, "n_arms": int, "seed": int, "options": dict}
    kinds |= {"numbers": dict} if version > 2 else {}
    names = found["names"]
    fits = all(isinstance(found[key], kind) and not isinstance(found[key], bool) for key, kind in kinds.items())
    if not fits or not (names is None or (isinstance(names, list) and all(isinstance(name, str) for name in names))):
        raise Damaged("its description cannot be read")
    if names is not None and len(names) != found["n_arms"]:
        raise Damaged("it does not have one name for each arm")
    return found


def _made(description: dict[str, Any], label: str, metric: Any, confidence: Any, limit: int) -> Policy:
    """A new policy with the options of a file."""
    cls = REGISTRY.get(description["policy"])
    if cls is None:
        raise ValueError(
            f"{label} holds a policy {description['policy']!r} that is not known here; "
            "import the module that defines it first."
        )
    options = {**cls.as_before, **description["options"]}
    if "custom" in description["metric"]:
        saved = str(description["metric"]["custom"])
        shown = _check.readable(saved)
        if metric is None:
            raise ValueError(
                f"{label} uses a metric made from a function, {shown}; give it again: load(path, metric=...)."
            )
        if repr(metric) != saved:
            raise ValueError(
                f"{label} was saved with the metric {shown}, but {metric!r} was given; "
                "give the one that it was saved with."
            )
    elif metric is not None:
        raise ValueError(f"{label} stores its metric; do not give another one.")
    if isinstance(options.get("confidence"), dict):
        if confidence is None:
            raise ValueError(f"{label} uses a confidence set of your own; give it again: load(path, confidence=...).")
        options["confidence"] = confidence
    elif confidence is not None:
        raise ValueError(f"{label} stores its confidence set; do not give another one.")
    kind = description["support"].get("kind")
    if options.get("confidence") == "auto":  # what it was then: the policy goes on as it would have
        if description["version"] < 4 and kind in ("finite", "interval"):
            options["confidence"] = "dkw"
        elif description["version"] < 5 and kind == "real":
            options["confidence"] = "wasserstein"
    if any(
        not isinstance(value, (str, int, float, type(None))) for key, value in options.items() if key != "confidence"
    ):
        raise Damaged("an option is no number and no word")
    policy: Policy = object.__new__(cls)
    policy._most_bytes = limit
    bench = read_bench(description.get("bench"), description["n_arms"])
    if bench is not None:  # the memory is made for those that play
        policy._now = 0, 0, bench.shelf, bench
    try:
        policy.__init__(  # type: ignore[misc]
            Distortion.from_dict(description["metric"]) if metric is None else metric,
            n_arms=description["n_arms"],
            support=Support.from_dict(description["support"]),
            names=None if description["names"] is None else [_check.readable(name) for name in description["names"]],
            seed=description["seed"],
            **options,
        )
    except TooLarge:
        raise
    except (ValueError, TypeError) as error:
        raise ValueError(f"{label} cannot be made into a policy: {error}") from None
    except (LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise Damaged(f"its options cannot be used, {type(error).__name__}") from None
    return policy


def _memory(archive: Archive, description: dict[str, Any], policy: Policy) -> Memory:
    """The memory that the file holds, checked; or Damaged."""
    old = description["version"] < 4
    arrays, numbers = read_old(archive, description, policy) if old else ({}, description["numbers"])
    memory = policy._memory
    known = _content(policy, memory)[1]
    if old:  # these had constants, too
        constants = _constants(policy)
        grid = arrays.get("grid", memory.grid)
        if "grid" in constants and not (grid.shape == memory.grid.shape and np.allclose(grid, memory.grid)):
            raise Damaged("its grid is not the one of its options")
        numbers, arrays = ({k: v for k, v in part.items() if k not in constants} for part in (numbers, arrays))
    if set(numbers) != set(known):
        raise Damaged("it does not have the numbers of such a policy")
    for name, number in numbers.items():
        kind = type(known[name])
        if type(number) is not kind or (kind is int and abs(number) > MOST):
            raise Damaged(f"its number {name!r} is not possible")
    if old and "told" not in arrays:
        raise Damaged("it does not have the parts of such a policy")
    told = arrays["told"] if old else _part(archive, description, "told", memory.told.shape, np.int64)
    if told.dtype != np.int64:
        raise Damaged("its counts of rewards are not possible")
    most = int(told.max(initial=0))
    if not 0 <= most <= numbers["rewards"]:
        raise Damaged("its counts of rewards are not possible")
    memory = room_for(policy, memory, numbers["rewards"], most)
    for name, number in numbers.items():
        setattr(memory, name, number)
    wanted = _content(policy, memory)[0]
    beside = read_shelf(policy, memory, lambda name, shape, kind: _part(archive, description, name, shape, kind))
    parts = set(wanted) | {f"{SHELF}{name}" for name in beside} | kept_names(description.get("tickets"))
    if set(arrays if old else archive.arrays) != parts or (not old and archive.others != {"policy.json"}):
        raise Damaged("it does not have the parts of such a policy")
    for name, into in wanted.items():
        array = arrays[name] if old else _part(archive, description, name, into.shape, into.dtype)
        if array.shape != into.shape or array.dtype != into.dtype:
            raise Damaged(f"its part {name!r} is not as large as it should be")
        into[...] = array
    if memory.sketch_size > 0:
        memory.ordered, memory.pooled = STALE, 0
    wrong = what_is_wrong(policy, memory)
    if wrong is not None:
        raise Damaged(wrong)
    recall(memory)
    limit_rewards(memory, policy._plan)
    return memory


def _part(archive: Archive, description: dict[str, Any], name: str, shape: Any, kind: Any) -> np.ndarray:
    """An array of which nothing is unpacked if it has another size."""
    content, array = archive.array(name, int(np.prod(shape)))
    if (
        not isinstance(description["parts"], dict)
        or description["parts"].get(name) != hashlib.sha256(content).hexdigest()
    ):
        raise Damaged(f"the checksum of its part {name!r} is wrong")
    if array.shape != tuple(shape) or array.dtype != kind:
        raise Damaged(f"its part {name!r} is not as large as it should be")
    return array
