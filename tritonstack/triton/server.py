"""Run a Triton server under SageMaker's contract: start it, send requests, and stop it completely.

with TritonServer.start(
    installation=installation, model_root=repository, environment=variables, state_dir=folder
) as server:
    server.wait_ready(timeout_s=60)
    answer = server.request("POST", "/invocations", body=body, headers={"Content-Type": kind})
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import uuid
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tritonstack.triton import readiness
from tritonstack.triton.connections import NO_HEADERS
from tritonstack.triton.inside.private_root import Mount, shown
from tritonstack.triton.inside.supervisor import Order
from tritonstack.triton.installation import TritonInstallation
from tritonstack.triton.readiness import SageMakerServer
from tritonstack.triton.sandbox import (
    Sandbox,
    require_namespaces_or_consent,
    warn_of_exposure,
    why_no_namespaces,
)
from tritonstack.triton.serve import (
    BIND_TO_PORT,
    MULTI_MODEL,
    ServeCommand,
    generate_by_http,
    serve_command,
)

# SageMaker's path for a model, or in multi-model mode for the models.
SINGLE_MODEL_ROOT = Path("/opt/ml/model")
MULTI_MODEL_ROOT = Path("/opt/ml/models")
# The embedded server's path in its sandbox, which needs no shell quoting, unlike the host's.
SERVER_ROOT = Path("/opt/tritonstack-server")
LOG_NAME = "triton.log"


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """An order, the server's path of its models, and its paths for those of SageMaker's contract."""

    order: Order
    model_root: Path
    routes: Mapping[str, str]


class TritonServer(SageMakerServer):
    """A started server. It ends with `stop`, with this process, or when it is garbage-collected."""

    def __init__(
        self, *, sandbox: Sandbox, log_path: Path, model_root: Path, routes: Mapping[str, str] = NO_HEADERS
    ) -> None:
        super().__init__(
            name="tritonserver",
            connect=sandbox.connect,
            exit_status=lambda: sandbox.exit_status,
            log_path=log_path,
            routes=routes,
        )
        self.model_root = model_root
        """The server's path of the model folder; urls of multi-model loads begin with it."""
        self._sandbox = sandbox
        self._stop_at_exit = weakref.finalize(self, sandbox.stop, grace_s=5)

    @classmethod
    def start(
        cls,
        *,
        installation: TritonInstallation,
        model_root: Path,
        environment: Mapping[str, str],
        state_dir: Path,
    ) -> TritonServer:
        """Start what `serve` would start for a container with this environment; return before it is ready.

        `model_root` is the content of /opt/ml/model, or in multi-model mode of /opt/ml/models. Raises
        ServeRejectedError if `serve` would fail, and ExposureRejectedError if the server would listen on
        every interface without consent.
        """
        require_isolation(installation)
        state_dir.mkdir(parents=True, exist_ok=True)
        reason = why_no_namespaces()
        if reason is None:
            plan = _plan_in_namespaces(installation, model_root.resolve(), environment)
        else:
            plan = _plan_on_host(installation, model_root.resolve(), environment, state_dir)
            warn_of_exposure(reason, plan.order["port"])
        log_path = state_dir / LOG_NAME
        sandbox = Sandbox.start(order=plan.order, log=log_path)
        return cls(sandbox=sandbox, log_path=log_path, model_root=plan.model_root, routes=plan.routes)

    @property
    def running(self) -> bool:
        """Return whether the server has not ended, ready or not."""
        return self._sandbox.exit_status is None

    @property
    def pid(self) -> int:
        """Return the first process, the ancestor of everything that the server runs."""
        return self._sandbox.pid

    def connect(self) -> socket.socket:
        """Open a new connection to the SageMaker port, for callers with their own HTTP client."""
        connection = self._sandbox.connect()
        connection.settimeout(None)  # it was opened in another process, with a timeout
        return connection

    def shared_memory_held(self) -> int:
        """Return the bytes of shared memory that its Python models use, which never shrink."""
        return self._sandbox.shared_memory_held()

    def memory_held(self) -> int:
        """Return the bytes of private and shared memory that it and its models use, without mapped files."""
        return self._sandbox.memory_held()

    def log_tail(self, lines: int = 40) -> str:
        """Return the end of the server's output."""
        return readiness.tail(self.log_path, lines)

    def log_errors(self, lines: int = 6) -> str:
        """Return the last errors in the server's output; empty if there is none."""
        return readiness.errors(self.log_path, limit=lines)

    def stop(self, *, grace_s: float = 30.0) -> None:
        """Stop the server, by force after the grace period; return when nothing remains."""
        self.close_connections()
        if self._stop_at_exit.detach():
            self._sandbox.stop(grace_s=grace_s)

    def __enter__(self) -> TritonServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server at once. A graceful stop takes Triton 2 s, and no request is left to wait for."""
        self.stop(grace_s=0)


def require_isolation(installation: TritonInstallation) -> None:
    """Raise ExposureRejectedError if a server would listen on every interface without consent.

    In a container, the interfaces are the container's.
    """
    if installation.kind == "embedded":
        require_namespaces_or_consent()


def _plan_in_namespaces(
    installation: TritonInstallation, model_root: Path, environment: Mapping[str, str]
) -> _Plan:
    served_at = MULTI_MODEL_ROOT if environment.get(MULTI_MODEL) == "true" else SINGLE_MODEL_ROOT
    command = serve_command(
        environment=environment,
        model_root=model_root,
        served_at=served_at,
        gpu_count=count_gpus(),
        release=installation.release,
    )
    mounts = [shown(model_root, served_at), *map(shown, installation.outside)]
    if installation.kind == "embedded":
        mounts.append(shown(installation.root, SERVER_ROOT))
        installation = installation.moved_to(SERVER_ROOT)
    command, routes = _routed(installation, command)
    return _Plan(order=_order(installation, command, mounts=mounts), model_root=served_at, routes=routes)


def _plan_on_host(
    installation: TritonInstallation, model_root: Path, environment: Mapping[str, str], state_dir: Path
) -> _Plan:
    command = serve_command(
        environment={**environment, BIND_TO_PORT: str(_free_port())},
        model_root=model_root,
        multi_model_root=state_dir.resolve() / "empty-repository",
        gpu_count=count_gpus(),
        release=installation.release,
    )
    prefix = f"tritonstack_{uuid.uuid4().hex[:12]}_"
    command, routes = _routed(installation, command)
    order = _order(installation, command, shared_memory_prefix=prefix)
    return _Plan(order=order, model_root=model_root, routes=routes)


def _routed(
    installation: TritonInstallation, command: ServeCommand
) -> tuple[ServeCommand, Mapping[str, str]]:
    if installation.kind == "embedded":
        return generate_by_http(command, release=installation.release)
    return command, NO_HEADERS


def _order(
    installation: TritonInstallation,
    command: ServeCommand,
    *,
    mounts: list[Mount] | None = None,
    shared_memory_prefix: str | None = None,
) -> Order:
    """Return serve's command for this installation. Serve's own flags come last and take precedence."""
    arguments = list(installation.arguments())
    if shared_memory_prefix:
        arguments.append(f"--backend-config=python,shm-region-prefix-name={shared_memory_prefix}")
    return Order(
        argv=[str(installation.executable), *arguments, *command.argv[1:]],
        environment=installation.surround(command.environment),
        port=command.port,
        notices=list(command.notices),
        folders=[str(folder) for folder in command.folders_made],
        mounts=mounts,
        shared_memory_prefix=shared_memory_prefix,
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def count_gpus() -> int:
    """Count GPUs as `serve` does: the lines of `nvidia-smi -L`."""
    if not shutil.which("nvidia-smi"):
        return 0
    listing = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, text=True, check=False).stdout
    return len(listing.splitlines())
