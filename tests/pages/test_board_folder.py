"""The board of a simulation, without a browser."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.simulation.live_view import FolderReader

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from pmbandits.pages.board import view
from pmbandits.pages.board.folder import WatchedRun, make_app
from tests.pages.client import Client

BANDIT = pmb.Bandit.bernoulli([0.4, 0.9])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("board") / "run"
    pmb.simulate("gini", BANDIT, [pmb.Track(), "uniform"], horizon=400, trials=4, out=out, n_jobs=1, progress=False)
    return out


def test_what_is_shown_is_what_the_run_holds(folder: Path) -> None:
    run = pmb.Run.load(folder / "run.parquet")
    seen = WatchedRun(folder).view("Track", "2")
    t, regret = run.regret("Track")
    assert seen["status"] == "finished" and seen["progress"] == {"done": 8, "total": 8}
    np.testing.assert_array_equal(seen["policies"][0]["t"], t)
    np.testing.assert_allclose(seen["policies"][0]["mean"], regret.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(seen["policies"][0]["error"], regret.std(axis=0, ddof=1) / 2.0, atol=1e-12)
    pulls = run.column("pulls", "Track")[1][2]
    np.testing.assert_allclose(seen["history"]["played"][1]["y"], 100.0 * pulls[:, 1] / t)
    np.testing.assert_allclose(seen["history"]["wanted"][1]["y"], 100.0 * run.column("mixture", "Track")[1][2][:, 1])
    assert seen["arms"][0]["worth"] == pytest.approx(0.24) and seen["arms"][1]["worth"] == pytest.approx(0.09)
    assert [arm["best"] for arm in seen["arms"]] == pytest.approx(list(pmb.oracle("gini", BANDIT).weights))


def test_a_running_simulation_is_shown_as_far_as_it_is(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "journal.bin").read_bytes()
    (tmp_path / "spec.json").write_bytes((folder / "spec.json").read_bytes())
    journal = tmp_path / "journal.bin"
    seen, counts = None, []
    for size in (len(whole) // 3, len(whole) // 2, len(whole) - 1, len(whole)):  # cut in the middle of records
        journal.write_bytes(whole[:size])
        seen = seen or FolderReader(tmp_path)
        seen.read_new_records()
        counts.append(seen.n_finished_trials)
    assert counts == sorted(counts) and counts[0] < 8 and counts[-1] == 8
    assert not (tmp_path / ".lock").exists()  # whoever plays is not disturbed


def test_a_world_that_changes_is_shown_with_what_changed(tmp_path: Path) -> None:
    world = pmb.Changing.steps([(0, BANDIT), (150, pmb.Bandit.bernoulli([0.9, 0.1]))])
    run = pmb.simulate("gini", world, [pmb.Track()], horizon=400, trials=2, out=tmp_path / "run", n_jobs=1)
    seen = WatchedRun(tmp_path / "run").view()
    assert seen["marks"] == [{"x": 150, "text": "the arms changed after round 150"}]
    np.testing.assert_allclose(seen["policies"][0]["mean"], run.regret("Track")[1].mean(axis=0))
    assert seen["history"]["x"][-1] == 400


def test_a_folder_of_something_else_gets_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a folder"):
        FolderReader(tmp_path)
    (tmp_path / "spec.json").write_text("{}")
    (tmp_path / "journal.bin").write_bytes(b"")
    with pytest.raises(ValueError, match=r"spec\.json"):
        FolderReader(tmp_path)


def test_the_page_and_its_numbers_are_served(folder: Path) -> None:
    client = Client(make_app(WatchedRun(folder)))
    assert "script-src 'self'" in client.get("/").headers["content-security-policy"]
    assert client.get("/view?policy=Uniform&trial=1").json()["choices"]["policy"] == "Uniform"
    wrong = client.get("/view?policy=nobody")
    assert wrong.status_code == 400 and "nobody" in wrong.json()["error"]
    assert client.get("/view?trial=99999").json()["choices"]["trial"] == 0


def test_a_message_comes_only_when_something_moved() -> None:
    numbers = iter([1, 1, 1, 2, 2])

    async def seen() -> Any:
        return {"done": next(numbers)}

    async def listen() -> list[bytes]:
        out = []
        async for part in view.server_sent_events(seen, view.Notifier(), every=0.0, heartbeat=1.0):
            out.append(part)
            if len(out) == 3:
                return out
        return out

    first, one, two = asyncio.run(listen())
    assert first.startswith(b"retry") and json.loads(one.split(b"data: ")[1]) == {"done": 1}
    assert json.loads(two.split(b"data: ")[1]) == {"done": 2}
