"""Files of formats 1 to 3 with edits and a checksum that fits."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pmbandits.policies import old_files
from tests.fuzz.policy_files import (
    EDITS,
    edit_array,
    edit_description,
    edit_elements,
    pick,
    try_to_load,
)

FILES = sorted((Path(__file__).parent.parent / "policies" / "files").glob("*.pmb"))


@cache
def parts(path: Path) -> tuple[str, dict[str, bytes]]:
    """The description as text, and the other parts."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    return content.pop("policy.json").decode(), {name.removesuffix(".npy"): raw for name, raw in content.items()}


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One file with one to three edits."""
    text, raw = parts(pick(rng, FILES))
    description: dict[str, Any] = json.loads(text)
    arrays: dict[str, Any] = {
        name: np.lib.format.read_array(io.BytesIO(content), allow_pickle=False) for name, content in raw.items()
    }
    edits = EDITS if "numbers" in description else (edit_elements, edit_elements, edit_array, edit_description)
    for _ in range(int(pick(rng, (1, 1, 2, 3)))):
        try:
            pick(rng, edits)(rng, description, arrays)
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
    numbers = description.get("numbers", {})
    try:
        if "sha256" in description:
            description["sha256"] = old_files._digest(arrays, numbers)
    except (TypeError, ValueError, AttributeError):
        pass
    path = folder / "old.pmb"
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        warnings.simplefilter("ignore")
        archive.writestr("policy.json", json.dumps(description))
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asanyarray(array), allow_pickle=True)
            archive.writestr(f"{name}.npy", content.getvalue())
    return try_to_load(path, rng)
