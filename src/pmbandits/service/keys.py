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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import insert, select, update

from pmbandits import _validation
from pmbandits.service import schema
from pmbandits.service.experiment import Refused
from pmbandits.service.schema import keys
from pmbandits.service.store import Store, iso_utc

log = logging.getLogger("pmbandits.service")
SCOPES = ("read", "ask", "tell", "admin")
REFRESH_SECONDS = 1.0  # seconds after which a revoked key is known to be so in every process
MAX_OPEN = {"read": 16, "download": 8, "stream": 200}  # responses of one key at the same time, in each process
MAX_TIME = 253_402_300_799_000  # milliseconds since 1970: the end of the year 9999
MIN_RELOAD_INTERVAL = 0.05  # seconds between two looks for keys that are not known
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
    expires: int | None
    revoked: int | None
    used: int | None

    def is_valid(self, now: int) -> bool:
        """Whether the key is neither revoked nor expired; ``now`` is the time of the store (Store.now_ms)."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    def allows(self, scope: str, experiment: str | None) -> bool:
        """Whether the key is for this; ``admin`` includes all other scopes. None asks for all experiments at once."""
        named = self.experiments is None or (experiment is not None and experiment in self.experiments)
        return named and (scope in self.scopes or "admin" in self.scopes)


OPEN_KEY = Key("open", "no key asked for", "", frozenset({"admin"}), None, 0, None, None, None)


def create_key_in_store(
    store: Store,
    scopes: Iterable[str],
    experiments: Iterable[str] | None,
    label: str,
    who: str,
    *,
    expires: int | None = None,
) -> str:
    """Create a key and return it; only its hash is stored. ``expires``: in milliseconds since 1970."""
    wanted = list(dict.fromkeys(scopes))
    for scope in wanted:
        _validation.check_choice("scope", scope, SCOPES)
    if not wanted:
        raise ValueError(f"a key needs a scope, one or more of {', '.join(SCOPES)}.")
    names = None if experiments is None else sorted(set(experiments))
    number, secret = secrets.token_hex(6), secrets.token_hex(24)
    at, until = store.now_ms(), None if expires is None else iso_utc(expires)
    shown = json.dumps({"key": number, "scopes": wanted, "experiments": names or "*", "label": label, "expires": until})
    with store.write_transaction() as connection:
        connection.execute(
            insert(keys).values(
                id=number, label=label, hash=_hash_secret(secret), scopes=json.dumps(wanted),
                experiments="*" if names is None else json.dumps(names), created=at, expires=expires,
            )
        )  # fmt: skip
        store.write_audit(connection, who, "create key", None, shown)
    return f"pmb_{number}_{secret}"


def revoke_key_in_store(store: Store, number: str, who: str) -> None:
    """Revoke a key; after at most a second every process refuses it."""
    at = store.now_ms()
    with store.write_transaction() as connection:
        done = connection.execute(update(keys).where(keys.c.id == number, keys.c.revoked.is_(None)).values(revoked=at))
        if done.rowcount == 0:
            known = connection.execute(select(keys.c.id).where(keys.c.id == number)).first() is not None
            why = "is revoked already" if known else "is not known; pmbandits key list shows all keys"
            raise ValueError(f"the key {_validation.short_repr(number)} {why}.")
        store.write_audit(connection, who, "revoke key", None, json.dumps({"key": number}))


def rotate_key_in_store(store: Store, number: str, who: str, *, grace: float) -> str:
    """Create a key for the same as another one, which stays good for ``grace`` seconds; return the new key."""
    at = store.now_ms()
    old = next((key for key in list_keys(store) if key.id == number and key.is_valid(at)), None)
    if old is None:
        raise ValueError(f"there is no good key {_validation.short_repr(number)}; pmbandits key list shows all keys.")
    if _was_rotated(store, number):
        raise ValueError(
            f"the key {_validation.short_repr(number)} was rotated before, and has a successor; revoke that one if "
            "nobody has it (pmbandits key list shows it), and make another with pmbandits key create."
        )
    lifetime = None if old.expires is None else at + old.expires - old.created
    new = create_key_in_store(store, sorted(old.scopes), old.experiments, old.label, who, expires=lifetime)
    if grace <= 0.0:
        revoke_key_in_store(store, number, who)
        return new
    end = min(at + int(1000 * grace), old.expires or MAX_TIME)
    with store.write_transaction() as connection:
        connection.execute(update(keys).where(keys.c.id == number).values(expires=end))
        store.write_audit(connection, who, "rotate key", None, json.dumps({"key": number, "expires": iso_utc(end)}))
    return new


def _was_rotated(store: Store, number: str) -> bool:
    table = schema.audit
    acts = select(table.c.detail).where(table.c.act == "rotate key")
    with store.engine.connect() as connection:
        return any(json.loads(detail)["key"] == number for detail in connection.execute(acts).scalars())


def list_keys(store: Store) -> list[Key]:
    """All keys, oldest first."""
    with store.engine.connect() as connection:
        rows = connection.execute(select(keys).order_by(keys.c.created)).all()
    return [
        Key(
            row.id, row.label, row.hash, frozenset(json.loads(row.scopes)),
            None if row.experiments == "*" else frozenset(json.loads(row.experiments)),
            row.created, row.expires, row.revoked, row.used,
        )
        for row in rows
    ]  # fmt: skip


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class KeyCache:
    """The keys in the memory of one process, a second old at most, and when each was used."""

    def __init__(self, store: Store, rate: float) -> None:
        self._store, self._rate = store, rate
        self._keys: dict[str, Key] = {}
        self._checked: dict[bytes, Key] = {}  # headers that were found good since keys were read, by their SHA-256
        self._used: dict[str, int] = {}
        self._open: Counter[tuple[str, str]] = Counter()
        self._buckets: dict[str, tuple[float, float]] = {}  # of each key: what is left, and when that was
        self._last_read, self._reload_lock = 0.0, asyncio.Lock()
        self._clock_ahead = (
            0.0  # milliseconds by which the clock of the store is ahead of the steady one of this process
        )
        self._task: asyncio.Task[None] | None = None
        # Of its own, so that whatever else the process is busy with, a revoked key is known to be so.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keys")

    async def start(self) -> None:
        """Read all keys, and again and again."""
        await self._run_in_thread(self._load_keys)
        self._task = asyncio.get_running_loop().create_task(self._refresh_loop())

    async def stop(self) -> None:
        """Write down when keys were used last."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await asyncio.to_thread(self._write_last_use_of_keys)
        self._thread.shutdown()

    async def _run_in_thread(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    @property
    def seconds_since_keys_were_read(self) -> float:
        """For how many seconds the store has not been heard of."""
        return time.monotonic() - self._last_read

    async def _refresh_loop(self) -> None:
        turns, writing = 0, None
        while True:
            await asyncio.sleep(REFRESH_SECONDS / 2)
            turns += 1
            if turns % 20 == 0 and (writing is None or writing.done()):  # it may have to wait, and is in no hurry
                writing = asyncio.create_task(asyncio.to_thread(self._write_last_use_of_keys))
            try:
                await self._run_in_thread(self._load_keys)
            except Exception as error:  # the store is away: the keys of a moment ago must do
                log.warning("keys could not be read: %s", type(error).__name__)

    async def _reload_keys(self) -> None:
        """Read the keys, if nobody began to do so after this call; twenty times a second at most."""
        called = time.monotonic()
        async with self._reload_lock:
            if self._last_read >= called:
                return
            await asyncio.sleep(max(0.0, self._last_read + MIN_RELOAD_INTERVAL - time.monotonic()))
            try:
                await self._run_in_thread(self._load_keys)
            except Exception as error:
                log.warning("keys could not be read: %s", type(error).__name__)

    def _load_keys(self) -> None:
        began = time.monotonic()
        self._clock_ahead = self._store.now_ms() - 1000.0 * time.monotonic()
        self._keys = {key.id: key for key in list_keys(self._store)}
        self._checked = {}
        self._last_read = began

    def _now_ms(self) -> int:
        """The time of the store now, as far as it is known here."""
        return int(self._clock_ahead + 1000.0 * time.monotonic())

    def _write_last_use_of_keys(self) -> None:
        used, self._used = self._used, {}
        if not used:
            return
        try:
            with self._store.write_transaction() as connection:
                for number, at in used.items():
                    connection.execute(update(keys).where(keys.c.id == number).values(used=at))
        except Exception as error:
            log.warning("the last use of keys could not be written: %s", type(error).__name__)

    async def find_key(self, authorization: bytes | None, *, browser: bool = False) -> Key | None:
        """The key in a header, or None. ``browser``: also as the password that a browser asks its user for."""
        if authorization is None:
            return None
        key = self.key_if_checked_before(authorization, browser=browser)
        if key is None:
            key = await self._look_up(authorization, browser)
            if key is not None:
                self._checked[hashlib.sha256(authorization).digest()] = key
        return key

    def key_if_checked_before(self, authorization: bytes, *, browser: bool) -> Key | None:
        """The key in a header if it was checked before."""
        digest = hashlib.sha256(authorization).digest()  # nobody can choose it, so looking it up tells nothing
        known, now = self._checked.get(digest), self._now_ms()
        if known is not None and known.is_valid(now) and (browser or authorization[:6].lower() == b"bearer"):
            self._used[known.id] = now
            return known
        return None

    async def _look_up(self, authorization: bytes, browser: bool) -> Key | None:
        token = _parse_key_and_secret(authorization, browser)
        if token is None:
            return None
        number, secret = token
        key = self._keys.get(number)
        if key is None:  # it may be new
            await self._reload_keys()
            key = self._keys.get(number)
        known = key.hash if key is not None else "0" * 64
        if not hmac.compare_digest(_hash_secret(secret), known) or key is None or not key.is_valid(self._now_ms()):
            return None
        self._used[number] = self._now_ms()
        return key

    def is_still_valid(self, key: Key) -> bool:
        """Whether a key that was good is so still: what is streamed for a long time asks again."""
        known = self._keys.get(key.id)
        return known is not None and known.is_valid(self._now_ms())

    @contextmanager
    def count_open_response(self, key: Key, kind: str) -> Iterator[None]:
        """Count a long response of a key while it is open; a refusal if there are too many of its kind."""
        most = MAX_OPEN[kind]
        if self._open[key.id, kind] >= most:
            raise Refused(429, f"this key has {most} {kind}s open already; end one of them first.")
        self._open[key.id, kind] += 1
        try:
            yield
        finally:
            self._open[key.id, kind] -= 1

    def count_request_within_rate(self, key: Key) -> bool:
        """Whether a key has not sent too many requests; counts this one."""
        at = time.monotonic()
        left, since = self._buckets.get(key.id, (self._rate, at))
        left = min(self._rate, left + (at - since) * self._rate)
        if left < 1.0:
            self._buckets[key.id] = (left, at)
            return False
        self._buckets[key.id] = (left - 1.0, at)
        return True


def _parse_key_and_secret(authorization: bytes, browser: bool) -> tuple[str, str] | None:
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
