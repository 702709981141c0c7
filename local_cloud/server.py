"""The embedded cloud's server: one loopback port for every service, dispatched by the request's signature."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from xml.sax.saxutils import escape

# Roles attach AWS's managed policies, which moto knows only when told so before its first import.
os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import BaseWSGIServer, make_server
from werkzeug.wrappers import Request, Response

from local_cloud import moto_corrections
from local_cloud.accounts import read_credential
from local_cloud.clients import Clients
from local_cloud.cloudformation.api import CloudFormationApp
from local_cloud.cloudformation.providers import PROVIDERS
from local_cloud.cloudwatch.metrics import Metrics
from local_cloud.inventory import inventory
from local_cloud.sagemaker.app import SageMakerApp, Surroundings, create_app
from local_cloud.settings import CloudSettings

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

Application = Callable[["WSGIEnvironment", "StartResponse"], Iterable[bytes]]

_POLL_S = 0.05
"""How often the server looks whether it is to stop."""
INVENTORY_PATH = "/_tritonstack/inventory"
_log = logging.getLogger(__name__)


class MakeSageMaker(Protocol):
    """How the SageMaker of a cloud is made; tests put stand-ins for Tritons behind it."""

    def __call__(self, *, surroundings: Surroundings, server_home: Path) -> SageMakerApp:
        """Make it."""


class Cloud:
    """A running embedded cloud, answering on `listener` until it is closed."""

    def __init__(
        self, *, settings: CloudSettings, listener: socket.socket, make_sagemaker: MakeSageMaker = create_app
    ) -> None:
        moto_corrections.apply(account_id=settings.account_id)
        self._moto = _Moto(create_backend_app)
        self._server = _serve(listener, self)
        clients = Clients(endpoint_url=self.endpoint_url)
        self._metrics = Metrics(clients=clients)
        self._cloudformation = CloudFormationApp(clients=clients, region=settings.region, providers=PROVIDERS)
        surroundings = Surroundings(
            folder=settings.state_dir / "endpoints",
            region=settings.region,
            clients=clients,
            metrics=self._metrics,
            pace=settings.pace,
        )
        self._sagemaker = make_sagemaker(surroundings=surroundings, server_home=settings.server_home)
        self._own: Mapping[str, Application] = {
            "cloudformation": self._cloudformation,
            "sagemaker": self._sagemaker,
        }
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="cloud", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._server.port

    @property
    def endpoint_url(self) -> str:
        """Where clients reach it. The name matters: S3 clients put bucket names in front of it."""
        return f"http://localhost:{self.port}"

    def close(self) -> None:
        """Stop listening and end everything that was started."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._sagemaker.close()
        self._metrics.close()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Hand a request to the service it is meant for."""
        request = Request(environ, shallow=True)
        if request.path == INVENTORY_PATH:
            return self._inventory()(environ, start_response)
        credential = read_credential(
            headers=dict(request.headers.items()), query=request.query_string.decode()
        )
        service = credential.service if credential else ""
        if service in self._own:
            return self._own[service](environ, start_response)
        try:
            return self._moto(environ, start_response)  # type: ignore[no-any-return]
        except NotImplementedError as error:
            _log.warning("%s: %s", service, error)
            refusal = _not_implemented(request, f"{error} in the {service} of the embedded cloud")
            return refusal(environ, start_response)

    def _inventory(self) -> Response:
        held = [item.described() for item in inventory(self._cloudformation.stacks())]
        found = [*held, *self._sagemaker.inventory()]
        return Response(json.dumps(found, indent=1), content_type="application/json")


def _not_implemented(request: Request, message: str) -> Response:
    """Refuse what moto does not know, with a status that clients do not retry."""
    code = "UnknownOperationException"
    if "X-Amz-Target" in request.headers:
        body = json.dumps({"__type": code, "message": message})
        return Response(body, 400, content_type="application/x-amz-json-1.1")
    error = f"<Type>Sender</Type><Code>{code}</Code><Message>{escape(message)}</Message>"
    return Response(f"<ErrorResponse><Error>{error}</Error></ErrorResponse>", 400, content_type="text/xml")


class _Moto(DomainDispatcherApplication):
    """moto's services; one that it does not have is refused, where moto would break."""

    def get_backend_for_host(self, host: str | None) -> Any:
        backend = super().get_backend_for_host(host)
        if host is not None and backend is None:
            raise NotImplementedError(f"{host} has not been implemented")
        return backend


class _RequestHandler(MotoRequestHandler):
    """Logs requests to the cloud's log instead of standard error, without colours."""

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - werkzeug's own signature
        level = logging.ERROR if type == "error" else logging.DEBUG
        _log.log(level, message, *args)


def _serve(listener: socket.socket, cloud: Cloud) -> BaseWSGIServer:
    host, port = listener.getsockname()
    with listener:
        listener.listen(128)
        return make_server(
            host, port, cloud, threaded=True, request_handler=_RequestHandler, fd=listener.fileno()
        )
