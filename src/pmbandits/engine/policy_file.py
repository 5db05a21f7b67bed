"""Policies on disk: a zip of one JSON description and plain arrays. Versioned, checked, never pickle.

A file is as safe to open as a JSON text. Before anything is unpacked its size is known. Constants are made anew from
the options, and are not read. Whatever is read must have the type and the shape that its declaration in
``state/fields.py`` gives it, and every count and index must fit the others (``validate.py``), or nothing is loaded.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from pmbandits import __version__, _validation
from pmbandits._files import write_atomically
from pmbandits.engine.archive import (
    MAX_JSON_BYTES,
    MAX_JSON_VALUES,
    Archive,
    DamagedFile,
    is_json_too_large,
    npy_bytes,
)
from pmbandits.engine.build import MemoryLimitExceeded
from pmbandits.engine.capacity import recompute_derived_fields, set_reward_counts_at_which_to_stop
from pmbandits.engine.columns import count_earlier_arrivals
from pmbandits.engine.explanation import Explaining
from pmbandits.engine.registry import REGISTRY
from pmbandits.engine.roster import Roster, roster_from_json
from pmbandits.engine.tickets import Tickets
from pmbandits.engine.transfer import inactive_memory_sizes, new_memory_for_inactive_arms
from pmbandits.engine.validate import why_memory_is_inconsistent, why_records_contradict
from pmbandits.estimates._rewards import STALE
from pmbandits.metrics.distortion import Distortion
from pmbandits.state.fields import POOLS
from pmbandits.state.layout import MOST
from pmbandits.state.memory import Memory
from pmbandits.supports import Support

if TYPE_CHECKING:
    from pmbandits.engine.policy import Policy

FORMAT = "pmbandits-policy"
VERSION = 1
INACTIVE = "inactive_"  # how the names of arrays begin that belong to arms which do not play
_BASE_BYTES = 1 << 30  # bytes that a policy from a file may take, and so many times the size of the file more
_BYTES_PER_FILE_BYTE = 100
_KEYS = {
    "format", "version", "library", "policy", "metric", "support", "names", "n_arms", "seed", "options", "numbers",
    "parts", "roster", "inactive", "tickets", "sha256",
}  # fmt: skip
_CURVE_POINTS = 65  # of a metric made from a function
_GRID = {"n_grid_used", "grid", "phase_ends"}

Arrays = dict[str, np.ndarray]
Numbers = dict[str, Any]


def description_checksum(description: dict[str, Any]) -> str:
    """The checksum of a description, which holds those of all other parts."""
    rest = {key: value for key, value in description.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _metric_values_at_points(metric: Distortion) -> list[float]:
    """h of a metric at points of [0, 1], by which a metric made from a function is known again."""
    return [float(value) for value in metric(np.linspace(0.0, 1.0, _CURVE_POINTS))]


class Saving(Explaining):
    """The method that writes a policy to a file."""

    def save(self, path: str | Path | BinaryIO) -> None:
        """Write the whole state to a file, completely or not at all. The format has a version, and is not pickle.

        Parameters
        ----------
        path : the path of the file, or a binary file that is open for writing, such as ``io.BytesIO``. Into an open
            file the state is written at once; what becomes of it if that fails is up to you.

        Examples
        --------
        >>> import io, pmbandits as pmb
        >>> policy, file = pmb.Track("gini", n_arms=2, support=pmb.Binary()), io.BytesIO()
        >>> policy.save(file); pmb.load(file).ask() == policy.ask()
        True
        """
        clone = self._clone()
        assert clone.metric is not None and clone.support is not None
        roster, inactive = clone._roster, None
        arrays, numbers = clone._arrays_and_numbers_to_save(clone._memory)
        if roster is not None:
            more, inactive = clone._arrays_and_numbers_to_save(roster.inactive_memory)
            arrays |= {f"{INACTIVE}{name}": array for name, array in more.items()}
        tickets, more = clone._tickets.to_description_and_arrays(clone._segments is not None)
        arrays |= more
        try:
            metric: Any = clone.metric.to_dict()
        except ValueError:
            metric = {"custom": repr(clone.metric), "values": _metric_values_at_points(clone.metric)}
        options = dict(clone.options)
        if not isinstance(options.get("confidence", ""), str):
            options["confidence"] = {"custom": repr(options["confidence"])}
        parts = {name: npy_bytes(array) for name, array in arrays.items()}
        description = {
            "format": FORMAT,
            "version": VERSION,
            "library": __version__,
            "policy": clone.name,
            "metric": metric,
            "support": clone.support.to_dict(),
            "names": list(clone.names) if clone._own_names else None,
            "n_arms": clone.n_arms,
            "seed": clone.seed,
            "options": options,
            "numbers": numbers,
            "roster": None if roster is None else roster.to_json(),
            "inactive": inactive,
            "tickets": tickets,
            "parts": {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()},
        }
        description["sha256"] = description_checksum(description)
        text = json.dumps(description, ensure_ascii=False, indent=1).encode()
        if is_json_too_large(text):
            raise ValueError(
                f"this policy has too many arms, names or atoms for a file: its description has {len(text):,} bytes, "
                f"and {MAX_JSON_BYTES:,} bytes with {MAX_JSON_VALUES:,} values can be read; nothing was written."
            )

        def write(file: BinaryIO) -> None:
            archive = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
            try:
                archive.writestr("policy.json", text)
                for name, content in parts.items():
                    archive.writestr(f"{name}.npy", content)
                archive.close()
            except BaseException:
                archive.fp = None  # else it tries to finish the file, and complains that a part is half written
                raise

        if isinstance(path, (str, Path)):
            write_atomically(Path(path), write)
        else:
            write(path)

    def _arrays_and_numbers_to_save(self, memory: Memory) -> tuple[Arrays, Numbers]:
        """What is saved of a memory: arrays that are not empty, single numbers, and its own that may change."""
        arrays: Arrays = {}
        constants = self._names_of_unsaved_fields()
        numbers: Numbers = {}
        for field in memory.fields:
            if "saved" not in field.lifecycle or field.name in constants:
                continue
            if field.is_single_number:
                numbers[field.name] = memory.number(field.name)
            elif field.name not in POOLS:
                arrays[field.name] = memory.field(field.name)
            elif field.name in ("window_rewards", "window_arms"):
                arrays[field.name] = getattr(memory, field.name)[: memory.rewards if memory.window_capacity else 0]
            elif memory.sketch_size == 0 and memory.n_atoms == 0:  # the pool of sketches is made anew from their items
                arrays[field.name] = getattr(memory, field.name)[: memory.rewards]
        return {name: array for name, array in arrays.items() if array.size}, numbers

    def _names_of_unsaved_fields(self) -> set[str]:
        """What follows from the options of this policy and is not saved: numbers of its own, and a grid that stays.

        Kernels of users may change all of that, so it is saved for their policies.
        """
        if not type(self).__module__.startswith("pmbandits."):
            return set()
        own = {field.name for field in self._own}
        return (own & set(self._plan.setup.numbers)) | (set() if "phases" in own else _GRID)

    def _read_memory_and_roster(self, archive: Archive, description: dict[str, Any]) -> tuple[Memory, Roster | None]:
        """The memory that the file holds and the roster with the memory of inactive arms, checked; or DamagedFile."""
        memory, roster, numbers = self._memory, self._roster, description["numbers"]
        self._check_saved_numbers(memory, numbers)
        most = int(archive.read_array("n_rewards", memory.n_rewards.shape, np.int64).max(initial=0))
        if not 0 <= most <= numbers["rewards"]:
            raise DamagedFile("its counts of rewards are not possible")
        memory = self._memory_resized_for(memory, numbers["rewards"], most)
        self._fill_memory_from_archive(memory, archive, numbers, "")
        wrong = why_memory_is_inconsistent(self, memory)
        if roster is not None:
            arms, numbers = len(roster.inactive_arms), description["inactive"]
            self._check_saved_numbers(memory, numbers)
            self._check_memory_limit(inactive_memory_sizes(memory, arms, numbers["rewards"]))
            beside = new_memory_for_inactive_arms(memory, self._plan, arms, numbers["rewards"])
            self._fill_memory_from_archive(beside, archive, numbers, INACTIVE)
            wrong = wrong or why_records_contradict(beside)
            roster = replace(roster, inactive_memory=beside)
        if wrong is not None:
            raise DamagedFile(wrong)
        for part in (memory,) if roster is None else (memory, roster.inactive_memory):
            recompute_derived_fields(part)
        count_earlier_arrivals(memory, roster, self._segments)
        set_reward_counts_at_which_to_stop(memory, self._plan)
        return memory, roster

    def _check_saved_numbers(self, memory: Memory, numbers: Any) -> None:
        """Refuse single numbers of a file that such a memory does not have, or that are of another type."""
        known = self._arrays_and_numbers_to_save(memory)[1]
        if not isinstance(numbers, dict) or set(numbers) != set(known):
            raise DamagedFile("it does not have the numbers of such a policy")
        for name, number in numbers.items():
            kind = type(known[name])
            if type(number) is not kind or (kind is int and abs(number) > MOST):
                raise DamagedFile(f"its number {name!r} is not possible")
        if numbers["rewards"] < 0:
            raise DamagedFile("its counts of rewards are not possible")

    def _fill_memory_from_archive(self, memory: Memory, archive: Archive, numbers: dict[str, Any], prefix: str) -> None:
        """Fill a memory of the right sizes with the numbers and arrays of a file."""
        for name, number in numbers.items():
            setattr(memory, name, number)
        for name, into in self._arrays_and_numbers_to_save(memory)[0].items():
            into[...] = archive.read_array(f"{prefix}{name}", into.shape, into.dtype)
        if memory.sketch_size > 0:
            memory.n_sorted, memory.n_pooled = STALE, 0


def load(
    path: str | Path | BinaryIO,
    *,
    metric: Distortion | None = None,
    confidence: Any = None,
    max_memory: int | None = None,
) -> Policy:
    """Load a policy that was saved. It takes exactly the decisions that the saved one would have taken.

    Files from strangers can do no harm: whatever is not the state of a policy is refused.

    Parameters
    ----------
    path : a file written by :meth:`Policy.save`: its path, or a binary file that is open for reading and can be read
        at any place, such as ``io.BytesIO``.
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
    if not isinstance(path, (str, Path)):
        name = getattr(path, "name", None)
        return _load_policy_from_file(
            path, Path(name).name if isinstance(name, str) else "the file", metric, confidence, max_memory
        )
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no policy file {str(path)!r}.")
    with Path(path).open("rb") as file:
        return _load_policy_from_file(file, Path(path).name, metric, confidence, max_memory)


def _load_policy_from_file(file: BinaryIO, label: str, metric: Any, confidence: Any, max_memory: int | None) -> Policy:
    """The policy in an open file; ``label`` is what errors call the file."""
    limit = _BASE_BYTES + _BYTES_PER_FILE_BYTE * file.seek(0, io.SEEK_END) if max_memory is None else max_memory
    try:
        archive = Archive(file, limit)
        description = _read_policy_description(archive, label)
        policy = _make_policy(description, label, metric, confidence, limit)
        memory, roster = policy._read_memory_and_roster(archive, description)
        policy._now = policy._kernel_args(memory, roster)
        if roster is not None and (
            roster.clock_start > policy.t
            or any(at > policy._n_rounds_of(policy._segment_of(arm)) for arm, at in roster.joined_at.items())
        ):
            raise DamagedFile("an arm came after the last round")
        assert policy.support is not None
        policy._tickets = Tickets.from_description_and_archive(
            description["tickets"], archive, n_arms=policy.n_arms, rounds=policy.t, support=policy.support,
            segments=policy._segments,
        )  # fmt: skip
        if archive.unread:
            raise DamagedFile("it does not have the parts of such a policy")
    except DamagedFile as error:
        raise ValueError(f"{label} is not a policy file, or it is damaged ({error}); nothing was loaded.") from None
    except MemoryLimitExceeded as error:
        raise ValueError(
            f"{label} is a policy that takes {error} bytes of memory, more than the {limit:,} that a file of its "
            "size may take; if you trust it, give load(path, max_memory=...)."
        ) from None
    del policy._max_bytes
    return policy


def _read_policy_description(archive: Archive, label: str) -> dict[str, Any]:
    found = archive.read_json_object("policy.json")
    version = found.get("version")
    if found.get("format") != FORMAT or not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise DamagedFile("it has another format")
    if version > VERSION:
        library = _validation.escape_control_characters(str(found.get("library")))[:40]
        raise ValueError(
            f"{label} was written by a newer pmbandits ({library}, format {version}); "
            f"this one reads up to format {VERSION}: upgrade pmbandits."
        )
    if set(found) != _KEYS:
        raise DamagedFile("its description is not complete")
    try:
        if description_checksum(found) != found["sha256"]:
            raise DamagedFile("its checksum is wrong")
    except RecursionError:
        raise DamagedFile("its description cannot be read") from None
    kinds = {"policy": str, "metric": dict, "support": dict, "n_arms": int, "seed": int, "options": dict}
    names = found["names"]
    fits = all(isinstance(found[key], kind) and not isinstance(found[key], bool) for key, kind in kinds.items())
    if not fits or not (names is None or (isinstance(names, list) and all(isinstance(name, str) for name in names))):
        raise DamagedFile("its description cannot be read")
    if names is not None and len(names) != found["n_arms"]:
        raise DamagedFile("it does not have one name for each arm")
    archive.checksums = found["parts"]
    return found


def _segments_of_file(found: Any) -> list[str] | dict[str, list[str]]:
    """The option ``segments`` of a file: names, or the names of the arms of each; what they say is checked later."""

    def names(given: Any) -> list[str]:
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            raise DamagedFile("its segments cannot be read")
        return [_validation.escape_control_characters(name) for name in given]

    if isinstance(found, dict):
        return {_validation.escape_control_characters(name): names(arms) for name, arms in found.items()}
    return names(found)


def _make_policy(description: dict[str, Any], label: str, metric: Any, confidence: Any, limit: int) -> Policy:
    """A new policy with the options of a file."""
    cls = REGISTRY.get(description["policy"])
    if cls is None:
        raise ValueError(
            f"{label} holds a policy {description['policy']!r} that is not known here; "
            "import the module that defines it first."
        )
    options = dict(description["options"])
    if "custom" in description["metric"]:
        saved = str(description["metric"]["custom"])
        shown = _validation.escape_control_characters(saved)
        if metric is None:
            raise ValueError(
                f"{label} uses a metric made from a function, {shown}; give it again: load(path, metric=...)."
            )
        values = description["metric"].get("values")
        if not isinstance(values, list) or len(values) != _CURVE_POINTS or not all(map(_validation.is_number, values)):
            raise DamagedFile("it does not say what its metric is")
        if repr(metric) != saved or not np.allclose(_metric_values_at_points(metric), values, rtol=1e-9, atol=1e-12):
            raise ValueError(
                f"{label} was saved with the metric {shown}, but {metric!r} was given"
                f"{', which is another curve' if repr(metric) == saved else ''}; give the one that it was saved with."
            )
    elif metric is not None:
        raise ValueError(f"{label} stores its metric; do not give another one.")
    if isinstance(options.get("confidence"), dict):
        if confidence is None:
            raise ValueError(f"{label} uses a confidence set of your own; give it again: load(path, confidence=...).")
        options["confidence"] = confidence
    elif confidence is not None:
        raise ValueError(f"{label} stores its confidence set; do not give another one.")
    if any(
        not isinstance(value, (str, int, float, type(None)))
        for key, value in options.items()
        if key not in ("confidence", "segments")
    ):
        raise DamagedFile("an option is no number and no word")
    n_columns = description["n_arms"]
    if options.get("segments") is not None:
        options["segments"] = segments = _segments_of_file(options["segments"])
        n_columns = sum(map(len, segments.values())) if isinstance(segments, dict) else n_columns * len(segments)
    policy: Policy = object.__new__(cls)
    policy._max_bytes = limit
    if description["roster"] is not None:  # the memory is made for those that play
        roster = roster_from_json(description["roster"], n_columns)
        policy._now = 0, 0, roster.inactive_memory, roster
    try:
        policy.__init__(  # type: ignore[misc]
            Distortion.from_dict(description["metric"]) if metric is None else metric,
            n_arms=description["n_arms"],
            support=Support.from_dict(description["support"]),
            names=None
            if description["names"] is None
            else [_validation.escape_control_characters(name) for name in description["names"]],
            seed=description["seed"],
            **options,
        )
    except MemoryLimitExceeded:
        raise
    except (ValueError, TypeError) as error:
        raise ValueError(f"{label} cannot be made into a policy: {error}") from None
    except (LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise DamagedFile(f"its options cannot be used, {type(error).__name__}") from None
    return policy
