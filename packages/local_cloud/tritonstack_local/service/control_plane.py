"""The WSGI application of a JSON 1.1 service: actions by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from werkzeug.wrappers import Request, Response

from tritonstack_local.identity.scope import Scope
from tritonstack_local.service import wire
from tritonstack_local.service.errors import ServiceError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

Fields = Mapping[str, Any]
Action = Callable[[Scope, Fields], Fields]


class ControlPlane:
    """Serves the actions of one service. Thread-safe."""

    def __init__(self, *, service: str, region: str, actions: Mapping[str, Action]) -> None:
        """`service` is its botocore name, `region` the default of callers without one."""
        self._service = service
        self._region = region
        self._actions = actions

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return self.answer(Request(environ))(environ, start_response)

    def answer(self, request: Request) -> Response:
        """Answer one request, including rejected ones."""
        try:
            call = wire.read_control_call(request, offered=self._actions, service=self._service)
            scope = wire.caller_place(request, default_region=self._region)
            result = self._actions[call.operation](scope, call.fields)
            return wire.control_answer(call.operation, result, service=self._service)
        except ServiceError as fault:
            return wire.control_fault(fault)
