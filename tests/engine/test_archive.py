"""Files of strangers that cost much are refused before they do."""

from __future__ import annotations

import hashlib
import io
import json
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

import pmbandits as pmb


def policy_file(change: Callable[[dict[str, Any]], None], padding: int = 0) -> io.BytesIO:
    """The file of a small policy with another description, whose checksum is right."""
    saved, out = io.BytesIO(), io.BytesIO()
    pmb.Track("gini", n_arms=2, support=pmb.Binary()).save(saved)
    with zipfile.ZipFile(saved) as parts, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        description = json.loads(parts.read("policy.json"))
        del description["sha256"]
        change(description)
        description["sha256"] = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()
        made.writestr("policy.json", json.dumps(description, separators=(",", ":")))
        for name in set(parts.namelist()) - {"policy.json"}:
            made.writestr(name, parts.read(name))
        made.writestr(zipfile.ZipInfo("padding"), bytes(padding))
    return out


def many_parts() -> io.BytesIO:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for i in range(30_000):
            made.writestr(zipfile.ZipInfo(str(i)), b"")
    return out


def set_to(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda description: description.update({name: value})


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: policy_file(set_to("tickets", [[]] * 2_000_000), 1 << 20), "more than 500,000 values"),
        (lambda: policy_file(set_to("names", ["a"] * 2_000_000), 1 << 20), "more than 500,000 values"),
        (lambda: policy_file(set_to("library", "a" * (20 << 20)), 2 << 20), "too large"),
        (many_parts, "too many parts"),
    ],
    ids=["lists", "names", "text", "parts"],
)
def test_small_files_cannot_cost_much(made: Callable[[], io.BytesIO], why: str) -> None:
    file = made()
    tracemalloc.start()
    began = time.process_time()
    try:
        with pytest.raises(ValueError, match=why):
            pmb.load(file)
        assert tracemalloc.get_traced_memory()[1] < 25 << 20  # the text of the description, and no more
        assert time.process_time() - began < 1.0
    finally:
        tracemalloc.stop()


def test_ten_thousand_arms_with_long_names_are_saved_and_loaded() -> None:
    names = [f"{i:05} " + "ü" * 194 for i in range(10_000)]
    policy, file = pmb.Uniform("mean", names=names, support=pmb.Binary()), io.BytesIO()
    policy.save(file)
    assert pmb.load(file).names == tuple(names)


def test_what_could_not_be_loaded_is_not_saved() -> None:
    policy, file = pmb.Uniform("mean", n_arms=2, support=pmb.Finite(list(range(600_000)))), io.BytesIO()
    with pytest.raises(ValueError, match="too many arms, names or atoms for a file"):
        policy.save(file)
    assert not file.getvalue()
