"""The WSGI application of SageMaker's control plane, and the parts of its runtime."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from werkzeug.wrappers import Request

from tritonstack_local.access.requests import RUNTIME_PREFIX
from tritonstack_local.sagemaker.dependencies import Dependencies
from tritonstack_local.sagemaker.endpoints import Endpoints
from tritonstack_local.sagemaker.hosting.hosting import Hosting
from tritonstack_local.sagemaker.hosting.status import publish_state_changes
from tritonstack_local.sagemaker.hosting.supply import InstanceSupply
from tritonstack_local.sagemaker.invocations import OPERATIONS, Invocations
from tritonstack_local.sagemaker.metrics import MachineMetrics, RequestMetrics
from tritonstack_local.sagemaker.records import SageMakerTables
from tritonstack_local.sagemaker.resources import TagActions, configs_of, models_of
from tritonstack_local.sagemaker.rules import invalid_invocation
from tritonstack_local.sagemaker.servers.server import StartServer, triton_starter
from tritonstack_local.scope import Scope
from tritonstack_local.service import wire
from tritonstack_local.service.event_loop import EventLoopThread
from tritonstack_local.service.tables import Table, Tables, inventory_of
from tritonstack_local.service.wire import Action, ControlPlane
from tritonstack_local.tagging import TaggedResource

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


SERVICE = "sagemaker"


class SageMakerApp:
    """Serves the control plane; the data plane calls `runtime`. Thread-safe; `close` ends every server."""

    def __init__(self, *, dependencies: Dependencies, start_server: StartServer) -> None:
        self._store = SageMakerTables()
        self._hosting = Hosting(
            store=self._store,
            supply=InstanceSupply(dependencies, start_server),
            dependencies=dependencies,
            announce=publish_state_changes(dependencies.clients, self._store.tags),
        )
        self._request_metrics = RequestMetrics(
            time_scale=dependencies.time_scale,
            concurrency=self._hosting.concurrency,
        )
        self._machine_metrics = MachineMetrics(
            time_scale=dependencies.time_scale,
            instances=lambda: self._hosting.live,
        )
        self.runtime = Invocations(
            hosting=self._hosting, metrics=self._request_metrics, events=EventLoopThread("data plane")
        )
        """Serves the requests that the data plane receives."""
        models = models_of(self._store)
        configs = configs_of(self._store, models)
        self.endpoints = Endpoints(
            store=self._store,
            models=models,
            configs=configs,
            hosting=self._hosting,
            clients=dependencies.clients,
        )
        """The endpoint actions, for Application Auto Scaling."""
        parts = {
            "Model": models,
            "EndpointConfig": configs,
            "Endpoint": self.endpoints,
            "Tags": TagActions(store=self._store),
        }
        actions: dict[str, Action] = {
            name: getattr(parts[kind], method) for name, (kind, method) in _ACTIONS.items()
        }
        self._control_plane = ControlPlane(service=SERVICE, actions={**_LISTS_OF_NOTHING, **actions})

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        request = Request(environ, shallow=True)
        if request.path.startswith(RUNTIME_PREFIX):
            rejection = invalid_invocation(
                f"The local cloud's SageMaker runtime offers {' and '.join(OPERATIONS)}, not {request.path}."
            )
            return wire.runtime_failure(rejection)(environ, start_response)
        return self._control_plane(environ, start_response)

    @property
    def tables(self) -> Tables:
        """Its persistent tables; restored before `resume` after a restart."""
        return vars(self._store)

    @property
    def endpoint_count(self) -> int:
        """The number of endpoints."""
        return len(self._store.endpoints.everywhere())

    def inventory(self) -> list[dict[str, str]]:
        """List all resources of all accounts and regions."""
        store = self._store
        tables: dict[str, Table[Any]] = {
            "model": store.models,
            "endpoint-config": store.configs,
            "endpoint": store.endpoints,
        }
        return inventory_of(SERVICE, tables)

    def tagged(self, scope: Scope) -> Iterator[TaggedResource]:
        """List the tagged resources of a scope."""
        prefix = scope.arn(SERVICE, "")
        for arn, tags in self._store.tags.everywhere().items():
            if arn.startswith(prefix):
                kind = arn.removeprefix(prefix).partition("/")[0]
                yield TaggedResource(arn, f"{SERVICE}:{kind}", tags)

    def resume(self) -> None:
        """Resume the endpoints of the restored tables."""
        self._hosting.resume()

    def close(self) -> None:
        """End every server; operations in progress fail."""
        self._machine_metrics.close()
        self._hosting.close()
        self.runtime.events.close()
        self._request_metrics.close()


def create_app(*, dependencies: Dependencies, server_home: Path) -> SageMakerApp:
    """Create the application with real Triton servers from `server_home`.

    Leftovers of an earlier cloud in the endpoints' folder are removed.
    """
    shutil.rmtree(dependencies.folder, ignore_errors=True)
    start_server = triton_starter(server_home=server_home)
    if dependencies.container_group is not None:
        # Imported here: only containers need the Docker library.
        from tritonstack_local.sagemaker.servers.containers import ContainerStarter  # noqa: PLC0415

        start_server = ContainerStarter(container_group=dependencies.container_group, otherwise=start_server)
    return SageMakerApp(dependencies=dependencies, start_server=start_server)


def _lists_nothing(member: str) -> Action:
    return lambda _scope, _request: {member: []}


_ACTIONS: Mapping[str, tuple[str, str]] = {
    "CreateModel": ("Model", "create"),
    "DescribeModel": ("Model", "describe"),
    "ListModels": ("Model", "list"),
    "DeleteModel": ("Model", "delete"),
    "CreateEndpointConfig": ("EndpointConfig", "create"),
    "DescribeEndpointConfig": ("EndpointConfig", "describe"),
    "ListEndpointConfigs": ("EndpointConfig", "list"),
    "DeleteEndpointConfig": ("EndpointConfig", "delete"),
    "CreateEndpoint": ("Endpoint", "create"),
    "DescribeEndpoint": ("Endpoint", "describe"),
    "ListEndpoints": ("Endpoint", "list"),
    "UpdateEndpoint": ("Endpoint", "update"),
    "UpdateEndpointWeightsAndCapacities": ("Endpoint", "update_weights_and_capacities"),
    "DeleteEndpoint": ("Endpoint", "delete"),
    "AddTags": ("Tags", "add"),
    "ListTags": ("Tags", "list"),
    "DeleteTags": ("Tags", "delete"),
}
_LISTS_OF_NOTHING: Mapping[str, Action] = {
    "ListInferenceComponents": _lists_nothing("InferenceComponents"),
    "ListModelPackageGroups": _lists_nothing("ModelPackageGroupSummaryList"),
    "ListMonitoringSchedules": _lists_nothing("MonitoringScheduleSummaries"),
    "ListNotebookInstances": _lists_nothing("NotebookInstances"),
    "ListProcessingJobs": _lists_nothing("ProcessingJobSummaries"),
    "ListTrainingJobs": _lists_nothing("TrainingJobSummaries"),
    "ListTransformJobs": _lists_nothing("TransformJobSummaries"),
}
"""List actions of resources that cannot be created here."""
OFFERED = (*_ACTIONS, *_LISTS_OF_NOTHING)
"""The actions of the control plane."""
