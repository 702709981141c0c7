"""Find, install, and run Triton servers as SageMaker's image does.

installation.py finds a server, install.py installs the embedded one, serve.py reproduces the image's `serve`
script, and server.py runs a server. It uses sandbox.py and inside/ (namespaces), readiness.py (requests
and failures), connections.py, and log.py. backends/ has the Python stand-ins for backends that the embedded
server lacks.
"""

from tritonstack.triton.connections import TritonResponse
from tritonstack.triton.errors import (
    ExposureRejectedError,
    ServeRejectedError,
    TritonEndedError,
    TritonFailedError,
    TritonNotFoundError,
    TritonRequestError,
    TritonTimeoutError,
    TritonUnreachableError,
)
from tritonstack.triton.installation import TritonInstallation, find_installation
from tritonstack.triton.serve import ServeCommand, serve_command
from tritonstack.triton.server import TritonServer, require_isolation

__all__ = [
    "ExposureRejectedError",
    "ServeCommand",
    "ServeRejectedError",
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
