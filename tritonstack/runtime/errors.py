"""Errors of Triton servers.

TritonstackError
├── TritonNotFoundError     no server is installed at the given path
├── InstallError            the embedded server could not be installed
├── ExposureRejectedError   the server would listen on every interface of this machine
├── ServeRejectedError      NVIDIA's `serve` would exit with an error for this model folder or environment
├── TritonFailedError       the server ended, or did not become ready in time
└── TritonRequestError      a request got no response
    ├── TritonTimeoutError  ... within its time limit
    └── TritonUnreachableError  ... because it was never sent
        └── TritonEndedError    ... because the server has ended (a TritonFailedError too)
"""

from __future__ import annotations

from tritonstack.base.errors import TritonstackError

TAKE_LONGER = "send smaller requests, or allow more time; the server's log shows what it was doing"
READ_THE_LOG = (
    "read the end of the server's log for the cause (such as a crash or a lack of memory), and retry"
)


class TritonNotFoundError(TritonstackError):
    """No tritonserver is installed at the given path."""

    code = "TS601"


class InstallError(TritonstackError):
    """The embedded server could not be installed."""

    code = "TS601"


class ExposureRejectedError(TritonstackError):
    """The server would listen on every network interface of this machine, which was not allowed."""

    code = "TS603"


class ServeRejectedError(TritonstackError):
    """NVIDIA's `serve` would print this message and exit with 1 instead of starting the server."""

    code = "TS604"


class TritonFailedError(TritonstackError):
    """The server ended, or did not become ready in time. `log` has the end of its output."""

    code = "TS604"

    def __init__(self, message: str, *, log: str = "", remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy or READ_THE_LOG)
        self.log = log


class TritonRequestError(TritonstackError):
    """The server sent no response: the connection failed or broke."""

    code = "TS604"

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy or READ_THE_LOG)


class TritonTimeoutError(TritonRequestError):
    """The server sent no response within the request's time limit."""


class TritonUnreachableError(TritonRequestError):
    """The server could not be reached: it has not seen the request, which may be sent to another one."""


class TritonEndedError(TritonFailedError, TritonUnreachableError):
    """The server had ended before the request was sent."""

    code = "TS604"
