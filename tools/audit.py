"""Part of ``make audit``: under which licences we depend on what, and known vulnerabilities without the network.

    python -m tools.audit                       # licences and hashes; pip-audit asks for vulnerabilities
    python -m tools.audit --database all.zip    # also looks into a copy of the OSV database: a zip or folder of JSON

Writes out/audit/licences.md (cyclonedx-py writes the bill of materials beside it). Ends with 1 if a licence is not one
of those that we allow, a pin has no hash, or a pinned version has a known vulnerability.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
FILES = {
    "requirements.txt": "the library",
    "requirements-service.txt": "the service",
    "requirements-dev.txt": "tests",
    "requirements-docs.txt": "documentation",
    "requirements-bench.txt": "benchmarks",
    "requirements-tools.txt": "maintenance",
    "requirements-uv.txt": "maintenance",
}
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
    for name, purpose in FILES.items():
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


# ---- known vulnerabilities, from a copy of the database ---------------------------------------------------


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
    """By package, the numbers of what a copy of the database knows of its pinned version."""
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
    """Write the list of licences, and look for what is not allowed, not hashed, or known to be unsafe."""
    parser = argparse.ArgumentParser(prog="python -m tools.audit", description=__doc__.split("\n")[0])
    parser.add_argument("--database", type=Path, help="a copy of the OSV database: a folder or a zip of JSON records")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "audit", help="where the list goes")
    given = parser.parse_args(arguments)
    packages = pins()
    given.out.mkdir(parents=True, exist_ok=True)
    rows = [f"| {p.name} | {p.version} | {p.used_for} | {p.licence} |" for p in packages]
    head = "# Licences\n\n| package | version | used for | licence |\n|---|---|---|---|\n"
    (given.out / "licences.md").write_text(head + "\n".join(rows) + "\n")
    needed = [p for p in packages if p.used_for == "the library" and p.licence != "not installed here"]
    found = [
        f"LICENCE: {p.name} {p.version} states {p.licence!r}; read it, and allow it if it may be."
        for p in needed
        if not allowed(p.licence)
    ]
    found += [f"HASHES: {p.name} is pinned without one; run make lock." for p in packages if not p.hashes]
    known = look_up(packages, given.database) if given.database else {}
    found += [f"VULNERABLE: {name}: {', '.join(numbers)}" for name, numbers in known.items()]
    print(*found, f"{len(packages)} pinned packages; their licences are in {given.out / 'licences.md'}.", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
