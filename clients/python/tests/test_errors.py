"""The error codes are those of docs/protocol.md."""

from __future__ import annotations

import pickle
import re
from typing import Dict, Iterator, Tuple

import pytest

import imgbroker
from imgbroker import ErrorCode, RefusedError
from support import ROOT

_KINDS = {
    "the message": imgbroker.MessageError, "policy": imgbroker.PolicyError, "the request": imgbroker.OutcomeError,
    "the host": imgbroker.HostError, "the download": imgbroker.DownloadError, "the image": imgbroker.ImageError,
    "the broker": imgbroker.BrokerFailure,
}


def _documented() -> Iterator[Tuple[str, str, str]]:
    """Returns the kind, the code and the second column of each code in the page."""
    page = (ROOT / "docs" / "protocol.md").read_text()
    section = page[page.index("\n## Error codes"):page.index("\n## The command line")]
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]*?) \| .* \| ([a-z ]+) \|$", section, re.M)
    return ((kind, code, retryable) for code, retryable, kind in rows)


def test_codes_are_those_of_the_page() -> None:
    assert [code for _, code, _ in _documented()] == [code.value for code in ErrorCode]


@pytest.mark.parametrize("kind, code, retryable", list(_documented()))
def test_class_and_retryable_are_those_of_the_page(kind: str, code: str, retryable: str) -> None:
    error = RefusedError.of(ErrorCode(code), "A reason.")
    assert type(error) is _KINDS[kind]
    if code != "http-status":
        assert error.retryable == {"yes": True, "no": False}[retryable]
    assert code in str(error)


def test_retryable_statuses() -> None:
    retryable: Dict[int, bool] = {
        status: RefusedError.of(ErrorCode.HTTP_STATUS, "", http_status=status).retryable for status in range(400, 600)}
    assert {status for status, value in retryable.items() if value} == (
        {408, 425, 429} | set(range(500, 600)) - {501, 505})


def test_errors_can_be_pickled() -> None:
    error = RefusedError.of(ErrorCode.HTTP_STATUS, "A reason.", http_status=503, retry_after_ms=10)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.code, copy.http_status, copy.retry_after_ms, copy.retryable, str(copy)) == (
        imgbroker.DownloadError, ErrorCode.HTTP_STATUS, 503, 10, True, str(error))
    lost = pickle.loads(pickle.dumps(imgbroker.ConnectionLostError("A reason.")))
    assert str(lost) == "A reason." and lost.code is None and lost.retryable


def test_all_errors_have_one_base() -> None:
    for name in imgbroker.__all__:
        value = getattr(imgbroker, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, imgbroker.ImageBrokerError)
