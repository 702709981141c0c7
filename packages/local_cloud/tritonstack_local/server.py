"""The local cloud's server: one loopback port for all services, dispatched by the request's signature."""

from __future__ import annotations

import functools
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

# Roles attach AWS's managed policies, which moto loads only if this is set before its first import.
os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"
# No EC2 instance runs here, and 1,300 images would be saved with every change of a network.
os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.wrappers import Request, Response

from tritonstack_local.access.accounts import all_accounts, confined_to
from tritonstack_local.access.guard import Guard
from tritonstack_local.access.keys import AccessKey, CloudSecret
from tritonstack_local.access.own_routes import INVENTORY_PATH
from tritonstack_local.access.requests import RUNTIME_PREFIX, DeniedError, Reason
from tritonstack_local.autoscaling.app import AutoScalingApp
from tritonstack_local.cloud_folder import state_folder
from tritonstack_local.cloudformation.api import CloudFormationApp
from tritonstack_local.cloudformation.providers import providers_for
from tritonstack_local.cloudwatch import log_streams
from tritonstack_local.cloudwatch.evaluator import AlarmEvaluator
from tritonstack_local.cloudwatch.moto_alarms import AlarmRecord
from tritonstack_local.codebuild.app import create_app as create_codebuild
from tritonstack_local.ecr_layers import OFFERED as ABOUT_LAYERS
from tritonstack_local.ecr_layers import create_app as create_ecr_layers
from tritonstack_local.front import BACKLOG, Front
from tritonstack_local.inventory import inventory
from tritonstack_local.moto_patches import install
from tritonstack_local.moto_patches.iam import find_issued_key
from tritonstack_local.sagemaker.app import SageMakerApp, create_app
from tritonstack_local.sagemaker.dependencies import Dependencies
from tritonstack_local.scope import Caller, caller_of
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.tables import Tables
from tritonstack_local.settings import CloudSettings
from tritonstack_local.state.persistence import Application, PersistenceMiddleware
from tritonstack_local.state.pickling import MotoBackends
from tritonstack_local.state.writer import StateWriter, open_state
from tritonstack_local.tagging import SIGNED_AS, tagged_in_moto
from tritonstack_local.tagging import create_app as create_tagging

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from tritonstack_local.container_group import ContainerGroup

_CLOSED = {"moto_api", "instance_metadata"}
"""moto routes that are not AWS services: they control moto or issue credentials."""
_IN_MEMORY = ("ec2", "iam", "kms", "logs", "secretsmanager", "ssm")
"""Services whose requests moto answers from memory, without waiting for anything."""
_KNOWN_HOSTS = 256
_log = logging.getLogger(__name__)


class MakeSageMaker(Protocol):
    """Creates the SageMaker application of a cloud; tests substitute fake Triton servers."""

    def __call__(self, *, dependencies: Dependencies, server_home: Path) -> SageMakerApp:
        """Make it."""


class LocalCloud:
    """A running local cloud that serves `listener` until it is closed."""

    def __init__(
        self, *, settings: CloudSettings, listener: socket.socket, make_sagemaker: MakeSageMaker = create_app
    ) -> None:
        self._container_group = _container_group_of(settings)
        self._account_id = settings.account_id
        self.secret = CloudSecret.kept_in(settings.state_dir)
        install.apply()
        self._state = open_state(state_folder(settings.state_dir))
        self._writer = StateWriter(self._state)
        self._persistence = PersistenceMiddleware(self._state, self._writer)
        self._moto = _Moto(_backend_app)
        self._port: int = listener.getsockname()[1]
        listener.listen(BACKLOG)  # requests wait until the start is complete
        clients = Clients(endpoint_url=self.endpoint_url, secret=self.secret)
        self._watch = AlarmEvaluator(
            clients=clients,
            time_scale=settings.time_scale,
            trigger_policy=self._trigger_policy,
        )
        self._cloudformation = CloudFormationApp(
            clients=clients,
            providers=providers_for(rollback_fails_update=settings.rollback_fails_update),
            changing=self._writer.changing,
        )
        dependencies = Dependencies(
            folder=settings.state_dir / "endpoints",
            clients=clients,
            time_scale=settings.time_scale,
            container_group=self._container_group,
            loaded_models=settings.loaded_models,
            provisioning_minutes=settings.provisioning_minutes,
        )
        self._sagemaker = make_sagemaker(dependencies=dependencies, server_home=settings.server_home)
        self._autoscaling = AutoScalingApp(
            clients=clients,
            endpoints=self._sagemaker.endpoints,
            time_scale=settings.time_scale,
        )
        self._codebuild = create_codebuild(
            folder=settings.state_dir / "builds",
            clients=clients,
            server_home=settings.server_home,
        )
        self._ecr_layers = create_ecr_layers(clients=clients, folder=settings.state_dir / "layers")
        self._own: Mapping[str, Application] = {
            "application-autoscaling": self._autoscaling,
            "cloudformation": self._cloudformation,
            "codebuild": self._codebuild,
            "sagemaker": self._sagemaker,
            SIGNED_AS: create_tagging(
                sources=(
                    tagged_in_moto,
                    self._cloudformation.tagged,
                    self._sagemaker.tagged,
                    self._autoscaling.tagged,
                    self._codebuild.tagged,
                ),
            ),
        }
        self._remember()
        self._front = Front(
            listener=listener,
            guard=Guard(find_key=self._find_key, port=self._port),
            runtime=self._sagemaker.runtime,
            application=self._dispatch,
        )
        self._sagemaker.resume()
        self._autoscaling.resume()
        self._codebuild.resume()
        self._cloudformation.resume()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port

    @property
    def notices(self) -> tuple[str, ...]:
        """Messages about what was restored and what was lost."""
        count = self._sagemaker.endpoint_count
        coming = f"{count} endpoint{'s are' if count > 1 else ' is'} coming back"
        return (*self._state.notices, *((coming,) if count else ()))

    @property
    def endpoint_url(self) -> str:
        """The URL for clients; S3 clients prefix its host name with bucket names."""
        return f"http://localhost:{self.port}"

    def _remember(self) -> None:
        """Register all persistent stores, and load their saved state."""
        self._writer.track("moto", MotoBackends())
        self._writer.track("cloudformation", self._cloudformation.store)
        remembered: dict[str, Tables] = {
            "sagemaker": self._sagemaker.tables,
            "autoscaling": self._autoscaling.tables,
            "codebuild": self._codebuild.tables,
        }
        for service, tables in remembered.items():
            for name, table in tables.items():
                self._writer.track(f"{service}.{name}", table)
        self._writer.load()
        log_streams.sweep()
        self._writer.start()

    def close(self) -> None:
        """Save the state, stop listening, and end everything."""
        self._watch.close()
        self._writer.close()
        self._front.close()
        self._codebuild.close()
        self._autoscaling.close()
        self._sagemaker.close()
        if self._container_group is not None:
            self._container_group.close()

    def _trigger_policy(self, alarm: AlarmRecord, action: str) -> str | None:
        return self._autoscaling.alarmed(alarm, action)

    def _find_key(self, key_id: str) -> AccessKey | None:
        return self.secret.find(key_id) or find_issued_key(key_id)

    def _dispatch(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Pass a verified request to its service."""
        request = Request(environ, shallow=True)
        caller = caller_of(environ)
        service = caller.service.lower()
        if request.path == INVENTORY_PATH:
            return self._inventory(caller)(environ, start_response)
        if request.path.startswith(RUNTIME_PREFIX):
            return self._sagemaker(environ, start_response)
        application = self._own_application(request, service)
        moto = confined_to(caller.account) if application is None else nullcontext()
        with moto:
            answer = self._persistence.answer(
                environ, service=service, application=application or self._moto, is_moto=application is None
            )
        return answer(environ, start_response)

    def _own_application(self, request: Request, service: str) -> Application | None:
        """Return the application that answers, unless moto does."""
        action = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        if service == "ecr" and action in ABOUT_LAYERS:
            return self._ecr_layers
        return self._own.get(service)

    def _inventory(self, caller: Caller) -> Response:
        """List all resources to the cloud's own account, and to other accounts only their own."""
        items: list[Mapping[str, object]] = [*inventory(self._cloudformation.stacks())]
        for own in (self._sagemaker, self._autoscaling, self._codebuild):
            items += own.inventory()
        if caller.account != self._account_id:
            items = [item for item in items if item["account"] == caller.account]
        return Response(json.dumps(items, indent=1), content_type="application/json")


def _container_group_of(settings: CloudSettings) -> ContainerGroup | None:
    if not settings.containers:
        return None
    # Imported here: only containers need the Docker library.
    from tritonstack.triton.docker_engine import docker_engine  # noqa: PLC0415
    from tritonstack_local.container_group import ContainerGroup  # noqa: PLC0415

    return ContainerGroup(engine=docker_engine(), owner=settings.state_dir)


def _backend_app(service: Any) -> Any:
    """Create moto's application of a service on its first request; its exceptions reach the guard."""
    if service == "ec2":
        install.correct_ec2()
    application = create_backend_app(service)
    application.config["PROPAGATE_EXCEPTIONS"] = True
    return application


class _Moto(DomainDispatcherApplication):
    """moto's services; unknown services are rejected, where moto would fail.

    moto searches its dictionaries while requests in other threads add to them, which fails. The services in
    memory therefore answer one request at a time.
    """

    def __init__(self, create_app: Callable[[Any], Any]) -> None:
        super().__init__(create_app)
        self._turns = {service: threading.Lock() for service in _IN_MEMORY}
        # moto lists its folders and tries its patterns for every request, one request at a time.
        self._service_of = functools.lru_cache(_KNOWN_HOSTS)(super().get_backend_for_host)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        with self._turns.get(caller_of(environ).service.lower(), nullcontext()):
            return super().__call__(environ, start_response)

    def get_application(self, environ: dict[str, Any]) -> Any:
        # Creating the application of a service reads a backend.
        with all_accounts():
            return super().get_application(environ)

    def get_backend_for_host(self, host: str | None) -> Any:
        backend = self._service_of(host)
        if backend in _CLOSED:
            raise DeniedError(Reason.FORBIDDEN, "The local cloud does not expose this moto route")
        if host is not None and backend is None:
            raise NotImplementedError(f"{host} has not been implemented")
        return backend
