from __future__ import annotations

import os
import pathlib
import sys

# The broker, the origin and the scripted broker are those of the Python client's tests.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "tests"))

from fixtures import broker, gate, origin, own_broker, scripted  # noqa: E402, F401

#: The folder with the programs, built by scripts/test-client.sh with the address and undefined behaviour sanitizers.
PROGRAMS = pathlib.Path(os.environ["IMGBROKER_C_PROGRAMS"])
