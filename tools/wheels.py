"""``make wheels``: the wheel and the source distribution, and that both can be installed and used.

    python -m tools.wheels                                # with every Python from 3.11 to 3.13 that is here
    python -m tools.wheels python3.11 /opt/python3.12     # with these

What is checked: an index can show the README (twine, strict). The source distribution has every file of the repository,
and the wheel that is built from it is the same as the one that is built here. In a clean environment of each Python the
wheel is installed with nothing but the versions that it asks for. ``tools/smoke.py`` then does what every user does:
with numpy and numba alone, then without extras, then with the service and the command line. Of a version of Python that
is not here, it is only checked that all packages can be had for it. Needs the network.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "wheels"
VERSIONS = ("3.11", "3.12", "3.13")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
LEFT_OUT = (".ci/", ".github/", ".gitignore")  # of the repository, not part of a source distribution
TESTS = ("tests/test_package.py", "tests/test_extras.py", "tests/metrics/test_value.py")


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """What a command prints; its failure is ours."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment}
    )
    if done.returncode:
        sys.exit(f"{' '.join(str(part) for part in command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def pip(python: Path, *arguments: str | Path) -> None:
    """Our pip, on another environment, which needs none of its own."""
    run(
        sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet", *arguments
    )


def environment(python: str, folder: Path) -> Path:
    """The interpreter of a new, empty environment."""
    run(python, "-m", "venv", "--without-pip", folder)
    return folder / "bin" / "python"


def interpreter(version: str) -> str | None:
    """A Python of this version that runs: on the path, or one of pyenv's."""
    found = shutil.which(f"python{version}")
    for path in (found, *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))):
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return str(path)
    return None


def build(source: Path, folder: Path, *kinds: str) -> list[Path]:
    """The files that hatchling makes of a source tree."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder, cwd=source)
    return sorted(folder.glob("*.whl")) + sorted(folder.glob("*.tar.gz"))


def missing_files(sdist: Path) -> list[str]:
    """Files of the repository that a source distribution does not have."""
    with tarfile.open(sdist) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    ours = run("git", "ls-files").splitlines()
    return [name for name in ours if name not in there and not name.startswith(LEFT_OUT)]


def contents(wheel: Path) -> dict[str, int]:
    """The files of a wheel, each with its check sum."""
    with zipfile.ZipFile(wheel) as archive:
        return {one.filename: one.CRC for one in archive.infolist()}


def megabytes(environment: Path) -> int:
    """What a new environment takes on disk."""
    return sum(path.lstat().st_size for path in environment.rglob("*") if path.is_file()) // 10**6


def try_out(python: str, wheel: Path, unpacked: Path, folder: Path) -> None:
    """Install and use the wheel with one Python, then run some tests of the source distribution."""
    inside = environment(python, folder / "environment")
    version = run(inside, "-c", "import platform; print(platform.python_version())").strip()
    smoke = shutil.copy(ROOT / "tools" / "smoke.py", folder)
    kernels = {"PMBANDITS_CACHE_DIR": str(folder / "kernels"), "MPLBACKEND": "Agg"}
    for kind, packages in (
        ("smallest", ("--no-deps", wheel)),
        ("bare", (wheel,)),
        ("service", (f"{wheel}[service]",)),
    ):
        if kind == "smallest":
            pip(inside, "numpy", "numba")
        pip(inside, *packages)
        size = megabytes(folder / "environment")
        said = run(inside, smoke, kind, cwd=folder, **kernels).strip()
        print(f"Python {version}, {size} MB, {said}", flush=True)
    pip(inside, "pytest", "pytest-xdist", "hypothesis", "pandas", "mpmath")
    run(
        inside,
        "-m",
        "pytest",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-k",
        "not aggregate",
        *TESTS,
        cwd=unpacked,
        **kernels,
    )
    names = ("numpy", "scipy", "numba", "pyarrow")
    code = f"import importlib.metadata as m; print(*(f'{{n}} {{m.version(n)}}' for n in {names}))"
    print(f"Python {version}: tests of the source distribution pass, with", run(inside, "-c", code).strip(), flush=True)


def available(version: str, wheel: Path, folder: Path) -> None:
    """All packages that the wheel asks for can be had, already built, for a Python that is not here."""
    run(
        *(*PIP, "install", "--dry-run", "--quiet"),
        *("--python-version", version, "--only-binary=:all:", "--target", folder, f"{wheel}[service]"),
    )
    print(f"Python {version} is not here: only that all packages can be had for it was checked.")


def main() -> None:
    """Build, check and try out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="*", help="interpreters to try; all that are here, if none is given")
    pythons = parser.parse_args().pythons
    here = {version: interpreter(version) for version in VERSIONS}
    shutil.rmtree(OUT, ignore_errors=True)
    wheel, sdist = build(ROOT, OUT, "wheel", "sdist")
    if lost := missing_files(sdist):
        sys.exit(f"{sdist.name} has not all files: {', '.join(lost)} are missing; look at pyproject.toml, sdist.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        unpacked = next(folder.glob("pmbandits-*"))
        if contents(build(unpacked, folder / "again", "wheel")[0]) != contents(wheel):
            sys.exit(f"The wheel that is built from {sdist.name} is not the one that is built here.")
        print(f"{wheel.name} and {sdist.name} are in {OUT.relative_to(ROOT)}; the second contains every file.")
        twine = environment(sys.executable, folder / "twine")
        pip(twine, "twine")
        print(run(twine, "-m", "twine", "check", "--strict", wheel, sdist).strip())
        for k, python in enumerate(pythons or [path for path in here.values() if path]):
            (folder / str(k)).mkdir()
            try_out(python, wheel, unpacked, folder / str(k))
        if not pythons:
            for version in (version for version, path in here.items() if not path):
                available(version, wheel, folder / f"for-{version}")


if __name__ == "__main__":
    main()
