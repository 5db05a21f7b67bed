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


def test_every_pin_has_hashes_and_the_bill_names_each(tmp_path: Path) -> None:
    packages = audit.pins()
    assert {"numpy", "scipy", "numba", "pyarrow"} <= {p.name for p in packages if p.used_for == "the library"}
    assert all(p.hashes for p in packages)
    bill = audit.sbom(packages, "1.0")
    assert bill["bomFormat"] == "CycloneDX" and len(bill["components"]) == len(packages)
    assert len({c["bom-ref"] for c in bill["components"]}) == len(packages)
    assert set(bill["dependencies"][0]["dependsOn"]) <= {c["bom-ref"] for c in bill["components"]}


def test_what_the_library_needs_has_a_licence_that_we_allow() -> None:
    stated = {p.name: p.licence for p in audit.pins() if p.used_for == "the library"}
    assert all(audit.allowed(text) or text == "not installed here" for text in stated.values()), stated
    assert not audit.allowed("GNU General Public License v3 (GPLv3)")


def test_no_database_is_said_and_is_not_taken_for_a_clean_bill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(*_: Any, **__: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr(audit.urllib.request, "urlopen", nobody)
    assert audit.main(["--out", str(tmp_path)]) == 2
    assert "NOT AUDITED" in capsys.readouterr().err
    assert json.loads((tmp_path / "sbom.json").read_text())["specVersion"] == "1.5"
    assert "| numpy |" in (tmp_path / "licences.md").read_text()
    (tmp_path / "database").mkdir()
    assert audit.main(["--out", str(tmp_path), "--database", str(tmp_path / "database")]) == 0
