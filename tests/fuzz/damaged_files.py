"""Policy files with other bytes, or cut off: none may load to another policy. And zip files that unpack to too much."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np

import pmbandits as pmb
from tests.fuzz import Failed, sentence
from tests.fuzz.policy_files import RECIPES, ROUNDS, base, pack, pick


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One damaged file."""
    description, arrays = base(pick(rng, RECIPES), pick(rng, ROUNDS))
    path = folder / "policy.pmb"
    pack(path, description, arrays, {})
    if rng.random() < 0.1:
        bomb(rng, path, description)
    else:
        raw = bytearray(path.read_bytes())
        for at in rng.integers(len(raw), size=int(pick(rng, (1, 1, 2, 8)))):
            raw[at] = raw[at] ^ (1 << int(rng.integers(8))) if rng.random() < 0.5 else int(rng.integers(256))
        path.write_bytes(bytes(raw)[: int(rng.integers(len(raw)))] if rng.random() < 0.2 else bytes(raw))
    try:
        policy = pmb.load(path)
    except Exception as error:
        sentence(error)
        return "refused"
    memory = policy._memory
    for name, array in arrays.items():
        found = memory.field(name)
        found = found[: memory.rewards] if name in ("x", "pool_arm") else found
        if not np.array_equal(found, array):
            raise Failed(f"another {name} was loaded")
    return "taken"


def bomb(rng: np.random.Generator, path: Path, description: dict[str, object]) -> None:
    """A small file that says, or hides, that it unpacks to a gigabyte."""
    size = int(pick(rng, (1 << 20, 1 << 24, 1 << 26)))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        kind = int(rng.integers(3))
        text = json.dumps(description)
        archive.writestr("policy.json", text if kind else text + " " * size)
        content = io.BytesIO()
        np.lib.format.write_array(content, np.zeros(size // 8), allow_pickle=False)
        archive.writestr("pulls.npy", content.getvalue() if kind == 1 else b"\0" * size)
    if rng.random() < 0.5:  # and the size that it states is another one
        raw = bytearray(path.read_bytes())
        for at in range(len(raw) - 46):
            if raw[at : at + 4] == b"PK\x01\x02":
                raw[at + 24 : at + 28] = struct.pack("<I", int(pick(rng, (0, 1, 152, 2**31, 2**32 - 1))))
        path.write_bytes(bytes(raw))
