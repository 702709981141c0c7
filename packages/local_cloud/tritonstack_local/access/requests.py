"""A request as the client sent it, and the reasons for denying it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from urllib.parse import unquote


class Reason(Enum):
    """Why a request is denied; guard.py maps it to an error code of the client's protocol."""

    FORBIDDEN = auto()
    """The request comes from a browser page, names a foreign host, or asks for a closed route."""
    ACCESS_DENIED = auto()
    MISSING = auto()
    """The request is not signed."""
    INCOMPLETE = auto()
    UNKNOWN_KEY = auto()
    INVALID_TOKEN = auto()
    EXPIRED_TOKEN = auto()
    MISMATCH = auto()
    SKEWED = auto()
    PRESIGNED_EXPIRED = auto()
    PAYLOAD_MISMATCH = auto()
    MISSING_PAYLOAD_HASH = auto()
    BAD_DIGEST = auto()
    """The content does not match a checksum in the request."""
    INCOMPLETE_BODY = auto()
    UNSUPPORTED = auto()
    INVALID_IDENTITY_TOKEN = auto()
    ENTITY_TOO_LARGE = auto()
    PAYLOAD_TOO_LARGE = auto()
    """Of InvokeEndpoint."""
    BUSY = auto()
    """Other clients are sending too much at the moment."""
    NO_SPACE = auto()
    """Not a denial, as what follows: the disk is full. No client retries it."""
    NOT_IMPLEMENTED = auto()
    INTERNAL = auto()
    """The request failed in the local cloud."""


class DeniedError(Exception):
    """A request is denied. `message` replaces the reason's usual text."""

    def __init__(self, reason: Reason, message: str | None = None) -> None:
        super().__init__(message or reason.name)
        self.reason = reason
        self.message = message


S3 = "s3"
"""The signing name of S3, which signs paths as sent and the declared hash of the body."""
_TARGET = re.compile(r"/[!-~]*")
_AT_MOST_ONCE = (
    "host",
    "authorization",
    "x-amz-date",
    "x-amz-content-sha256",
    "x-amz-security-token",
    "x-amz-target",
)


@dataclass(frozen=True)
class SentRequest:
    """Method, target, and headers, as sent: without decoding or joining."""

    method: str
    target: str
    """Path and query as on the request line."""
    header_pairs: tuple[tuple[str, str], ...] = field(repr=False)
    headers: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    """The values of each header, by lower-case name, in the order sent."""

    def __post_init__(self) -> None:
        headers: dict[str, tuple[str, ...]] = {name.lower(): (value,) for name, value in self.header_pairs}
        if len(headers) < len(self.header_pairs):
            headers = _repeated(self.header_pairs)
        object.__setattr__(self, "headers", headers)

    @property
    def path(self) -> str:
        """The path, still percent-encoded."""
        return self.target.partition("?")[0] if "?" in self.target else self.target

    @property
    def query(self) -> str:
        """The query, still percent-encoded."""
        return self.target.partition("?")[2]

    @cached_property
    def query_pairs(self) -> tuple[tuple[str, str], ...]:
        """The parameters of the query, decoded."""
        return tuple((decoded_query(name), decoded_query(value)) for name, value in split_query(self.query))

    def header(self, name: str) -> str | None:
        """Return the value of a header, by lower-case name; None if it was not sent."""
        values = self.headers.get(name)
        return values[-1] if values else None

    def parameter(self, name: str) -> str | None:
        """Return the value of a query parameter; None if it was not sent."""
        return next((value for key, value in self.query_pairs if key == name), None) if self.query else None

    def check(self) -> None:
        """Deny a request whose target or signed headers are ambiguous."""
        if _TARGET.fullmatch(self.target) is None or "#" in self.target:
            raise DeniedError(Reason.INCOMPLETE, "The request target must be an absolute path")
        if len(self.headers) == len(self.header_pairs):  # none was sent twice
            return
        for name in _AT_MOST_ONCE:
            if len(self.headers.get(name, ())) > 1:
                raise DeniedError(Reason.INCOMPLETE, f"The header {name} was sent more than once")


def _repeated(header_pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    headers: dict[str, tuple[str, ...]] = {}
    for name, value in header_pairs:
        headers[name.lower()] = (*headers.get(name.lower(), ()), value)
    return headers


def split_query(query: str) -> Iterator[tuple[str, str]]:
    """Split a query into names and values, both still encoded."""
    for pair in query.split("&"):
        if pair:
            name, _, value = pair.partition("=")
            yield name, value


def decoded_query(text: str) -> str:
    """Decode a name or value of a query, byte for byte."""
    return unquote(text.replace("+", " "), encoding="latin-1")


RUNTIME_PREFIX = "/endpoints/"
PAYLOAD_LIMIT_BYTES = 25 * 1024 * 1024
"""Of InvokeEndpoint."""
_USUAL = 1 << 20
_LARGEST = {
    # A part of a layer has at most 20 MiB and is sent as base64.
    "ecr": 28 << 20,
    # Events have at most 1 MiB; control characters take six times as much in JSON.
    "logs": 8 << 20,
    "dynamodb": 16 << 20,
}


def largest_body(request: SentRequest, service: str) -> int:
    """Return the limit of a service other than S3, in bytes."""
    is_invocation = request.path.startswith(RUNTIME_PREFIX)
    return PAYLOAD_LIMIT_BYTES if is_invocation else _LARGEST.get(service, _USUAL)


def too_large(request: SentRequest, limit: int) -> DeniedError:
    """Return the denial of a larger body."""
    if request.path.startswith(RUNTIME_PREFIX):
        message = (
            "1 validation error detected: Value at 'body' failed to satisfy constraint: Member must have "
            f"length less than or equal to {limit}"
        )
        return DeniedError(Reason.PAYLOAD_TOO_LARGE, message)
    return DeniedError(Reason.ENTITY_TOO_LARGE, f"The request body exceeds {limit} bytes.")


def check_length(request: SentRequest, service: str) -> None:
    """Deny a request that announces a larger body."""
    length, limit = request.header("content-length") or "", largest_body(request, service)
    if length.isascii() and length.isdigit() and int(length[:20]) > limit:
        raise too_large(request, limit)
