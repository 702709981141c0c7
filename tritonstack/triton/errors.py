"""Errors of Triton servers.

TritonstackError
├── TritonNotFoundError     no server is installed at the given path
├── MissingProgramError            the embedded server could not be installed
├── ExposureRejectedError   the server would listen on every interface of this machine
├── ServeRejectedError      NVIDIA's `serve` would exit with an error for this model folder or environment
├── TritonFailedError       the server ended, or did not become ready in time
└── TritonRequestError      a request got no response
    ├── TritonTimeoutError  ... within its time limit
    └── TritonUnreachableError  ... because it was never sent
        └── TritonEndedError    ... because the server has ended (a TritonFailedError too)
"""

from __future__ import annotations

from tritonstack.base.error_kinds import MissingProgramError
from tritonstack.base.errors import TritonstackError

TAKE_LONGER = "send smaller requests, or allow more time; the server's log shows what it was doing"
READ_THE_LOG = (
    "read the end of the server's log for the cause (such as a crash or a lack of memory), and retry"
)


class TritonNotFoundError(TritonstackError):
    """No tritonserver is installed at the given path."""

    code = MissingProgramError.code


class ExposureRejectedError(TritonstackError):
    """The system forbids user namespaces, so Triton would listen on all network interfaces without
    authentication. Allow user namespaces, or accept the exposure with `--expose`.
    """

    code = "TS603"
    title = "Server would be exposed"


class TritonFailedError(TritonstackError):
    """The local server ended, did not become ready, or did not answer, or the container's `serve` program
    rejects the model folder. The end of its log is in the message.
    """

    code = "TS604"
    title = "Triton server failed"

    def __init__(self, message: str, *, log: str = "", remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy or READ_THE_LOG)
        self.log = log


class ServeRejectedError(TritonstackError):
    """NVIDIA's `serve` would print this message and exit with 1 instead of starting the server."""

    code = TritonFailedError.code


class TritonRequestError(TritonstackError):
    """The server sent no response: the connection failed or broke."""

    code = TritonFailedError.code

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy or READ_THE_LOG)


class TritonTimeoutError(TritonRequestError):
    """The server sent no response within the request's time limit."""


class TritonUnreachableError(TritonRequestError):
    """The server could not be reached: it has not seen the request, which may be sent to another one."""


class TritonEndedError(TritonFailedError, TritonUnreachableError):
    """The server had ended before the request was sent."""
