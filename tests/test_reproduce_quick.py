"""The parts of the reproduction that play no policy, end to end, in seconds; ``test_paper`` does all of it."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from pmbandits.cli.app import app


def test_a_page_with_claims_figures_and_tables(tmp_path: Path) -> None:
    out = tmp_path / "paper"
    done = CliRunner().invoke(app, ["reproduce", "fig1", "table1", "table3", "--quick", "--out", str(out)])
    assert done.exit_code == 0, done.output
    claims = json.loads((out / "claims.json").read_text(encoding="utf-8"))
    assert {claim["experiment"] for claim in claims["claims"]} == {"fig1", "table1", "table3"}
    assert all(claim["verdict"] in ("holds", "does not hold", "not decidable") for claim in claims["claims"])
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "data:image" in page and all(name in page for name in ("fig1", "table1", "table3"))
