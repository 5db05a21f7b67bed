"""A client of the live service: the verbs of a policy, over HTTP. It needs nothing beyond Python's own library.

Every ask and tell can be sent again without harm: an ask carries a key of its own, a reward is told with its ticket.
So when an answer is lost, or the service restarts, the client tries again, and nothing is counted twice.

==========  ========================================================
``line``    connections, and when to try again
``verbs``   a service and its experiments
``later``   the same for asynchronous code
==========  ========================================================
"""

from __future__ import annotations

from pmbandits.client.later import AsyncClient, AsyncExperiment
from pmbandits.client.line import ServiceError
from pmbandits.client.verbs import Client, Experiment, Given, Told

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
    """Connect with a service that ``pmbandits serve`` runs.

    Parameters
    ----------
    url : its address, such as ``"http://127.0.0.1:8000"``.
    key : made with ``pmbandits key create``. Without one, a service that was started with ``--open`` answers.
    timeout : for how many seconds to wait for one answer.
    patience : for how many seconds to try again, when the service cannot be reached or is busy. 0: do not.

    Nothing is sent before the first request. One client can be shared between threads; each has its own connection.
    In asynchronous code take :func:`connect_async`.

    >>> connect("http://127.0.0.1:8000", key="pmb_...")
    Client('http://127.0.0.1:8000')
    """
    return Client(url, key=key, timeout=timeout, patience=patience)


def connect_async(
    url: str, *, key: str | None = None, timeout: float = 10.0, patience: float = 30.0, connections: int = 16
) -> AsyncClient:
    """The same for asynchronous code: every verb is awaited. Up to ``connections`` requests are on their way at once.

    >>> connect_async("http://127.0.0.1:8000", key="pmb_...")
    AsyncClient('http://127.0.0.1:8000')
    """
    return AsyncClient(connect(url, key=key, timeout=timeout, patience=patience), connections)
