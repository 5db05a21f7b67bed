"""The settings of a service."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from pmbandits.service.store import DEFAULT_URL


@dataclass(frozen=True)
class Settings:
    """How a service runs.

    Parameters
    ----------
    store : where experiments are kept, ``sqlite:///experiments.db`` or ``postgresql://…``.
    host, port : where it listens.
    open : no keys are asked for; only on this machine (a loopback address).
    processes : how many processes serve.
    rate : requests a second of one key, in each process; beyond, they are sent away with status 429.
    body : bytes of a request, at most.
    batch : arms or rewards in one request, at most.
    file : bytes of a policy that is imported, at most.
    warm : whether kernels are compiled before they are needed.
    log_format : ``text``, or ``json`` for one object a line.
    log_level : ``debug`` (every request), ``info``, ``warning`` or ``error``.
    """

    store: str = DEFAULT_URL
    host: str = "127.0.0.1"
    port: int = 8000
    open: bool = False
    processes: int = 1
    rate: float = 20_000.0
    body: int = 1 << 20
    batch: int = 10_000
    file: int = 64 << 20
    warm: bool = True
    log_format: str = "text"
    log_level: str = "info"

    def __post_init__(self) -> None:
        if self.open and not is_loopback(self.host):
            raise ValueError(
                f"--open asks for no keys, so it is only for a loopback address such as 127.0.0.1, not {self.host!r}; "
                "leave --open out, and make a key with pmbandits key create."
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
