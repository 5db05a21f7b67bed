"""What holds for all tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

import pmbandits.policies  # noqa: F401  (all are registered before the first test looks)
from pmbandits.engine.registry import REGISTRY

# The same examples in every run: who changes nothing breaks nothing. `--hypothesis-profile explore` draws others.
settings.register_profile("fixed", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("fixed")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Thin products: of stacked ``parametrize`` marks `make test` takes enough cases for every value to occur.

    The other cases of the product are marked as slow, so `make test-all` runs all of them.
    """
    products: dict[tuple[str, str], list[tuple[pytest.Item, list[tuple[int, ...]]]]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            given = [mark.args[0] for mark in item.iter_markers("parametrize")]
            names = [one.replace(",", " ").split() if isinstance(one, str) else one for one in given]
            values = [tuple(id(item.callspec.params[name]) for name in group) for group in names]
            if len(values) > 1:
                products.setdefault((item.path.as_posix(), item.originalname), []).append((item, values))
    for cases in products.values():
        lists = [list(dict.fromkeys(column)) for column in zip(*(values for _, values in cases), strict=True)]
        kept = [[values[k % len(values)] for values in lists] for k in range(max(map(len, lists)))]
        for item, values in cases:
            if values not in kept:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Never look for garbage among modules and collected tests, which takes half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def forget_policies() -> Iterator[None]:
    """Policies that a test defines are not known afterwards: messages elsewhere list all that are known."""
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)
