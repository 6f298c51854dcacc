"""Fixtures of the tests of several clients."""

from __future__ import annotations

from typing import Iterator

import pytest

from support import Broker, Origin


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for tests that do not end it."""
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="session")
def origin() -> Iterator[Origin]:
    """An HTTP server; tests use paths of their own."""
    origin = Origin()
    yield origin
    origin.close()
