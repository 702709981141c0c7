"""Serve the CloudFormation API: AWS's query protocol, parsed and written with botocore's service model."""

from __future__ import annotations

import logging
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.validate import ParamValidator
from moto.core.model import OperationModel
from moto.core.parse import QueryParser
from moto.core.serialize import QuerySerializer, SerializationContext
from moto.core.utils import get_service_model
from werkzeug.wrappers import Request, Response

from tritonstack_local.cloudformation import change_sets, stack_actions
from tritonstack_local.cloudformation.changes import Providers
from tritonstack_local.cloudformation.engine import Engine
from tritonstack_local.cloudformation.errors import CloudFormationError
from tritonstack_local.cloudformation.operations import Changing
from tritonstack_local.cloudformation.records import Stack, StackStore
from tritonstack_local.cloudformation.stack_actions import ONLY_DEFAULT, Action, ActionContext
from tritonstack_local.scope import Scope, caller_of
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.wire import check_passed_roles
from tritonstack_local.tagging import TaggedResource

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_log = logging.getLogger(__name__)

# moto warns about AWS error codes that are missing from the service's model.
warnings.filterwarnings("ignore", message=".* does not match an error shape", category=UserWarning)
ACTIONS: Mapping[str, Action] = {**stack_actions.ACTIONS, **change_sets.ACTIONS}


class CloudFormationApp:
    """A WSGI application that is CloudFormation."""

    def __init__(self, *, clients: Clients, providers: Providers, changing: Changing) -> None:
        self.store = StackStore()
        self._engine = Engine(providers, clients, self.store, changing)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return self.answer(Request(environ))(environ, start_response)

    def stacks(self) -> Iterable[Stack]:
        """Yield every stack that is not deleted."""
        return self.store.living()

    def tagged(self, scope: Scope) -> Iterator[TaggedResource]:
        """List the stacks of a scope with their tags."""
        for stack in self.store.living(scope):
            yield TaggedResource(stack.identity.stack_id, "cloudformation:stack", stack.settings.tags)

    def resume(self) -> None:
        """End the deployments that the end of a cloud interrupted."""
        self._engine.resume()

    def answer(self, request: Request) -> Response:
        """Answer one request."""
        model = get_service_model("cloudformation")
        name = request.values.get("Action", "")
        try:
            if name not in ACTIONS:
                known = ", ".join(sorted(ACTIONS))
                message = f"Action {name!r} is not implemented in the local cloud; implemented are: {known}"
                raise CloudFormationError(message, code="InvalidAction")
            operation = model.operation_model(name)
            result: Any = self._run(request, operation)
        except CloudFormationError as error:
            _log.info("%s rejected: %s", name, error.message)
            operation, result = OperationModel({}, model), error
        serializer = QuerySerializer(operation, SerializationContext(str(uuid.uuid4())))
        written = serializer.serialize(result)
        return Response(written["body"], written["status_code"], headers=written["headers"])

    def _run(self, request: Request, operation: OperationModel) -> dict[str, Any]:
        action = ACTIONS[operation.name]
        params = QueryParser(operation).parse({"values": request.values})  # type: ignore[typeddict-item]
        _check_params(action, operation, params)
        scope = caller_of(request.environ).scope
        check_passed_roles(scope.account, params)
        _log.info("%s %s", operation.name, params.get("StackName", ""))
        return action.run(ActionContext(self._engine, scope), params)


def _check_params(action: Action, operation: OperationModel, params: dict[str, Any]) -> None:
    if operation.input_shape is not None:
        report = ParamValidator().validate(params, operation.input_shape)
        if report.has_errors():
            raise CloudFormationError(report.generate_report())
    unknown = sorted(params.keys() - action.parameters - ONLY_DEFAULT.keys())
    unknown += [name for name, usual in ONLY_DEFAULT.items() if params.get(name, usual) not in (usual, None)]
    if unknown:
        raise CloudFormationError(
            f"{operation.name}: parameters {', '.join(unknown)} are not implemented in the local cloud"
        )
