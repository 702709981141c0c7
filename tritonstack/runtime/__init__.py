"""Starts a Triton server the way SageMaker's image does, and finds one to start.

installation.py finds a server, install.py installs the embedded one, serve.py knows what the image's
`serve` runs, server.py is the running server; it stands on sandbox.py and supervisor.py (a world of its
own), contact.py (readiness, requests, and why there is no answer), connections.py and log.py. backends/
holds the python-based backends that stand in for the ones the embedded server lacks.
"""

from tritonstack.runtime.connections import TritonResponse
from tritonstack.runtime.errors import (
    ExposureRefusedError,
    InstallError,
    ServeRefusedError,
    TritonEndedError,
    TritonFailedError,
    TritonNotFoundError,
    TritonRequestError,
    TritonTimeoutError,
    TritonUnreachableError,
)
from tritonstack.runtime.installation import TritonInstallation, find_installation
from tritonstack.runtime.serve import ServeCommand, serve_command
from tritonstack.runtime.server import TritonServer, require_isolation

__all__ = [
    "ExposureRefusedError",
    "InstallError",
    "ServeCommand",
    "ServeRefusedError",
    "TritonEndedError",
    "TritonFailedError",
    "TritonInstallation",
    "TritonNotFoundError",
    "TritonRequestError",
    "TritonResponse",
    "TritonServer",
    "TritonTimeoutError",
    "TritonUnreachableError",
    "find_installation",
    "require_isolation",
    "serve_command",
]
