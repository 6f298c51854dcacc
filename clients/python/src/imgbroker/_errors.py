"""The errors of the client: those that the broker reports, by code, and those of this process."""

from __future__ import annotations

from enum import Enum
from typing import Dict, FrozenSet, Optional, Type


class ErrorCode(str, Enum):
    """The protocol's closed set of error codes."""

    BAD_FRAME = "bad-frame"
    BAD_REQUEST = "bad-request"
    UNSUPPORTED_VERSION = "unsupported-version"
    UNSUPPORTED_SCHEME = "unsupported-scheme"
    FORBIDDEN_ADDRESS = "forbidden-address"
    FORBIDDEN = "forbidden"
    NOT_CACHED = "not-cached"
    RECENTLY_FAILED = "blacklisted"
    CANCELLED = "cancelled"
    SHUTTING_DOWN = "shutting-down"
    OVERLOADED = "overloaded"
    QUOTA_EXCEEDED = "quota-exceeded"
    HOST_UNAVAILABLE = "host-unavailable"
    DNS_FAILED = "dns-failed"
    CONNECT_FAILED = "connect-failed"
    TLS_FAILED = "tls-failed"
    TIMEOUT = "timeout"
    TOO_MANY_REDIRECTS = "too-many-redirects"
    HTTP_STATUS = "http-status"
    TRANSFER_FAILED = "transfer-failed"
    TOO_LARGE = "too-large"
    UNSUPPORTED_FORMAT = "unsupported-format"
    TRUNCATED = "truncated"
    DECODE_FAILED = "decode-failed"
    TOO_MANY_PIXELS = "too-many-pixels"
    EMPTY_IMAGE = "empty-image"
    DECODER_CRASHED = "decoder-crashed"
    DECODER_UNAVAILABLE = "decoder-unavailable"
    OUT_OF_MEMORY = "out-of-memory"
    DISK_FAILED = "disk-failed"
    INTERNAL = "internal"

    def __str__(self) -> str:
        return self.value


_RETRYABLE: FrozenSet[ErrorCode] = frozenset({
    ErrorCode.SHUTTING_DOWN, ErrorCode.OVERLOADED, ErrorCode.QUOTA_EXCEEDED, ErrorCode.HOST_UNAVAILABLE,
    ErrorCode.DNS_FAILED, ErrorCode.CONNECT_FAILED, ErrorCode.TIMEOUT, ErrorCode.TRANSFER_FAILED,
    ErrorCode.DECODER_UNAVAILABLE, ErrorCode.OUT_OF_MEMORY, ErrorCode.DISK_FAILED, ErrorCode.INTERNAL,
})


def is_retryable(code: ErrorCode, http_status: Optional[int]) -> bool:
    """Returns whether the same request may succeed later, as the protocol states for the code and the status."""
    if code is ErrorCode.HTTP_STATUS and http_status is not None:
        return http_status in (408, 425, 429) or (500 <= http_status <= 599 and http_status not in (501, 505))
    return code in _RETRYABLE


class ImageBrokerError(Exception):
    """The base class of all errors of this package."""

    #: The broker's error code; None for an error of this process.
    code: Optional[ErrorCode] = None
    #: Whether the same request may succeed later, unchanged.
    retryable: bool = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        #: The error in one sentence.
        self.message = message


# Errors that the broker reports: a class for each group of codes.


class RefusedError(ImageBrokerError):
    """The broker's `error` reply. Its subclasses are the groups of codes."""

    code: ErrorCode

    def __init__(
        self, code: ErrorCode, message: str, *, http_status: Optional[int] = None,
        retry_after_ms: Optional[int] = None, cause: Optional[ErrorCode] = None, recently_failed: bool = False,
    ) -> None:
        super().__init__(f"{code.value}: {message}")
        self.code = code
        self.message = message
        #: The origin's status; only with `http-status`.
        self.http_status = http_status
        #: The delay before a retry in milliseconds; None if it is unknown.
        self.retry_after_ms = retry_after_ms
        #: The code of the first failure; only with `blacklisted`.
        self.cause = cause
        #: Whether this failure was recorded as a recent failure.
        self.recently_failed = recently_failed
        self.retryable = is_retryable(code, http_status)

    @staticmethod
    def of(
        code: ErrorCode, message: str, *, http_status: Optional[int] = None, retry_after_ms: Optional[int] = None,
        cause: Optional[ErrorCode] = None, recently_failed: bool = False,
    ) -> "RefusedError":
        """Creates an error of the class to which `code` belongs."""
        return _CLASSES[code](
            code, message, http_status=http_status, retry_after_ms=retry_after_ms, cause=cause,
            recently_failed=recently_failed)

    def __reduce__(self) -> "tuple[object, ...]":
        return RefusedError.of, (self.code, self.message), self.__dict__


class MessageError(RefusedError):
    """The message was invalid: `bad-frame`, `bad-request`, `unsupported-version`."""


class PolicyError(RefusedError):
    """The broker's policy forbids the request: `unsupported-scheme`, `forbidden-address`, `forbidden`."""


class OutcomeError(RefusedError):
    """The request ended without a load: `not-cached`, `blacklisted`, `cancelled`, `shutting-down`, `overloaded`,
    `quota-exceeded`."""


class HostError(RefusedError):
    """The host takes no requests at present: `host-unavailable`."""


class DownloadError(RefusedError):
    """The download failed: from `dns-failed` to `too-large`."""


class ImageError(RefusedError):
    """The bytes are not an image that can be decoded: from `unsupported-format` to `decoder-unavailable`."""


class BrokerFailure(RefusedError):
    """The broker failed: `out-of-memory`, `disk-failed`, `internal`."""


def _classes() -> Dict[ErrorCode, Type[RefusedError]]:
    groups = [
        (MessageError, ErrorCode.BAD_FRAME, ErrorCode.UNSUPPORTED_VERSION),
        (PolicyError, ErrorCode.UNSUPPORTED_SCHEME, ErrorCode.FORBIDDEN),
        (OutcomeError, ErrorCode.NOT_CACHED, ErrorCode.QUOTA_EXCEEDED),
        (HostError, ErrorCode.HOST_UNAVAILABLE, ErrorCode.HOST_UNAVAILABLE),
        (DownloadError, ErrorCode.DNS_FAILED, ErrorCode.TOO_LARGE),
        (ImageError, ErrorCode.UNSUPPORTED_FORMAT, ErrorCode.DECODER_UNAVAILABLE),
        (BrokerFailure, ErrorCode.OUT_OF_MEMORY, ErrorCode.INTERNAL),
    ]
    codes = list(ErrorCode)
    return {
        code: group for group, first, last in groups
        for code in codes[codes.index(first):codes.index(last) + 1]
    }


_CLASSES = _classes()


# Errors of this process.


class ClientError(ImageBrokerError):
    """An error without a reply of the broker."""


class NoBrokerError(ClientError):
    """No broker listens at the socket's path."""

    retryable = True


class ConnectionLostError(ClientError):
    """The connection ended before the reply, and so did the connection that the request was sent over again."""

    retryable = True


class NotAnsweringError(ClientError):
    """The broker has answered nothing for twice the client's `patience`: it is stopped, or hangs."""

    retryable = True


class ProtocolViolationError(ClientError):
    """A reply does not follow the protocol. The connection was closed; the next request opens another."""


class ProcessLimitError(ClientError):
    """This process may open no more descriptors, or map no more memory. Only this image is affected; a later request
    gets it."""

    retryable = True


class FeatureMissingError(ClientError):
    """The broker lacks an addition to the protocol that the request needs."""


class ClosedError(ClientError):
    """The client was closed."""


def forget_frames(error: Optional[BaseException]) -> None:
    """Removes the tracebacks of an error and its causes, whose frames refer to the connection and to leases."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
