"""What we depend on is pinned with hashes, has licences that we allow, and is looked up in a database."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tools import audit

PACKAGES = [audit.Package("numpy", "2.0.1"), audit.Package("rich", "13.1"), audit.Package("scipy", "1.14.0")]


def record(name: str, **affected: Any) -> dict[str, Any]:
    return {"id": f"GHSA-{name}", "affected": [{"package": {"name": name, "ecosystem": "PyPI"}, **affected}]}


RECORDS = [
    record("NumPy", versions=["1.0", "2.0.1"]),
    record("rich", ranges=[{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "13.1"}]}]),
    record("scipy", ranges=[{"type": "ECOSYSTEM", "events": [{"introduced": "1.10"}, {"last_affected": "1.14"}]}]),
    {**record("rich", versions=["13.1"]), "withdrawn": "2024-01-01T00:00:00Z"},
    {"id": "X", "affected": [{"package": {"name": "numpy", "ecosystem": "npm"}, "versions": ["2.0.1"]}]},
]


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_a_copy_of_the_database_is_looked_up(packed: bool, tmp_path: Path) -> None:
    for k, one in enumerate(RECORDS):
        (tmp_path / f"{k}.json").write_text(json.dumps(one))
    database = tmp_path
    if packed:
        database = tmp_path / "all.zip"
        with zipfile.ZipFile(database, "w") as archive:
            for k in range(len(RECORDS)):
                archive.write(tmp_path / f"{k}.json", f"{k}.json")
    assert audit.look_up(PACKAGES, database) == {"numpy": ["GHSA-NumPy"], "scipy": ["GHSA-scipy"]}


def test_every_pin_has_hashes() -> None:
    packages = audit.pins()
    assert {"numpy", "scipy", "numba", "pyarrow"} <= {p.name for p in packages if p.used_for == "the library"}
    assert all(p.hashes for p in packages)


def test_what_the_library_needs_has_a_licence_that_we_allow() -> None:
    stated = {p.name: p.licence for p in audit.pins() if p.used_for == "the library"}
    assert all(audit.allowed(text) or text == "not installed here" for text in stated.values()), stated
    assert not audit.allowed("GNU General Public License v3 (GPLv3)")


def test_what_is_known_to_be_unsafe_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "database").mkdir()
    given = ["--out", str(tmp_path), "--database", str(tmp_path / "database")]
    assert audit.main(given) == 0
    assert "| numpy |" in (tmp_path / "licences.md").read_text()
    numpy = next(package for package in audit.pins() if package.name == "numpy")
    (tmp_path / "database" / "1.json").write_text(json.dumps(record("numpy", versions=[numpy.version])))
    assert audit.main(given) == 1
    assert "VULNERABLE: numpy: GHSA-numpy" in capsys.readouterr().out
