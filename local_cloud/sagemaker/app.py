"""The WSGI application: SageMaker's control plane and its runtime, as boto3 speaks to them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from werkzeug.wrappers import Request, Response

from local_cloud.sagemaker import wire
from local_cloud.sagemaker.deployment import Launcher, StartServer, triton_starter
from local_cloud.sagemaker.endpoints import Endpoints
from local_cloud.sagemaker.faults import ServiceError, invocation_refused
from local_cloud.sagemaker.hosting import Hosting
from local_cloud.sagemaker.invocations import Invocations
from local_cloud.sagemaker.records import EndpointRecord, Place, Store, StoredRecord, Table
from local_cloud.sagemaker.resources import EndpointConfigs, Fields, Models, TagActions
from local_cloud.sagemaker.scaling import ask_autoscaling

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

Action = Callable[[Place, Fields], Fields]

_RUNTIME_PREFIX = "/endpoints/"
_INVOCATION = re.compile(r"/endpoints/(?P<endpoint>[^/]+)/invocations")


class SageMakerApp:
    """Answers both APIs. Threads may call it at once; `close` ends every server it has started."""

    def __init__(self, *, folder: Path, region: str, endpoint_url: str, start_server: StartServer) -> None:
        self._region = region
        self._store = Store()
        launcher = Launcher(folder=folder, endpoint_url=endpoint_url, start_server=start_server)
        self._hosting = Hosting(store=self._store, launcher=launcher)
        self._invocations = Invocations(hosting=self._hosting)
        endpoints = Endpoints(
            store=self._store, hosting=self._hosting, is_scaled=ask_autoscaling(endpoint_url=endpoint_url)
        )
        self._actions = _actions(self._store, endpoints)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        request = Request(environ)
        runtime = request.path.startswith(_RUNTIME_PREFIX)
        try:
            answer = self._invoke(request) if runtime else self._control(request)
        except ServiceError as fault:
            answer = wire.runtime_fault(fault) if runtime else wire.control_fault(fault)
        return answer(environ, start_response)

    def inventory(self) -> list[dict[str, str]]:
        """List everything that exists, in every account and region."""
        tables: dict[str, Table[StoredRecord] | Table[EndpointRecord]] = {
            "model": self._store.models,
            "endpoint-config": self._store.configs,
            "endpoint": self._store.endpoints,
        }
        return [
            {
                "service": "sagemaker",
                "type": kind,
                "id": record.name,
                "account": place.account,
                "region": place.region,
            }
            for kind, table in tables.items()
            for place, record in table.everywhere()
        ]

    def close(self) -> None:
        """End every server; what is on its way fails."""
        self._hosting.close()

    def _control(self, request: Request) -> Response:
        call = wire.read_control_call(request, offered=self._actions)
        place = wire.caller_place(request, default_region=self._region)
        return wire.control_answer(call.operation, self._actions[call.operation](place, call.fields))

    def _invoke(self, request: Request) -> Response:
        match = _INVOCATION.fullmatch(request.path)
        if match is None or request.method != "POST":
            raise invocation_refused(
                f"The embedded cloud's SageMaker runtime offers InvokeEndpoint alone, not {request.path}."
            )
        place = wire.caller_place(request, default_region=self._region)
        return self._invocations.invoke(request, place=place, endpoint=match["endpoint"])


def create_app(*, state_dir: Path, server_home: Path, region: str, endpoint_url: str) -> SageMakerApp:
    """Make the application that real Tritons from `server_home` stand behind.

    `endpoint_url` is the embedded cloud's own address, from which artifacts are read and to which logs are
    written. What an earlier cloud left in `state_dir` without ending properly is removed.
    """
    folder = state_dir / "endpoints"
    shutil.rmtree(folder, ignore_errors=True)
    return SageMakerApp(
        folder=folder,
        region=region,
        endpoint_url=endpoint_url,
        start_server=triton_starter(server_home=server_home),
    )


def _actions(store: Store, endpoints: Endpoints) -> dict[str, Action]:
    models, configs, tags = Models(store=store), EndpointConfigs(store=store), TagActions(store=store)
    return {
        "CreateModel": models.create,
        "DescribeModel": models.describe,
        "ListModels": models.list,
        "DeleteModel": models.delete,
        "CreateEndpointConfig": configs.create,
        "DescribeEndpointConfig": configs.describe,
        "ListEndpointConfigs": configs.list,
        "DeleteEndpointConfig": configs.delete,
        "CreateEndpoint": endpoints.create,
        "DescribeEndpoint": endpoints.describe,
        "ListEndpoints": endpoints.list,
        "UpdateEndpoint": endpoints.update,
        "UpdateEndpointWeightsAndCapacities": endpoints.update_weights_and_capacities,
        "DeleteEndpoint": endpoints.delete,
        "AddTags": tags.add,
        "ListTags": tags.list,
        "DeleteTags": tags.delete,
    }
