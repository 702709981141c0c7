"""The WSGI application: SageMaker's control plane and its runtime, as boto3 speaks to them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from werkzeug.wrappers import Request, Response

from local_cloud.clients import Clients
from local_cloud.cloudwatch.metrics import Metrics
from local_cloud.pace import USUAL_PACE, Pace
from local_cloud.places import Place
from local_cloud.sagemaker import wire
from local_cloud.sagemaker.alarms import ask_cloudwatch
from local_cloud.sagemaker.deployment import Launcher
from local_cloud.sagemaker.endpoints import Endpoints
from local_cloud.sagemaker.faults import ServiceError, invocation_refused
from local_cloud.sagemaker.hosting import Hosting
from local_cloud.sagemaker.invocations import Invocations
from local_cloud.sagemaker.load import MachineMetrics
from local_cloud.sagemaker.machine import Machine, this_machine
from local_cloud.sagemaker.measurements import RequestMetrics
from local_cloud.sagemaker.records import EndpointRecord, Store, StoredRecord
from local_cloud.sagemaker.resources import EndpointConfigs, Fields, Models, TagActions
from local_cloud.sagemaker.scaling import ask_autoscaling
from local_cloud.sagemaker.servers import StartServer, triton_starter
from local_cloud.tables import Table

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

Action = Callable[[Place, Fields], Fields]

_RUNTIME_PREFIX = "/endpoints/"
_INVOCATION = re.compile(r"/endpoints/(?P<endpoint>[^/]+)/invocations")


@dataclass(frozen=True)
class Surroundings:
    """What this SageMaker finds in the cloud that it is a part of."""

    folder: Path
    """Where the endpoints' instances live."""
    region: str
    """The region of callers who name none."""
    clients: Clients
    metrics: Metrics
    pace: Pace = USUAL_PACE
    machine: Machine = field(default_factory=this_machine)
    """What holds the instances."""


class SageMakerApp:
    """Answers both APIs. Threads may call it at once; `close` ends every server it has started."""

    def __init__(self, *, surroundings: Surroundings, start_server: StartServer) -> None:
        self._region = surroundings.region
        self._store = Store()
        launcher = Launcher(
            folder=surroundings.folder, clients=surroundings.clients, start_server=start_server
        )
        self._hosting = Hosting(
            store=self._store,
            launcher=launcher,
            machine=surroundings.machine,
            pace=surroundings.pace,
            read_alarms=ask_cloudwatch(surroundings.clients),
        )
        self._request_metrics = RequestMetrics(metrics=surroundings.metrics)
        self._machine_metrics = MachineMetrics(
            metrics=surroundings.metrics, pace=surroundings.pace, instances=lambda: self._hosting.live
        )
        self._invocations = Invocations(hosting=self._hosting, metrics=self._request_metrics)
        endpoints = Endpoints(
            store=self._store, hosting=self._hosting, is_scaled=ask_autoscaling(surroundings.clients)
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

    def resume(self) -> None:
        """Bring back the endpoints of the tables, once they hold what an earlier cloud has left."""
        self._hosting.resume()

    def close(self) -> None:
        """End every server; what is on its way fails."""
        self._machine_metrics.close()
        self._hosting.close()
        self._request_metrics.close()

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


def create_app(*, surroundings: Surroundings, server_home: Path) -> SageMakerApp:
    """Make the application that real Tritons from `server_home` stand behind.

    What an earlier cloud left in the endpoints' folder without ending properly is removed.
    """
    shutil.rmtree(surroundings.folder, ignore_errors=True)
    return SageMakerApp(surroundings=surroundings, start_server=triton_starter(server_home=server_home))


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
