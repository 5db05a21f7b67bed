"""Files that earlier versions wrote are loaded, and the policy goes on as it would have gone on there.

The files were written by the versions that had formats 1 to 4, each after 300 rewards and 2 more asks. ``next.json``
holds what the last version with format 2 (of formats 3 and 4: with that) asked after it, and the rewards it was told.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.policies.store import VERSION, digest

FILES = Path(__file__).parent / "files"
NEXT: dict[str, dict[str, Any]] = json.loads((FILES / "next.json").read_text())


def version(path: Path) -> int:
    with zipfile.ZipFile(path) as archive:
        return int(json.loads(archive.read("policy.json"))["version"])


def test_there_are_files_of_every_earlier_format() -> None:
    assert {path.stem for path in FILES.glob("*.pmb")} == set(NEXT)
    assert {version(FILES / f"{name}.pmb") for name in NEXT} == set(range(1, VERSION))


@pytest.mark.parametrize("again", [False, True], ids=["loaded", "saved-again"])
@pytest.mark.parametrize("name", NEXT)
def test_a_policy_of_an_earlier_version_goes_on_as_it_would_have(name: str, again: bool, tmp_path: Path) -> None:
    policy, expected = pmb.load(FILES / f"{name}.pmb"), NEXT[name]
    if again:
        policy.save(tmp_path / "new.pmb")
        assert version(tmp_path / "new.pmb") == VERSION
        policy = pmb.load(tmp_path / "new.pmb")
    assert policy.t == expected["asked"] == 302
    assert policy.pulls.sum() == 302 and policy.pending.sum() == 2
    assert sum(arm.n for arm in policy.estimates) == 300
    asked = []
    for arm, reward in expected["next"]:
        asked.append(policy.ask())
        policy.tell(arm, reward)
    assert asked == [arm for arm, _ in expected["next"]]
    assert policy.pulls.tolist() == expected["pulls"]
    np.testing.assert_array_equal(policy.mixture, expected["mixture"])


@pytest.mark.parametrize("cls", [pmb.PMETC, pmb.PMUCB, pmb.CEUCB])
def test_a_file_from_before_the_option_beta_keeps_its_grid(cls: Any, tmp_path: Path) -> None:
    """The schedule of ε always had β = 2 then; for the mean it has β = 1 now."""
    policy = cls(pmb.Mean(), n_arms=2, support=pmb.Binary(), horizon=20_000, beta=2.0)
    assert cls(pmb.Mean(), n_arms=2, support=pmb.Binary(), horizon=20_000).epsilon < policy.epsilon
    policy.save(tmp_path / "new.pmb")
    with zipfile.ZipFile(tmp_path / "new.pmb") as new, zipfile.ZipFile(tmp_path / "old.pmb", "w") as old:
        for name in new.namelist():
            data = new.read(name)
            if name == "policy.json":
                description = json.loads(data)
                del description["options"]["beta"]
                description["sha256"] = digest(description)
                data = json.dumps(description).encode()
            old.writestr(name, data)
    assert pmb.load(tmp_path / "old.pmb").epsilon == policy.epsilon
