from __future__ import annotations

import os
import pathlib
import sys
from typing import Iterator

import pytest

# The broker, the origin and the scripted broker are those of the Python client's tests.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "tests"))

from support import Broker, Origin  # noqa: E402

#: The folder with the programs, built by scripts/test-c.sh with the address and undefined behaviour sanitizers.
PROGRAMS = pathlib.Path(os.environ["IMGBROKER_C_PROGRAMS"])


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for tests that do not end it."""
    broker = Broker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def origin() -> Iterator[Origin]:
    """An HTTP server; tests use paths of their own."""
    origin = Origin()
    yield origin
    origin.close()
