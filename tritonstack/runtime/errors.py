"""What can go wrong between this project and a Triton server.

TritonstackError
├── TritonNotFoundError     no server is installed where one was looked for
├── InstallError            the embedded server could not be installed
├── ExposureRefusedError    the server would listen on every interface of this machine
├── ServeRefusedError       NVIDIA's `serve` would refuse to start with this model folder or environment
├── TritonFailedError       the server ended, or did not become ready in time
└── TritonRequestError      no answer came to a request
    ├── TritonTimeoutError  ... within its time limit
    └── TritonUnreachableError  ... which was never sent
        └── TritonEndedError    ... because the server has ended (a TritonFailedError too)
"""

from __future__ import annotations

from tritonstack.base.errors import TritonstackError


class TritonNotFoundError(TritonstackError):
    """No tritonserver is installed where one was looked for."""

    code = "TS601"


class InstallError(TritonstackError):
    """The embedded server could not be installed."""

    code = "TS602"


class ExposureRefusedError(TritonstackError):
    """The server would listen on every network interface of this machine, and nobody has allowed it."""

    code = "TS603"


class ServeRefusedError(TritonstackError):
    """NVIDIA's `serve` would print this message and exit with 1 instead of starting the server."""

    code = "TS604"


class TritonFailedError(TritonstackError):
    """The server ended, or did not become ready in time. `log` holds the end of what it wrote."""

    code = "TS604"

    def __init__(self, message: str, *, log: str = "", remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.log = log


class TritonRequestError(TritonstackError):
    """The server gave no answer: the connection could not be made, or broke."""

    code = "TS605"


class TritonTimeoutError(TritonRequestError):
    """The server gave no answer within the request's time limit."""


class TritonUnreachableError(TritonRequestError):
    """The server could not be connected to: it has seen nothing of the request, which may go to another."""


class TritonEndedError(TritonFailedError, TritonUnreachableError):
    """The server had ended before the request was sent."""

    code = "TS605"
