"""Keys: who may do what. The store has only the SHA-256 of a secret; the secret itself is shown once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sqlalchemy import insert, select, update

from pmbandits import _check
from pmbandits.service.schema import keys
from pmbandits.service.store import Store, now

log = logging.getLogger("pmbandits.service")
SCOPES = ("read", "ask", "tell", "admin")
FRESH = 1.0  # seconds after which a revoked key is known to be so in every process
RARELY = 0.05  # seconds between two looks for keys that are not known
_TOKEN = re.compile(r"pmb_([0-9a-f]{12})_([0-9a-f]{48})")


@dataclass(frozen=True, slots=True)
class Key:
    """A key as the store has it. ``experiments`` is None for all of them."""

    id: str
    label: str
    hash: str
    scopes: frozenset[str]
    experiments: frozenset[str] | None
    created: int
    revoked: int | None
    used: int | None

    def may(self, scope: str, experiment: str | None) -> bool:
        """Whether the key is for this; ``admin`` includes all other scopes. None asks for all experiments at once."""
        named = self.experiments is None or (experiment is not None and experiment in self.experiments)
        return named and (scope in self.scopes or "admin" in self.scopes)


ANYBODY = Key("open", "no key asked for", "", frozenset({"admin"}), None, 0, None, None)


def create(store: Store, scopes: Iterable[str], experiments: Iterable[str] | None, label: str, who: str) -> str:
    """A new key; what is returned is nowhere kept."""
    wanted = list(dict.fromkeys(scopes))
    for scope in wanted:
        _check.choice("scope", scope, SCOPES)
    if not wanted:
        raise ValueError(f"a key needs a scope, one or more of {', '.join(SCOPES)}.")
    names = None if experiments is None else sorted(set(experiments))
    number, secret = secrets.token_hex(6), secrets.token_hex(24)
    shown = json.dumps({"key": number, "scopes": wanted, "experiments": names or "*", "label": label})
    with store.writing() as connection:
        connection.execute(
            insert(keys).values(
                id=number, label=label, hash=_hash(secret), scopes=json.dumps(wanted),
                experiments="*" if names is None else json.dumps(names), created=now(),
            )
        )  # fmt: skip
        store.write_down(connection, who, "create key", None, shown)
    return f"pmb_{number}_{secret}"


def revoke(store: Store, number: str, who: str) -> None:
    """From now on (at the latest after a second) a key opens nothing."""
    with store.writing() as connection:
        done = connection.execute(
            update(keys).where(keys.c.id == number, keys.c.revoked.is_(None)).values(revoked=now())
        )
        if done.rowcount == 0:
            known = connection.execute(select(keys.c.id).where(keys.c.id == number)).first() is not None
            why = "is revoked already" if known else "is not known; pmbandits key list shows all keys"
            raise ValueError(f"the key {_check.short(number)} {why}.")
        store.write_down(connection, who, "revoke key", None, json.dumps({"key": number}))


def listed(store: Store) -> list[Key]:
    """All keys, oldest first."""
    with store.engine.connect() as connection:
        rows = connection.execute(select(keys).order_by(keys.c.created)).all()
    return [
        Key(
            row.id, row.label, row.hash, frozenset(json.loads(row.scopes)),
            None if row.experiments == "*" else frozenset(json.loads(row.experiments)),
            row.created, row.revoked, row.used,
        )
        for row in rows
    ]  # fmt: skip


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class Keyring:
    """The keys in the memory of one process, a second old at most, and when each was used."""

    def __init__(self, store: Store, rate: float) -> None:
        self._store, self._rate = store, rate
        self._keys: dict[str, Key] = {}
        self._checked: dict[bytes, Key] = {}  # headers that were found good since keys were read, by their SHA-256
        self._used: dict[str, int] = {}
        self._buckets: dict[str, tuple[float, float]] = {}  # of each key: what is left, and when that was
        self._looked, self._one = 0.0, asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        # Of its own, so that whatever else the process is busy with, a revoked key is known to be so.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keys")

    async def start(self) -> None:
        """Read all keys, and again and again."""
        await self._beside(self._read)
        self._task = asyncio.get_running_loop().create_task(self._keep_fresh())

    async def stop(self) -> None:
        """Write down when keys were used last."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await asyncio.to_thread(self._write_uses)
        self._thread.shutdown()

    async def _beside(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    @property
    def age(self) -> float:
        """For how many seconds the store has not been heard of."""
        return time.monotonic() - self._looked

    async def _keep_fresh(self) -> None:
        turns, writing = 0, None
        while True:
            await asyncio.sleep(FRESH / 2)
            turns += 1
            if turns % 20 == 0 and (writing is None or writing.done()):  # it may have to wait, and is in no hurry
                writing = asyncio.create_task(asyncio.to_thread(self._write_uses))
            try:
                await self._beside(self._read)
            except Exception as error:  # the store is away: the keys of a moment ago must do
                log.warning("keys could not be read: %s", type(error).__name__)

    async def _read_again(self) -> None:
        """Read the keys, if nobody began to do so after this call; twenty times a second at most."""
        called = time.monotonic()
        async with self._one:
            if self._looked >= called:
                return
            await asyncio.sleep(max(0.0, self._looked + RARELY - time.monotonic()))
            try:
                await self._beside(self._read)
            except Exception as error:
                log.warning("keys could not be read: %s", type(error).__name__)

    def _read(self) -> None:
        began = time.monotonic()
        self._keys = {key.id: key for key in listed(self._store)}
        self._checked = {}
        self._looked = began

    def _write_uses(self) -> None:
        used, self._used = self._used, {}
        if not used:
            return
        try:
            with self._store.writing() as connection:
                for number, at in used.items():
                    connection.execute(update(keys).where(keys.c.id == number).values(used=at))
        except Exception as error:
            log.warning("the last use of keys could not be written: %s", type(error).__name__)

    async def find(self, authorization: bytes | None, *, browser: bool = False) -> Key | None:
        """The key in a header, or None. ``browser``: also as the password that a browser asks its user for."""
        if authorization is None:
            return None
        digest = hashlib.sha256(authorization).digest()  # nobody can choose it, so looking it up tells nothing
        known = self._checked.get(digest)
        if known is not None and (browser or authorization[:6].lower() == b"bearer"):
            self._used[known.id] = now()
            return known
        key = await self._find(authorization, browser)
        if key is not None:
            self._checked[digest] = key
        return key

    async def _find(self, authorization: bytes, browser: bool) -> Key | None:
        token = _token(authorization, browser)
        if token is None:
            return None
        number, secret = token
        key = self._keys.get(number)
        if key is None:  # it may be new
            await self._read_again()
            key = self._keys.get(number)
        known = key.hash if key is not None else "0" * 64
        if not hmac.compare_digest(_hash(secret), known) or key is None or key.revoked is not None:
            return None
        self._used[number] = now()
        return key

    def good(self, key: Key) -> bool:
        """Whether a key that was good is so still: what is streamed for a long time asks again."""
        known = self._keys.get(key.id)
        return known is not None and known.revoked is None

    def within_rate(self, key: Key) -> bool:
        """Whether a key has not sent too many requests; counts this one."""
        at = time.monotonic()
        left, since = self._buckets.get(key.id, (self._rate, at))
        left = min(self._rate, left + (at - since) * self._rate)
        if left < 1.0:
            self._buckets[key.id] = (left, at)
            return False
        self._buckets[key.id] = (left - 1.0, at)
        return True


def _token(authorization: bytes, browser: bool) -> tuple[str, str] | None:
    text = authorization.decode("latin-1")
    kind, _, rest = text.partition(" ")
    if kind.lower() == "bearer":
        token = rest.strip()
    elif browser and kind.lower() == "basic":
        try:
            token = base64.b64decode(rest, validate=True).decode().partition(":")[2]
        except (ValueError, UnicodeDecodeError):
            return None
    else:
        return None
    found = _TOKEN.fullmatch(token)
    return None if found is None else (found[1], found[2])
