"""Persist the changes of each request before it is answered."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from werkzeug.wrappers import Request, Response

from tritonstack_local.state.calls import ServiceCall, draft_of, read_call
from tritonstack_local.state.errors import NotKeptError
from tritonstack_local.state.folder import State
from tritonstack_local.state.idempotency import HEADER, IdempotencyLog, RecordedCall
from tritonstack_local.state.moto_backends import MotoBackends, touched_backends
from tritonstack_local.state.writer import StateWriter

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

Application = Callable[["WSGIEnvironment", "StartResponse"], Iterable[bytes]]

_SPARE = 16 * 2**20
"""Disk space reserved for deletions and for operations in progress, in bytes."""

_log = logging.getLogger(__name__)


class PersistenceMiddleware:
    """Passes requests to applications and persists their changes."""

    def __init__(self, state: State, writer: StateWriter) -> None:
        self._state = state
        self._writer = writer
        self._backends = MotoBackends()
        self.idempotency_log = IdempotencyLog()
        self._tell_backend = writer.track("moto", self._backends)
        self.idempotency_log.on_change = writer.track("receipts", self.idempotency_log)

    def drop_lost_objects(self) -> tuple[str, ...]:
        """Remove S3 objects without bodies; return a message that lists them."""
        found = self._backends.drop_lost_objects()
        for key in found:
            self._tell_backend(key)
        lost = [name for names in found.values() for name in names]
        return (f"lost objects without content: {', '.join(lost)}",) if lost else ()

    def answer(
        self, environ: WSGIEnvironment, *, service: str, application: Application, is_moto: bool
    ) -> Response:
        """Answer a request."""
        try:
            call = read_call(environ, service=service, bodies=self._state.bodies)
            self._check_room(call)
            answer = self._answered_before(environ, call) or self._answered(
                environ, call, application, is_moto
            )
            self._settle(call)
        except NotKeptError as error:
            return error_response(environ, "InsufficientStorage", str(error))
        except NotImplementedError as error:
            _log.warning("%s: %s", service, error)
            message = f"{error} in the {service} of the local cloud"
            return error_response(environ, "UnknownOperationException", message)
        finally:
            draft = draft_of(environ)
            if draft is not None:
                draft.discard()
        return answer

    def _check_room(self, call: ServiceCall) -> None:
        """Reject a request whose changes would not fit on the disk."""
        if (
            (call.changes or call.appends)
            and not call.deletes
            and self._state.room() < _SPARE + 2 * call.size
        ):
            raise NotKeptError(self._state.folder, "No space left on device")

    def _answered_before(self, environ: WSGIEnvironment, call: ServiceCall) -> Response | None:
        step = _step_of(environ)
        recorded = self.idempotency_log.from_before(step, call.name) if step and call.changes else None
        return None if recorded is None else Response(recorded.body, recorded.status, list(recorded.headers))

    def _answered(
        self, environ: WSGIEnvironment, call: ServiceCall, application: Application, is_moto: bool
    ) -> Response:
        with ExitStack() as stack:
            if is_moto:
                # Other applications take longer and call moto's services themselves.
                stack.enter_context(self._writer.gate.changing())
            stack.enter_context(self._writer.together())
            stack.enter_context(self._state.bodies.used())
            touched = stack.enter_context(touched_backends())
            stack.callback(self._note, call, touched)
            answer = Response.from_app(application, environ)
            if (
                is_moto
                and call.service != "s3"
                and answer.status_code >= 400
                and answer.mimetype == "text/html"
            ):
                raise NotImplementedError("A request of this form has not been implemented")
            step = _step_of(environ)
            if step and call.changes and answer.status_code < 400:
                headers = tuple(answer.headers.to_wsgi_list())
                self.idempotency_log.add(
                    step, RecordedCall(call.name, answer.status_code, headers, answer.get_data())
                )
            return answer

    def _note(self, call: ServiceCall, touched: Iterable[str]) -> None:
        for key in touched:
            if call.changes:
                self._tell_backend(key)
            elif not self._backends.is_known(key):
                # Resources that moto creates on first access, such as a default VPC, must keep their ids.
                self._tell_backend(key, slow=True)

    def _settle(self, call: ServiceCall) -> None:
        try:
            self._writer.settle()
        except NotKeptError:
            if call.changes:
                raise


def _step_of(environ: WSGIEnvironment) -> str | None:
    step: str | None = environ.get(f"HTTP_{HEADER.upper().replace('-', '_')}")
    return step


def error_response(environ: WSGIEnvironment, code: str, message: str) -> Response:
    """Return an error in the request's protocol, with a status that clients do not retry."""
    request = Request(environ, shallow=True)
    if "X-Amz-Target" in request.headers:
        body = json.dumps({"__type": code, "message": message})
        return Response(body, 400, content_type="application/x-amz-json-1.1")
    error = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
    if request.mimetype == "application/x-www-form-urlencoded":
        whole = f"<ErrorResponse><Error><Type>Sender</Type>{error}</Error></ErrorResponse>"
    else:
        whole = f"<Error>{error}</Error>"
    return Response(whole, 400, content_type="text/xml")
