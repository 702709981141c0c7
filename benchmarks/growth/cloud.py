"""A local cloud whose endpoints start no Triton server: hundreds of them fit on one machine.

python -m benchmarks.growth.cloud STATE_FOLDER
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tritonstack.base.embedded_accounts import EMBEDDED_ACCOUNT
from tritonstack.triton import TritonResponse
from tritonstack.triton.connections import ResponseStream
from tritonstack_local import process, server
from tritonstack_local.cloud_folder import read_address
from tritonstack_local.sagemaker import SageMakerApp
from tritonstack_local.sagemaker.dependencies import Dependencies
from tritonstack_local.sagemaker.servers.server import ServerOrder
from tritonstack_local.settings import CloudSettings, TimeScale

_MOTO = {name: value for name, value in os.environ.items() if name.startswith("MOTO_")}
"""Set by the import of the server."""
_START_S = 120.0


class ServerWithoutTriton:
    """A server that is ready at once and answers everything with an empty body."""

    model_root = Path("/opt/ml/models")

    def __init__(self, order: ServerOrder) -> None:
        self.log_path = order.state_dir / "triton.log"
        self.log_path.touch()
        self.running = True
        self.pid = os.getpid()

    def request(
        self, method: str, path: str, *, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> TritonResponse:
        """Answer a request, such as a health check."""
        return TritonResponse(status=200, headers={}, body=b"")

    async def exchange(
        self, method: str, path: str, *, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> TritonResponse:
        """Answer a request."""
        return TritonResponse(status=200, headers={}, body=b"")

    async def stream(
        self, method: str, path: str, *, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> ResponseStream:
        """Reject a request: no benchmark streams."""
        raise NotImplementedError(f"{method} {path}")

    def memory_held(self) -> int:
        """Return that it needs no memory."""
        return 0

    def wait_ready(self, *, timeout_s: float) -> None:
        """Return at once."""

    def stop(self, *, grace_s: float = 0.0) -> None:
        """End it."""
        self.running = False


@contextmanager
def growth_cloud(state_dir: Path) -> Iterator[int]:
    """Run a cloud in another process; yield its id."""
    child = subprocess.Popen([sys.executable, "-m", "benchmarks.growth.cloud", str(state_dir)])
    try:
        deadline = time.monotonic() + _START_S
        while (address := read_address(state_dir)) is None:
            if child.poll() is not None or time.monotonic() > deadline:
                sys.exit("the local cloud did not start")
            time.sleep(0.1)
        yield address.pid
    finally:
        child.terminate()
        child.wait()


class _CloudWithoutTriton(server.LocalCloud):
    def __init__(self, *, settings: CloudSettings, listener: socket.socket) -> None:
        os.environ.update(_MOTO)  # serving in this process has removed them
        super().__init__(settings=settings, listener=listener, make_sagemaker=_make_sagemaker)


def _make_sagemaker(*, dependencies: Dependencies, server_home: Path) -> SageMakerApp:
    del server_home
    return SageMakerApp(dependencies=dependencies, start_server=ServerWithoutTriton)  # type: ignore[arg-type]


def main() -> None:
    """Serve until a signal."""
    folder = Path(sys.argv[1])
    settings = CloudSettings(
        state_dir=folder,
        server_home=folder,
        account_id=EMBEDDED_ACCOUNT,
        region="us-east-1",
        time_scale=TimeScale(minute_s=0.2),
    )
    server.LocalCloud = _CloudWithoutTriton  # type: ignore[assignment,misc]
    process.serve_cloud(settings)


if __name__ == "__main__":
    main()
