"""Reasons for denying a request, independent of the protocol of the answer."""

from __future__ import annotations

from enum import Enum, auto


class Reason(Enum):
    """Why a request is denied; responses.py maps it to an error code of the client's protocol."""

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
    ENTITY_TOO_SMALL = auto()
    ENTITY_TOO_LARGE = auto()


class DeniedError(Exception):
    """A request is denied. `message` replaces the reason's usual text."""

    def __init__(self, reason: Reason, message: str | None = None) -> None:
        super().__init__(message or reason.name)
        self.reason = reason
        self.message = message
