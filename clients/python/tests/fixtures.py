"""Fixtures of the tests of several clients."""

from __future__ import annotations

import pathlib
import threading
from typing import Any, Callable, Dict, Iterator, List

import pytest

from scripted import ScriptedBroker
from support import Broker, Origin

Scripted = Callable[..., ScriptedBroker]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for tests that do not end it."""
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def own_broker(tmp_path: pathlib.Path) -> Iterator[Broker]:
    """A broker for tests that end it or that need its figures for themselves."""
    with Broker(tmp_path) as broker:
        yield broker


@pytest.fixture(scope="session")
def memfd_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker without segments, of which small images are mapped like large ones, for tests that do not end it."""
    with Broker(tmp_path_factory.mktemp("broker"), "--segments", "off") as broker:
        yield broker


@pytest.fixture(scope="session")
def origin() -> Iterator[Origin]:
    """An HTTP server; tests use paths of their own."""
    origin = Origin()
    yield origin
    origin.close()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What pages of an origin wait for, at the latest until the end of the test."""
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.fixture
def scripted(tmp_path: pathlib.Path) -> Iterator[Scripted]:
    """Starts a broker with a script for each connection. At the end, the client must have done what they expect."""
    brokers: List[ScriptedBroker] = []

    def start(*connections: List[Dict[str, Any]]) -> ScriptedBroker:
        brokers.append(ScriptedBroker(str(tmp_path / "socket"), list(connections)))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()
