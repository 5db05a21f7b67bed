"""``make audit``: what we depend on, under which licences, and whether anything of it is known to be unsafe.

    python -m tools.audit                       # asks the database of OSV (osv.dev) over the network
    python -m tools.audit --database all.zip    # or looks into a copy of it: a zip or a folder of its JSON records

Writes out/audit/sbom.json (CycloneDX 1.5) and out/audit/licences.md. Ends with 0 if no pinned version has a known
vulnerability, with 1 if one has, or a licence is not one of those that we allow, and with 2 if there was no database.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import sys
import urllib.error
import urllib.request
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
SERVICE = "https://api.osv.dev/v1/querybatch"
FILES = ("requirements.txt", "requirements-dev.txt", "requirements-docs.txt")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
# Words of licences that let everybody use, change and pass on. What the library itself needs must have one of these.
ALLOWED = (
    "mit",
    "bsd",
    "apache",
    "psf",
    "python",
    "isc",
    "mpl",
    "hpnd",
    "zlib",
    "unlicense",
    "public domain",
    "0bsd",
    "cc0",
)


@dataclass
class Package:
    """A pinned package."""

    name: str
    version: str
    hashes: list[str] = field(default_factory=list)
    used_for: str = ""
    licence: str = "not installed here"


def pins(root: Path = ROOT) -> list[Package]:
    """All pinned packages of the requirement files, each once, with the first file that needs it."""
    found: dict[str, Package] = {}
    for name in FILES:
        purpose = {"requirements.txt": "the library", "requirements-dev.txt": "development"}.get(name, "documentation")
        package = None
        for line in (root / name).read_text().splitlines():
            pin = _PIN.match(line)
            if pin is not None:
                key = canonicalize_name(pin[1])
                package = found.setdefault(key, Package(key, pin[2], used_for=purpose))
            if package is not None:
                package.hashes += [h for h in _HASH.findall(line) if h not in package.hashes]
    for package in found.values():
        package.licence = licence(package.name)
    return sorted(found.values(), key=lambda package: package.name)


def licence(name: str) -> str:
    """The licence that an installed package states, in a few words."""
    try:
        about = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed here"
    classes = [
        line.rsplit(" :: ", 1)[1] for line in about.get_all("Classifier") or [] if line.startswith("License :: ")
    ]
    text = about.get("License-Expression") or ""
    stated = (about.get("License") or "").strip()
    if not text and classes:
        text = ", ".join(classes)
    if not text and stated:
        text = stated.splitlines()[0]
    return text[:100] or "not stated"


def allowed(text: str) -> bool:
    """Whether a licence is one of those that we allow, by its words."""
    return any(word in text.lower() for word in ALLOWED)


def sbom(packages: list[Package], version: str) -> dict[str, Any]:
    """A bill of materials, CycloneDX 1.5."""

    def component(package: Package) -> dict[str, Any]:
        return {
            "type": "library", "bom-ref": f"pkg:pypi/{package.name}@{package.version}", "name": package.name,
            "version": package.version, "purl": f"pkg:pypi/{package.name}@{package.version}",
            "scope": "required" if package.used_for == "the library" else "excluded",
            "licenses": [{"license": {"name": package.licence}}],
            "properties": [{"name": "pmbandits:used-for", "value": package.used_for},
                           *({"name": "pmbandits:sha256", "value": h} for h in package.hashes)],
        }  # fmt: skip

    main = {"type": "library", "bom-ref": "pmbandits", "name": "pmbandits", "version": version,
            "licenses": [{"license": {"id": "BSD-3-Clause"}}]}  # fmt: skip
    needed = [f"pkg:pypi/{p.name}@{p.version}" for p in packages if p.used_for == "the library"]
    content = json.dumps([[p.name, p.version] for p in packages])
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}", "metadata": {"component": main},
        "components": [component(package) for package in packages],
        "dependencies": [{"ref": "pmbandits", "dependsOn": needed}],
    }  # fmt: skip


# ---- known vulnerabilities -------------------------------------------------------------------------------


def ask_service(packages: list[Package], timeout: float = 30.0) -> dict[str, list[str]]:
    """By package, the numbers of what is known of its pinned version; OSError if nobody answers."""
    queries = [{"package": {"name": p.name, "ecosystem": "PyPI"}, "version": p.version} for p in packages]
    request = urllib.request.Request(
        SERVICE, json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        results = json.loads(answer.read())["results"]
    return {
        p.name: [v["id"] for v in r.get("vulns", [])] for p, r in zip(packages, results, strict=True) if r.get("vulns")
    }


def records(database: Path) -> Iterator[dict[str, Any]]:
    """The records of a copy of the database: JSON files in a folder or a zip."""
    if database.is_dir():
        for path in sorted(database.rglob("*.json")):
            yield json.loads(path.read_text())
        return
    with zipfile.ZipFile(database) as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                yield json.loads(archive.read(name))


def look_up(packages: list[Package], database: Path) -> dict[str, list[str]]:
    """The same from a copy of the database."""
    versions = {package.name: package.version for package in packages}
    found: dict[str, list[str]] = {}
    for record in records(database):
        for affected in record.get("affected", []):
            about = affected.get("package", {})
            name = canonicalize_name(str(about.get("name", "")))
            ours = about.get("ecosystem") == "PyPI" and name in versions and not record.get("withdrawn")
            if ours and concerns(affected, versions[name]) and record["id"] not in found.get(name, []):
                found.setdefault(name, []).append(record["id"])
    return found


def concerns(affected: dict[str, Any], version: str) -> bool:
    """Whether a record is about this version: it is listed, or lies in one of the ranges."""
    if version in affected.get("versions", []):
        return True
    try:
        mine = Version(version)
        for reach in affected.get("ranges", []):
            if reach.get("type") != "ECOSYSTEM":
                continue
            inside = False
            for event in reach.get("events", []):
                if "introduced" in event and (event["introduced"] == "0" or Version(event["introduced"]) <= mine):
                    inside = True
                if "fixed" in event and Version(event["fixed"]) <= mine:
                    inside = False
                if "last_affected" in event and Version(event["last_affected"]) < mine:
                    inside = False
            if inside:
                return True
    except InvalidVersion:
        return True  # better one too many
    return False


def main(arguments: list[str] | None = None) -> int:
    """Write the lists, and ask for vulnerabilities."""
    parser = argparse.ArgumentParser(prog="python -m tools.audit", description=__doc__.split("\n")[0])
    parser.add_argument("--database", type=Path, help="a copy of the OSV database: a folder or a zip of JSON records")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "audit", help="where the lists go")
    given = parser.parse_args(arguments)
    packages = pins()
    given.out.mkdir(parents=True, exist_ok=True)
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    bill = sbom(packages, version[1] if version else "0")
    (given.out / "sbom.json").write_text(json.dumps(bill, indent=1) + "\n")
    rows = [f"| {p.name} | {p.version} | {p.used_for} | {p.licence} |" for p in packages]
    head = "# Licences\n\n| package | version | used for | licence |\n|---|---|---|---|\n"
    (given.out / "licences.md").write_text(head + "\n".join(rows) + "\n")
    needed = [p for p in packages if p.used_for == "the library"]
    strange = [p for p in needed if p.licence != "not installed here" and not allowed(p.licence)]
    print(f"{len(packages)} pinned packages, {len(needed)} of them for the library; lists are in {given.out}.")
    for package in strange:
        print(
            f"LICENCE: {package.name} {package.version} states {package.licence!r}; read it, and allow it if it may be."
        )
    bare = [p.name for p in packages if not p.hashes]
    if bare:
        print(f"HASHES: {', '.join(bare)} are pinned without one; run make lock.")
    try:
        known = look_up(packages, given.database) if given.database else ask_service(packages)
    except (OSError, urllib.error.URLError, zipfile.BadZipFile, ValueError) as error:
        print(
            f"NOT AUDITED: no database of vulnerabilities could be asked ({error}). Run it with the network, or give a "
            "copy of the OSV database for PyPI: python -m tools.audit --database all.zip.",
            file=sys.stderr,
        )
        return 2
    for name, numbers in known.items():
        print(f"VULNERABLE: {name}: {', '.join(numbers)}")
    if not known:
        print("No pinned version has a known vulnerability.")
    return int(bool(known or strange or bare))


if __name__ == "__main__":
    sys.exit(main())
