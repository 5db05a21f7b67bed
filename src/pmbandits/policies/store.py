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
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies import _state as st
from pmbandits.policies.base import REGISTRY, Policy
from pmbandits.supports import Support

FORMAT = "pmbandits-policy"
VERSION = 2  # 1: without sketches


def save(policy: Policy, path: Path) -> None:
    """See :meth:`Policy.save`: written beside the target, flushed, and then moved into place."""
    policy._must_be_bound()
    assert policy.metric is not None and policy.support is not None
    fields = st.views(policy._ints, policy._floats)
    left_out = st.DERIVED + (st.POOL if policy._ints[st.SKETCH] > 0 else ())
    content = {name: array for name, array in fields.items() if name not in left_out}
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
        "sha256": _digest(content),
    }

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("policy.json", json.dumps(description, ensure_ascii=False, indent=1))
            for name, array in content.items():
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
                archive.writestr(f"{name}.npy", buffer.getvalue())

    write_whole(path, write)


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
    description, content = _read(file)
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
    policy = cls(  # type: ignore[call-arg]
        metric,
        n_arms=description["n_arms"],
        support=Support.from_dict(description["support"]),
        names=description["names"],
        seed=description["seed"],
        **options,
    )
    _restore(policy, content, file.name)
    return policy


def _read(file: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with zipfile.ZipFile(file) as archive:
            description = json.loads(archive.read("policy.json"))
            if not isinstance(description, dict) or description.get("format") != FORMAT:
                raise ValueError("format")
            if not isinstance(description.get("version"), int):
                raise ValueError("version")
            if description["version"] > VERSION:
                return description, {}
            content = {
                name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
        missing = {"policy", "library", "metric", "support", "options", "n_arms", "seed", "names"} - set(description)
        if missing or _digest(content) != description["sha256"]:
            raise ValueError("incomplete, or its checksum is wrong")
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, OSError, RuntimeError) as error:
        raise ValueError(
            f"{file.name} is not a policy file, or it is damaged ({type(error).__name__}); nothing was loaded."
        ) from None
    return description, content


def _restore(policy: Policy, content: dict[str, np.ndarray], label: str) -> None:
    saved = content["size"]
    fresh = policy._ints[: st.HEAD].copy()
    movable = [st.ROOM, st.RADII, st.COLUMNS]
    if not np.array_equal(np.delete(saved, movable), np.delete(fresh, movable)):
        raise ValueError(
            f"{label} does not fit its description: it is damaged, or the metric or confidence set given is not "
            "the one that it was saved with; nothing was loaded."
        )
    policy._resize(ROOM=int(saved[st.ROOM]), RADII=int(saved[st.RADII]))
    fields = st.views(policy._ints, policy._floats)
    for name, array in content.items():
        if name not in fields or fields[name].size != array.size:
            raise ValueError(f"{label} has a part {name!r} of the wrong size; it is damaged and was not loaded.")
        fields[name][:] = array
    if saved[st.SKETCH] > 0:
        fields["clock"][st.SORTED] = st.STALE
    policy._remember()


def _digest(content: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(content):
        digest.update(name.encode() + np.ascontiguousarray(content[name]).tobytes())
    return digest.hexdigest()
