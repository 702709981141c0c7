"""The WSGI application of CodePipeline's API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tritonstack_local.codepipeline.actions.work import StartBuild
from tritonstack_local.codepipeline.execution_queue import ExecutionQueue
from tritonstack_local.codepipeline.executions import Executions
from tritonstack_local.codepipeline.pipelines import Pipelines
from tritonstack_local.codepipeline.records import CodePipelineTables
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.tables import Tables
from tritonstack_local.service.wire import Action, ControlPlane, Fields
from tritonstack_local.tagging.resources import TaggedResource

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

SERVICE = "codepipeline"


class CodePipelineApp:
    """Serves the API. Thread-safe; `close` leaves running executions to the next cloud."""

    def __init__(self, *, region: str, clients: Clients, start_build: StartBuild) -> None:
        """`region` is the default of callers without one."""
        self._store = CodePipelineTables()
        self._queue = ExecutionQueue(store=self._store, clients=clients, start_build=start_build)
        executions = Executions(store=self._store, clients=clients, queue=self._queue)
        self._control_plane = ControlPlane(service=SERVICE, region=region, actions=_actions(executions))

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return self._control_plane(environ, start_response)

    @property
    def tables(self) -> Tables:
        """Its persistent tables; restored before `resume` after a restart."""
        store = self._store
        return {"pipelines": store.pipelines, "executions": store.executions, "tags": store.tags}

    def inventory(self) -> list[dict[str, str]]:
        """List the pipelines of all accounts and regions. Executions are not resources."""
        return [
            {
                "service": SERVICE,
                "type": "pipeline",
                "id": record.name,
                "account": scope.account,
                "region": scope.region,
            }
            for scope, record in self._store.pipelines.everywhere()
        ]

    def tagged(self, scope: Scope) -> Iterator[TaggedResource]:
        """List the pipelines of a scope with their tags."""
        for record in self._store.pipelines.within(scope):
            tags = {tag["Key"]: tag["Value"] for tag in self._store.tags.of(record.arn)}
            yield TaggedResource(record.arn, "codepipeline:pipeline", tags)

    def resume(self) -> None:
        """Resume the executions of an earlier cloud."""
        self._queue.resume()

    def close(self) -> None:
        """Release all executions."""
        self._queue.close()


_OF_PIPELINES: Mapping[str, Callable[[Pipelines, Scope, Fields], Fields]] = {
    "CreatePipeline": Pipelines.create,
    "GetPipeline": Pipelines.get,
    "UpdatePipeline": Pipelines.update,
    "DeletePipeline": Pipelines.delete,
    "ListPipelines": Pipelines.list,
    "TagResource": Pipelines.tag,
    "UntagResource": Pipelines.untag,
    "ListTagsForResource": Pipelines.tags,
}
_OF_EXECUTIONS: Mapping[str, Callable[[Executions, Scope, Fields], Fields]] = {
    "StartPipelineExecution": Executions.start,
    "StopPipelineExecution": Executions.stop,
    "RetryStageExecution": Executions.retry,
    "PutApprovalResult": Executions.approve,
    "GetPipelineExecution": Executions.get,
    "ListPipelineExecutions": Executions.list_all,
    "ListActionExecutions": Executions.list_actions,
    "GetPipelineState": Executions.state,
}
OFFERED = frozenset({*_OF_PIPELINES, *_OF_EXECUTIONS})


def _actions(executions: Executions) -> dict[str, Action]:
    return {
        **{name: partial(action, executions.pipelines) for name, action in _OF_PIPELINES.items()},
        **{name: partial(action, executions) for name, action in _OF_EXECUTIONS.items()},
    }
