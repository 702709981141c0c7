"""The WSGI application of CodeBuild's API."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tritonstack_local.codebuild.actions import ACTIONS, BuildPool, CodeBuildActions
from tritonstack_local.codebuild.build_run import BuildServices
from tritonstack_local.codebuild.machines.base import MachineOrder, StartMachine
from tritonstack_local.codebuild.machines.processes import process_starter
from tritonstack_local.codebuild.unsupported import reject_unsupported
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.tables import Tables, inventory_of
from tritonstack_local.service.wire import ControlPlane, Fields
from tritonstack_local.tagging import TaggedResource

_USUAL_SOCKET = Path("/var/run/docker.sock")


def container_starter(otherwise: StartMachine) -> StartMachine:
    """Start builds in containers; use `otherwise` if no engine has the image."""

    def start(order: MachineOrder) -> Any:
        if _engine_may_answer():
            from tritonstack_local.codebuild.machines.containers import start_container  # noqa: PLC0415

            return start_container(order) or otherwise(order)
        return otherwise(order)

    return start


def remove_left_over(folder: Path) -> None:
    """Remove the containers left by an earlier cloud."""
    if _engine_may_answer():
        from tritonstack_local.codebuild.machines import containers  # noqa: PLC0415

        containers.remove_left_over(folder)


def _engine_may_answer() -> bool:
    """Tell whether to load the Docker library: importing it is slow."""
    return bool(os.environ.get("DOCKER_HOST")) or _USUAL_SOCKET.exists()


if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

SERVICE = "codebuild"


class CodeBuildApp:
    """Serves the API. Thread-safe; `close` ends every build."""

    def __init__(self, services: BuildServices) -> None:
        self.store = services.store
        self._pool = BuildPool(services)
        self._actions = CodeBuildActions(services, self._pool)
        self._control_plane = ControlPlane(
            service=SERVICE, actions={name: partial(self._run, name) for name in ACTIONS}
        )

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return self._control_plane(environ, start_response)

    @property
    def tables(self) -> Tables:
        """Its persistent tables; restored before `resume` after a restart."""
        return {"projects": self.store.projects, "builds": self.store.builds}

    def inventory(self) -> list[dict[str, str]]:
        """List the projects of all accounts and regions. Builds are not resources."""
        return inventory_of(SERVICE, {"project": self.store.projects})

    def tagged(self, scope: Scope) -> Iterator[TaggedResource]:
        """List the projects of a scope with their tags."""
        for project in self.store.projects.within(scope):
            tags = {tag["key"]: tag["value"] for tag in project.fields.get("tags", [])}
            yield TaggedResource(scope.arn(SERVICE, f"project/{project.name}"), "codebuild:project", tags)

    def resume(self) -> None:
        """Mark builds that ended with an earlier cloud as failed."""
        self._pool.interrupted()

    def close(self) -> None:
        """End every build."""
        self._pool.close()

    def _run(self, name: str, scope: Scope, request: Fields) -> Fields:
        reject_unsupported(name, request)
        return ACTIONS[name](self._actions, scope, request)


def create_app(*, folder: Path, clients: Clients, server_home: Path) -> CodeBuildApp:
    """Create the application; builds run in containers if possible, otherwise as processes.

    Leftovers of an earlier cloud in the builds' folder are removed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    remove_left_over(folder)
    start_machine = container_starter(process_starter(server_home=server_home))
    services = BuildServices(folder=folder, clients=clients, start_machine=start_machine)
    return CodeBuildApp(services)
