"""A client of the live service: the verbs of a policy, over HTTP. It needs nothing but Python's own library.

Every ask and tell can be sent again without harm: an ask carries a key of its own, and a reward is told with its
ticket. So when an answer is lost, or the service restarts, the client tries again, and nothing is counted twice.

==========  ========================================================
``transport``       connections, and when to try again
``client``          a service and its experiments
``asyncio_client``  client and experiments for asynchronous code
==========  ========================================================
"""

from __future__ import annotations

from pmbandits.client.asyncio_client import AsyncClient, AsyncExperiment
from pmbandits.client.client import Client, Experiment, Given, Told
from pmbandits.client.transport import ServiceError

__all__ = [
    "AsyncClient",
    "AsyncExperiment",
    "Client",
    "Experiment",
    "Given",
    "ServiceError",
    "Told",
    "connect",
    "connect_async",
]


def connect(url: str, *, key: str | None = None, timeout: float = 10.0, patience: float = 30.0) -> Client:
    """Connect to a service that ``pmbandits serve`` runs.

    Nothing is sent before the first request. One client can be shared between threads; each thread has its own
    connection. In asynchronous code take :func:`connect_async`.

    Parameters
    ----------
    url : the address of the service, such as ``"http://127.0.0.1:8000"``.
    key : the key that ``pmbandits key create`` printed. Leave it out for a service that was started with ``--open``.
    timeout : how many seconds to wait for one answer.
    patience : for how many seconds to try again if the service cannot be reached or is busy. With 0 it does not try
        again.

    Examples
    --------
    >>> connect("http://127.0.0.1:8000", key="pmb_...")
    Client('http://127.0.0.1:8000')
    """
    return Client(url, key=key, timeout=timeout, patience=patience)


def connect_async(
    url: str, *, key: str | None = None, timeout: float = 10.0, patience: float = 30.0, connections: int = 16
) -> AsyncClient:
    """Connect to a service from asynchronous code: every verb is awaited.

    Parameters
    ----------
    url, key, timeout, patience : as for :func:`connect`.
    connections : how many requests can be on their way at once.

    Examples
    --------
    >>> connect_async("http://127.0.0.1:8000", key="pmb_...")
    AsyncClient('http://127.0.0.1:8000')
    """
    return AsyncClient(connect(url, key=key, timeout=timeout, patience=patience), connections)
