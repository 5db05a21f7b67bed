"""What holds for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pmbandits.policies.policy import REGISTRY


@pytest.fixture(autouse=True)
def forget_policies() -> Iterator[None]:
    """Policies that a test defines are not known afterwards: messages elsewhere list all that are known."""
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)
