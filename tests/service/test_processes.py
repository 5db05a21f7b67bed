"""Several processes serve one experiment with the result of one; and none that is started later knows less."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn

import pmbandits as pmb
from pmbandits.service import events as kinds
from pmbandits.service import experiment_cache as books
from pmbandits.service import processes, reading, schema, sqlite
from tests.service.replaying import replayed, rows_of, same
from tests.service.serving import SHOP, Served, serving

POLICIES: list[dict[str, Any]] = [
    {"policy": "track"},
    {"policy": "thompson", "metric": "mean", "seed": 7},
    {"policy": "track", "shares": "A >= 20%; C <= 0.3"},
    {"policy": "track", "play": "randomised"},
]


COME_AND_GO = (("add", "D"), ("pause", "A"), ("limit", "B <= 70%"), ("add", "E"), ("resume", "A"), ("retire", "E"))


def play(
    served: list[Served], name: str, rounds: int, seed: int, changes: Sequence[tuple[str, str]] = ()
) -> None:  # fmt: skip
    """Asks and tells at random, of one process or another: late, doubled, corrected, many at once."""
    rng = random.Random(seed)
    waiting: list[int] = []
    arms = list(changes)
    for _ in range(rounds):
        one = rng.choice(served)
        if rng.random() < 0.5:
            body: dict[str, Any] = {} if rng.random() < 0.7 else {"n": rng.randint(1, 5)}
            if rng.random() < 0.3:
                body["key"] = str(rng.random())
            elif rng.random() < 0.2 and not body:
                body["unit"] = str(rng.randint(0, 5))
            elif rng.random() < 0.2:
                body["among"] = ["B", "C"]
            asked = one.post(f"/{name}/ask", body)
            waiting += asked.get("tickets") or [asked["ticket"]]
            if "key" in body:
                assert rng.choice(served).post(f"/{name}/ask", body) == asked
        elif waiting:
            some = [waiting.pop(rng.randrange(len(waiting))) for _ in range(rng.randint(1, min(3, len(waiting))))]
            told = {"tickets": some, "rewards": [float(rng.random() < 0.6) for _ in some]}
            assert one.post(f"/{name}/tell", told)["taken"] == len(some)
            if rng.random() < 0.3:
                assert rng.choice(served).post(f"/{name}/tell", told)["repeated"] == len(some)
            elif rng.random() < 0.2:
                told["rewards"][0] = 1.0 - told["rewards"][0]
                assert rng.choice(served).post(f"/{name}/tell", {**told, "correct": True})["corrected"] == 1
        if arms and rng.random() < 0.05:
            do, what = arms.pop(0)
            if do == "limit":
                one.send("PUT", f"/v1/experiments/{name}/limits", json={"shares": what}).raise_for_status()
            else:
                one.post(f"/{name}/arms", {"do": do, "arm": what})


def _changes(change: dict[str, Any]) -> list[tuple[str, str]]:
    """Arms that come and go, and limits where these can be."""
    return [] if "shares" in change else [one for one in COME_AND_GO if one[0] != "limit" or "play" not in change]


def policy_of(served: Served, name: str, folder: Path) -> pmb.Policy:
    """What a process thinks, as the file that it gives away."""
    file = folder / "export.pmb"
    file.write_bytes(served.send("GET", f"/v1/experiments/{name}/export").content)
    return pmb.load(file)


@pytest.mark.parametrize("change", POLICIES, ids=lambda change: "-".join(map(str, change.values()))[:20])
def test_two_processes_are_as_one(tmp_path: Path, change: dict[str, Any], monkeypatch: Any) -> None:
    monkeypatch.setattr(books, "FEWEST", 60)  # policies are saved now and then, also in so short a game
    store = tmp_path / "store.db"
    with serving(store) as one, serving(store) as two:
        one.post("", {**SHOP, **change})
        play([one, two], "shop", 250, seed=1, changes=_changes(change))
        alone = replayed(*rows_of(f"sqlite:///{store}", "shop"))
        for served in (one, two):
            same(policy_of(served, "shop", tmp_path), alone)
    with serving(store) as later:
        assert later.service.experiment_cache.saved[1] > 0, "it began with a saved policy"
        same(policy_of(later, "shop", tmp_path), alone)
        later.post("/shop/ask")


def test_requests_at_the_same_time(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with serving(store) as one, serving(store) as two:
        one.post("", SHOP)
        first = one.post("/shop/ask", {"n": 200})["tickets"]
        answers: list[Any] = []
        begin = threading.Barrier(2)

        def race(served: Served, reward: float) -> None:
            begin.wait(60)
            for ticket in first if reward == 0.0 else reversed(first):  # from both ends: they meet in the middle
                found = served.send("POST", "/v1/experiments/shop/tell", json={"ticket": ticket, "reward": reward})
                answers.append((ticket, reward, found.status_code))
                served.post("/shop/ask")

        threads = [threading.Thread(target=race, args=given) for given in ((one, 0.0), (two, 1.0))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spec, rows = rows_of(f"sqlite:///{store}", "shop")
        alone = replayed(spec, rows)
        told = {row[2]: row[4] for row in rows if row[1] == kinds.TELL}
        assert len(told) == 200
        assert len(rows) == 200 + 200 + 400
        for ticket, reward, status in answers:  # of two different rewards one counts, and both clients know which
            assert status == (200 if told[ticket] == reward else 409)
        assert {told[ticket] for ticket in first} == {0.0, 1.0}, "each process won some of the races"
        same(policy_of(one, "shop", tmp_path), alone)
        same(policy_of(two, "shop", tmp_path), alone)


def test_a_saved_policy_becomes_an_experiment_and_back(tmp_path: Path) -> None:
    policy = pmb.Track(
        "0.7*mean + 0.3*upper_cvar(0.9)", names=["x", "y"], support=pmb.Interval(0, 2), shares="x >= 10%"
    )
    for k in range(50):
        policy.tell(policy.ask(), (k * 0.37) % 2)
    policy.save(tmp_path / "policy.pmb")
    content = (tmp_path / "policy.pmb").read_bytes()
    with serving(tmp_path / "store.db") as served:
        made = served.send("POST", "/v1/import?name=moved", content=content)
        assert made.status_code == 201, made.text
        assert made.json()["arms"] == ["x", "y"]
        same(policy_of(served, "moved", tmp_path), policy)
        for _ in range(20):
            asked = served.post("/moved/ask")
            assert asked["arm"] == policy.names[policy.ask()]
        broken = served.send("POST", "/v1/import?name=other", content=content[:-10])
        assert broken.status_code == 422
        assert "nothing was loaded" in broken.json()["error"]
    with serving(tmp_path / "store.db") as later:
        same(policy_of(later, "moved", tmp_path), policy)


def test_stored_arms_count_even_if_the_policy_would_ask_for_others(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with serving(store) as served:
        served.post("", SHOP)
        served.post("/shop/ask", {"n": 30})
    import sqlite3

    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE events SET arm = 2")
    with serving(store) as served:
        assert [arm["pulls"] for arm in served.get("/shop/state")["arms"]] == [0, 0, 30]
        assert "pmbandits_experiment_disagreements" in served.send("GET", "/metrics").text
        assert served.service.experiment_cache.live_experiments["shop"].disagreements == 1
        assert served.post("/shop/ask")["arm"] in "AB"


def test_a_gap_in_the_log_stops_its_experiment_and_no_other(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with serving(store) as served:
        for name in ("broken", "whole"):
            served.post("", {**SHOP, "name": name})
            served.post(f"/{name}/ask", {"n": 5})
    import sqlite3

    with sqlite3.connect(store) as connection:
        connection.execute("DELETE FROM events WHERE exp = 1 AND seq = 3")
    with serving(store) as served:
        assert served.refused("/broken/ask", {})[0] == 500
        assert served.post("/whole/ask")["ticket"] == 6


def test_a_long_log_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(reading, "PIECE", 7)
    monkeypatch.setattr(reading, "GROUP", 3)
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        asked = served.post("/shop/ask", {"n": 50})
        served.post("/shop/tell", {"tickets": asked["tickets"], "rewards": [1] * 50})

        def log(form: str, after: int, limit: int) -> bytes:
            found = served.send("GET", f"/v1/experiments/shop/log?format={form}&after={after}&limit={limit}")
            assert found.status_code == 200
            return found.content

        for after, limit in ((0, 1000), (0, 14), (3, 15), (90, 8), (99, 1), (100, 5)):
            wanted = list(range(after + 1, min(after + limit, 100) + 1))
            assert [event["seq"] for event in json.loads(log("json", after, limit))["events"]] == wanted
            lines = log("csv", after, limit).decode().splitlines()
            assert lines[0] == ",".join(reading.COLUMNS)
            assert [int(line.split(",")[0]) for line in lines[1:]] == wanted
            (tmp_path / "log.parquet").write_bytes(log("parquet", after, limit))
            table = pq.read_table(tmp_path / "log.parquet")
            assert table.column("seq").to_pylist() == wanted
            assert table.column("ticket").to_pylist() == [(k - 1) % 50 + 1 for k in wanted]


def test_the_log_has_everything(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        asked = served.post("/shop/ask", {"n": 3})
        served.post("/shop/tell", {"tickets": asked["tickets"], "rewards": [1, 0, 1]})
        served.post("/shop/status", {"status": "paused"})
        events = served.get("/shop/log")["events"]
        assert [event["kind"] for event in events] == ["ask"] * 3 + ["tell"] * 3 + ["status"]
        assert [event["ticket"] for event in events[:6]] == [1, 2, 3, 1, 2, 3]
        assert [event["arm"] for event in events[3:6]] == asked["arms"]
        assert json.loads(events[6]["data"]) == "paused"
        (tmp_path / "log.parquet").write_bytes(served.send("GET", "/v1/experiments/shop/log?format=parquet").content)
        table = pq.read_table(tmp_path / "log.parquet")
        assert table.column("reward").to_pylist() == [None] * 3 + [1.0, 0.0, 1.0, None]
        assert table.column("share").to_pylist() == [*asked["shares"], None, None, None, None]
        times = [f"{at:%Y-%m-%dT%H:%M:%S}" for at in table.column("time").to_pylist()]
        assert times == [e["time"][:19] for e in events]
        lines = served.send("GET", "/v1/experiments/shop/log?format=csv&after=2&limit=2").text.splitlines()
        assert [line.split(",")[0] for line in lines] == ["seq", "3", "4"]
        for event in events:  # a moment that programs read, near now
            at = datetime.fromisoformat(event["time"])
            assert abs((datetime.now(UTC) - at).total_seconds()) < 3600 and event["time"].endswith("Z")


def test_the_whole_log_comes_unless_it_is_cut_and_then_it_says_where_it_goes_on(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    def log(query: str) -> httpx.Response:
        return served.send("GET", f"/v1/experiments/shop/log?{query}")

    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        for _ in range(3):
            served.post("/shop/tell", {"arms": ["A"] * 4_000, "rewards": [1, 0] * 2_000})
        assert len(log("").json()["events"]) == 12_000 and "link" not in log("").headers
        (tmp_path / "log.parquet").write_bytes(log("format=parquet").content)
        assert pq.read_table(tmp_path / "log.parquet").column("seq").to_pylist() == list(range(1, 12_001))
        rows, query = [], "format=csv&limit=5000"
        for _ in range(3):
            found = log(query)
            rows += [int(line.split(",")[0]) for line in found.text.splitlines()[1:]]
            if "link" not in found.headers:
                break
            assert found.links["next"]["url"].startswith("log?")
            query = found.links["next"]["url"].partition("?")[2]
        assert rows == list(range(1, 12_001)) and query.endswith("after=10000&limit=5000")
        assert len(log("after=11000&limit=1000").json()["events"]) == 1000
        assert "link" not in log("after=11000&limit=1000").headers


# ---- real processes: how they end ----------------------------------------------------------------------------
def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def real_service(
    store: str, folder: Path, processes: int = 1, env: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """``pmbandits serve`` as users start it: the process, its port and its log."""
    port, log = _free_port(), folder / "log.txt"
    words = [sys.executable, "-m", "pmbandits", "serve", "--open", "--store", store, "--port", str(port)]
    with log.open("w") as file:
        process = subprocess.Popen(
            [*words, "--processes", str(processes)],
            stdout=file,
            stderr=file,
            text=True,
            start_new_session=True,
            env=env,
        )
        try:
            yield process, port, log
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def _until(done: Callable[[], Any], seconds: float = 120.0) -> Any:
    until = time.monotonic() + seconds
    while True:
        with suppress(OSError, httpx.HTTPError):
            if found := done():
                return found
        assert time.monotonic() < until
        time.sleep(0.1)


def _ready(port: int) -> bool:
    return httpx.get(f"http://127.0.0.1:{port}/ready", timeout=5).status_code == 200


@pytest.mark.slow
def test_a_process_that_waits_for_a_database_at_its_start_ends_when_told(tmp_path: Path) -> None:
    with socket.socket() as silent:  # it takes connections, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(120)
        settings = f"Settings(store='postgresql://me@127.0.0.1:{silent.getsockname()[1]}/x', port={_free_port()})"
        code = "from pmbandits.service.run import serve; from pmbandits.service.settings import Settings"
        process = subprocess.Popen([sys.executable, "-c", f"{code}; serve({settings})"], stderr=subprocess.DEVNULL)
        connection, _ = silent.accept()
        with connection:
            process.send_signal(signal.SIGTERM)
            assert process.wait(5) == -signal.SIGTERM


@pytest.mark.slow
def test_a_process_that_waits_for_the_lock_ends_when_told(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with real_service(f"sqlite:///{store}", tmp_path) as (process, port, log):
        _until(lambda: _ready(port))
        address = f"http://127.0.0.1:{port}/v1/experiments"
        httpx.post(address, json={**SHOP, "policy": "uniform"}, timeout=120).raise_for_status()
        held = sqlite.WriteLock(store)
        held.acquire_in_turn()
        answers: list[int] = []
        thread = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{address}/shop/ask", json={}, timeout=60).status_code)
        )
        thread.start()
        time.sleep(1.0)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(40)
        assert time.monotonic() - began < 30.0
        thread.join(30)
        assert answers == [503] and "stopping without it" in log.read_text()
        held.__exit__()
        held.close()


@pytest.mark.slow
def test_processes_that_die_are_replaced_and_none_outlives_its_parent(tmp_path: Path) -> None:
    def children() -> set[int]:
        found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return {int(pid) for pid in found if b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()}

    def runs(pid: int) -> bool:
        state = Path(f"/proc/{pid}/stat")
        return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"

    with real_service(f"sqlite:///{tmp_path / 'store.db'}", tmp_path, 2) as (process, port, log):
        _until(lambda: _ready(port) and len(children()) == 2)
        first = min(children())
        os.kill(first, signal.SIGKILL)
        _until(lambda: len(children() - {first}) == 2)
        _until(lambda: "SIGKILL" in log.read_text())
        assert str(first) in log.read_text()
        _until(lambda: f'process="{first}"' not in httpx.get(f"http://127.0.0.1:{port}/metrics").text)
        pids = children()
        os.kill(process.pid, signal.SIGKILL)
        _until(lambda: not any(map(runs, pids)), 40)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))  # the port is free


def test_a_child_looks_after_its_parent_before_it_imports_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(processes, "stop_when_parent_is_gone", lambda: done.append("looks"))
    monkeypatch.setattr(uvicorn.Config, "load", lambda _: done.append("imports"))
    processes.Config("pmbandits.service.run:app").load()
    assert done == ["looks", "imports"]


@pytest.mark.slow
def test_a_backup_that_is_copied_into_a_running_store_stays(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with real_service(f"sqlite:///{store}", tmp_path, 1) as (process, port, log):
        _until(lambda: _ready(port))
        address = f"http://127.0.0.1:{port}/v1/experiments"
        httpx.post(address, json={**SHOP, "policy": "uniform"}, timeout=600).raise_for_status()
        httpx.post(f"{address}/shop/ask", json={"n": 30}).raise_for_status()
        with closing(sqlite3.connect(store)) as running, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
            running.backup(copy)
        httpx.post(f"{address}/shop/ask", json={"n": 40}).raise_for_status()
        for end in ("-wal", "-shm"):
            store.with_name(store.name + end).unlink()
        subprocess.run(["cp", tmp_path / "copy.db", store], check=True)
        with suppress(httpx.TransportError):
            assert httpx.post(f"{address}/shop/ask", json={}).status_code == 503
        assert process.wait(30) == 1 and "another store" in log.read_text()
    with closing(sqlite3.connect(store)) as found:
        assert found.execute("SELECT count(*) FROM events").fetchone() == (31,)
        assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _other_version(folder: Path, tables: int) -> dict[str, str]:
    """The environment of a second version of the library, with tables of this version."""
    package = Path(pmb.__file__).parent
    shutil.copytree(package, folder / "pmbandits", ignore=shutil.ignore_patterns("__pycache__"))
    for name, before, after in (
        ("service/schema.py", f"VERSION = {schema.VERSION} ", f"VERSION = {tables} "),
        ("__init__.py", f'__version__ = "{pmb.__version__}"', '__version__ = "99.0.0"'),
    ):
        file = folder / "pmbandits" / name
        text = file.read_text(encoding="utf-8")
        assert before in text
        file.write_text(text.replace(before, after), encoding="utf-8")
    return {**os.environ, "PYTHONPATH": str(folder)}


@pytest.mark.slow
def test_two_versions_of_the_library_on_one_store(tmp_path: Path) -> None:
    """With the same tables they serve side by side; with others, only the one whose tables these are writes."""
    store = f"sqlite:///{tmp_path / 'store.db'}"
    (tmp_path / "two").mkdir()
    same_tables, newer = _other_version(tmp_path / "same", schema.VERSION), _other_version(tmp_path / "newer", 99)
    with real_service(store, tmp_path) as (_, first, _log):
        _until(lambda: _ready(first))
        addresses = [f"http://127.0.0.1:{first}/v1/experiments"]
        httpx.post(addresses[0], json={**SHOP, "policy": "uniform"}, timeout=120).raise_for_status()
        with real_service(store, tmp_path / "two", env=same_tables) as (_, second, _log):
            _until(lambda: _ready(second))
            addresses.append(f"http://127.0.0.1:{second}/v1/experiments")
            made = httpx.post(addresses[1], json={**SHOP, "name": "other", "policy": "uniform"}, timeout=120)
            assert made.json()["library"] == "99.0.0" != pmb.__version__
            for k in range(40):
                asked = httpx.post(f"{addresses[k % 2]}/shop/ask", json={}, timeout=60).json()
                assert asked["ticket"] == 2 * k + 1
                told = {"ticket": asked["ticket"], "reward": float(k % 3 == 0)}
                httpx.post(f"{addresses[1 - k % 2]}/shop/tell", json=told, timeout=60).raise_for_status()
        replayed(*rows_of(store, "shop"))
        words = [sys.executable, "-m", "pmbandits", "serve", "--open", "--store", store, "--port", str(_free_port())]
        refused = subprocess.run(words, env=newer, capture_output=True, text=True, timeout=120)
        assert refused.returncode != 0 and "older pmbandits" in refused.stderr + refused.stdout
        with sqlite3.connect(tmp_path / "store.db", timeout=60) as connection:  # as if the newer one had upgraded it
            connection.execute("UPDATE schema_version SET version = 99")
        for verb, body in (("ask", {}), ("tell", {"arm": "A", "reward": 1.0})):
            assert httpx.post(f"{addresses[0]}/shop/{verb}", json=body, timeout=60).status_code == 503
        with sqlite3.connect(tmp_path / "store.db") as connection:
            assert connection.execute("SELECT max(seq) FROM events WHERE exp = 1").fetchone() == (80,)


def test_a_process_that_was_told_to_stop_ends_at_the_last_moment() -> None:
    code = """if True:
        import os, signal, time
        from pmbandits.service import processes
        processes.LAST_MOMENT = 0.3
        signal.signal(signal.SIGTERM, lambda number, frame: None)  # it would never stop by itself
        with processes.with_default_signal_handlers():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    """
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "it ends now" in done.stderr and time.monotonic() - began < 50
    assert processes.LAST_MOMENT == 25.0


def test_a_process_ends_when_told_while_it_makes_its_application(tmp_path: Path) -> None:
    code = f"""if True:
        import time
        from pmbandits.service import run
        from pmbandits.service.settings import Settings

        def slowly(settings):
            print("begun", flush=True)
            until = time.monotonic() + 60
            while time.monotonic() < until:
                time.sleep(0.1)

        run.create_app = slowly
        run.serve(Settings(store="sqlite:///{tmp_path / "store.db"}", port={_free_port()}))
    """
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(10) == -signal.SIGTERM
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_processes_that_do_not_stop_are_killed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert processes.LAST_MOMENT_OF_WORKERS == 20.0
    monkeypatch.setattr(processes, "LAST_MOMENT_OF_WORKERS", 0.5)
    supervisor = processes.Supervisor.__new__(processes.Supervisor)  # it would take over the signals of this process
    children = [multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,)) for _ in range(2)]
    supervisor.processes = [SimpleNamespace(process=child, pid=k) for k, child in enumerate(children)]  # type: ignore[misc]
    for child in children:
        child.start()
        assert child.pid is not None
        os.kill(child.pid, signal.SIGSTOP)  # it does not notice anything
    began = time.monotonic()
    supervisor.join_all()
    assert time.monotonic() - began < 30
    assert [child.exitcode for child in children] == [-signal.SIGKILL] * 2
    assert caplog.text.count("it is killed now") == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_what_compiles_ends_with_the_process_that_started_it() -> None:
    child = "import sys, time; from pmbandits.service import warmup; warmup.end_with_parent(); print(1, flush=True); "
    parent = f"""if True:
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", {child + "time.sleep(100)"!r}], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE)
        child.stdout.readline()
        print(child.pid, flush=True)
        time.sleep(100)
    """
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        running.kill()
    until = time.monotonic() + 20
    with suppress(ProcessLookupError):
        while time.monotonic() < until:
            os.kill(pid, 0)
            if "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]:
                return  # it has ended, and nobody has looked yet
            time.sleep(0.05)
        raise AssertionError("it goes on without its parent")
