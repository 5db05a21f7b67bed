"""The examples of the page "Ask and tell over HTTP" are run, in its order: Python, the shell, JavaScript."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import pmbandits as pmb
from tests.client.test_client import url as url  # a service

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "http.md"


def blocks(language: str) -> str:
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S))


def run(command: list[str], code: str, url: str, folder: Path) -> str:
    env = {**os.environ, "PMBANDITS_URL": url, "PMBANDITS_KEY": "pmb_none"}
    done = subprocess.run(command, input=code, text=True, capture_output=True, env=env, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def warm(url: str) -> None:
    """Kernels are compiled when they are first needed, which takes longer than the examples wait."""
    with pmb.connect(url, timeout=200.0, patience=400.0) as client:
        first = client.create("first", metric="gini", arms=["A", "B"], support=pmb.Interval(0, 1))
        first.tell(first.ask(40), [0.5] * 40)
        first.ask(among=["B"]), first.add_arm("C"), first.limit("A >= 10%; B <= 60%"), first.ask(40), first.state()


@pytest.mark.slow
def test_the_examples_run(url: str, tmp_path: Path) -> None:
    shown = run([sys.executable, "-"], blocks("py"), url, tmp_path)
    assert "is next" in shown and "('A', 'B', 'C') running" in shown and (tmp_path / "shop.pmb").exists()
    told = pd.read_csv(tmp_path / "rewards.csv")
    log = pmb.connect(url)["shop"].log()
    assert len(told) == sum(event["kind"] in ("ask", "asked") for event in log) and told.reward.notna().sum() > 100
    assert told.reward[told.reward == 0.75].size == 1 and not (told.reward == 0.25).any()  # the corrected one
    if shutil.which("curl"):
        shown = run(["bash", "-e"], blocks("bash"), url, tmp_path)
        assert '"playing":["one-page","three-steps"]' in shown and '"ticket":' in shown and '"taken":1' in shown
        assert (tmp_path / "shop.csv").read_text().startswith("seq,time,kind")


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here to run JavaScript")
def test_the_javascript_runs(url: str, tmp_path: Path) -> None:
    node = ["node", "--input-type=module", "-"]
    with pmb.connect(url) as client:
        client.create("scripted", metric="gini", arms=["A", "B"], support=pmb.Interval(0, 1))
    code = blocks("js").replace("/experiments/shop`", "/experiments/scripted`")
    assert "taken: 1" in run(node, code, url, tmp_path)
