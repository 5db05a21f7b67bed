"""Files that somebody made to do harm, with checksums that fit: what was found once, one by one."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from tests.fuzz.policy_files import base, pack
from tests.helpers import one_sentence


def refused(path: Path, **options: Any) -> str:
    with pytest.raises(ValueError) as caught:
        pmb.load(path, **options)
    return one_sentence(caught.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.pmb"


@pytest.mark.parametrize("rewards", [-100_000, -1, 2**40, 2**62])
def test_a_number_of_rewards_that_would_write_outside_of_memory(path: Path, rewards: int) -> None:
    description, arrays = base("track-real", 60)
    numbers = {**description["numbers"], "rewards": rewards}
    pack(path, {**description, "numbers": numbers}, arrays, {})
    refused(path)


@pytest.mark.parametrize("n_arms", [10**9, 10**6, 2**63, -1, 0, 3.0, True, "3"])
def test_a_number_of_arms_that_would_take_all_memory(path: Path, n_arms: Any) -> None:
    description, arrays = base("cirt-binary", 9)
    pack(path, {**description, "n_arms": n_arms}, arrays, {})
    refused(path)


def test_options_that_would_take_all_memory_are_refused_unless_they_are_allowed(path: Path) -> None:
    description, arrays = base("track-sketch", 0)
    large = {**description["options"], "estimates": "sketch:1048576"}
    pack(path, {**description, "n_arms": 100, "options": large}, arrays, {})
    assert "max_memory" in refused(path)
    policy = pmb.CIRT("gini", n_arms=3, support=pmb.Binary())
    policy.save(path)
    assert "max_memory" in refused(path, max_memory=1000)
    assert pmb.load(path, max_memory=10**7).t == 0


def test_counts_that_would_take_all_memory(path: Path) -> None:
    description, arrays = base("cirt-binary", 60)
    arrays = {name: array.copy() for name, array in arrays.items()}
    numbers, more = dict(description["numbers"]), 2**40
    arrays["n_rewards"][0] += more
    arrays["counts"][0, 0] += more
    numbers["rewards"] += more
    pack(path, {**description, "numbers": numbers}, arrays, {})
    assert "max_memory" in refused(path)


@pytest.mark.parametrize("kind", ["<c16", "S8", "<f4", "<i4", ">i8", "?", "<M8[s]", "O"])
@pytest.mark.parametrize("name", ["pulls", "sums", "mix"])
def test_parts_of_another_type(path: Path, name: str, kind: str) -> None:
    description, arrays = base("cirt-binary", 60)
    pack(path, description, {**arrays, name: np.zeros(3, dtype=kind)}, {})
    refused(path)


def test_parts_that_are_missing_or_too_many_or_not_a_number(path: Path) -> None:
    description, arrays = base("track-real", 60)
    for name in arrays:
        pack(path, description, {n: a for n, a in arrays.items() if n != name}, {})
        refused(path)
        spoiled = arrays[name].copy()
        spoiled[..., 0] = np.nan if spoiled.dtype.kind == "f" else -1
        pack(path, description, {**arrays, name: spoiled}, {})
        refused(path)
    pack(path, description, {**arrays, "points": np.zeros(3)}, {})
    refused(path)
    pack(path, description, arrays, {"readme.txt": b"hello"})
    refused(path)


@pytest.mark.parametrize("part", ["pulls.npy", "policy.json", "x.npy"])
def test_a_zip_bomb_is_not_unpacked(path: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    description, arrays = base("track-real", 60)
    pack(path, description, arrays, {})
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[part] += b"\0" * (1 << 27 if part == "policy.json" else 1 << 23)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert path.stat().st_size < 1 << 18
    asked: list[int] = []
    read = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda self, n=-1: asked.append(n) or read(self, n))
    assert "too large" in refused(path)
    assert all(0 <= n < 1 << 20 for n in asked)


def test_a_description_that_is_nested_too_deep(path: Path) -> None:
    for text in ("[" * 10**6, '{"a":' * 10**5 + "1" + "}" * 10**5, '{"n_arms": ' + "9" * 10**5 + "}"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("policy.json", text)
        refused(path)


def test_names_with_control_characters_are_written_out(path: Path) -> None:
    description, arrays = base("cirt-binary", 9)
    pack(path, {**description, "names": ["a\x1b[2J", "b", "c"]}, arrays, {})
    assert pmb.load(path).names == ("a\\x1b[2J", "b", "c")


def test_a_phase_that_lies_beyond_what_is_remembered() -> None:
    with pytest.raises(ValueError, match="too fine"):
        pmb.CIRT("gini", n_arms=2, support=pmb.Binary(), epsilon=1e-30)
