"""Who only asks and tells needs none of the extras; where one is missing, one sentence says how to get it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pmbandits as pmb
from pmbandits._extras import EXTRAS, import_optional

ROOT = Path(__file__).parent.parent
BARE = """
import sys, tempfile
for name in ("scipy", *{missing!r}):
    sys.modules[name] = None  # as if it were not installed
import pmbandits as pmb

policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary())
policy.tell(policy.ask(), 1.0)
path = tempfile.mkdtemp() + "/policy.pmb"
policy.save(path)
assert pmb.load(path).t == 1 and policy.estimates
del sys.modules["scipy"]  # asking and telling does not even need this one
coins = pmb.Bandit.bernoulli([0.2, 0.9])
assert pmb.oracle("gini", coins).is_mixture
assert "cannot tell" in str(pmb.advise(dict(a=[0, 1, 0, 1], b=[1, 1, 1, 1]), "gini"))


def refused(action):
    try:
        action()
    except ImportError as error:
        print(error)


def spec():
    import pmbandits.simulation.spec


refused(lambda: pmb.simulate("gini", coins, "track", 10, trials=1))
refused(lambda: pmb.Run.load(__file__ if "__file__" in globals() else sys.executable))
with open(path + ".csv", "w") as file:
    file.write("arm,reward\\na,1\\n")
refused(lambda: pmb.advise(path + ".csv", "gini"))
refused(lambda: pmb.plot_mixture(pmb.GiniDeviation(), coins))
refused(spec)
from pmbandits.cli import main

main()
"""


def test_asking_and_telling_needs_no_extra_and_the_rest_says_which_one() -> None:
    missing = [package for packages in EXTRAS.values() for package in packages]
    library = {"PYTHONPATH": str(Path(pmb.__file__).parent.parent), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BARE.format(missing=missing)], capture_output=True, text=True, env=library
    )
    said = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    extras = [line.partition("pip install ")[2] for line in said]
    assert extras == [f"'pmbandits[{name}]'." for name in ("tables", "tables", "tables", "plots", "specs", "cli")]
    assert done.returncode == 1


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for name, packages in EXTRAS.items():
        assert all(any(line.startswith(package) for line in extras[name]) for package in packages)
    assert project["version"] == pmb.__version__
    assert f"version: {pmb.__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_an_error_inside_a_package_is_not_taken_for_a_missing_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken_package.py").write_text("import surely_not_installed\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="surely_not_installed"):
        import_optional("broken_package", "things")
    with pytest.raises(ImportError, match="pip install surely_not_installed"):
        import_optional("surely_not_installed", "things")
