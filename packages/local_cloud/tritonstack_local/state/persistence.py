"""Pass requests to services; report changes to the state writer, and store large bodies in files."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from werkzeug.wrappers import Request, Response

from tritonstack_local.state.bodies import BODIES, StoredBytes
from tritonstack_local.state.folder import NotKeptError
from tritonstack_local.state.writer import State, StateWriter

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

Application = Callable[["WSGIEnvironment", "StartResponse"], Iterable[bytes]]

_SPARE = 16 * 2**20
"""Disk space reserved for deletions and snapshots, in bytes."""
_READING = re.compile(
    r"(Describe|Get|List|Head|BatchGet|Search|Lookup|Filter|Query|Scan|Simulate|Validate|Estimate|Test)[A-Z].*"
    r"|Query|Scan|Encrypt|Decrypt|GenerateDataKey.*|Sign|Verify|GET|HEAD|OPTIONS"
    # Data points are not persisted, and lines of logs are appended to files.
    r"|PutMetricData|PutLogEvents"
)
_DELETING = re.compile(r"(Delete|Remove|Terminate)[A-Z].*|DELETE")
_OBJECT_PARAMETERS = re.compile(r"x-id|partNumber|uploadId|X-Amz-.*", re.IGNORECASE)
_DRAFT = "tritonstack.draft"
_CBOR_PATH = re.compile(r"/service/[^/]+/operation/(?P<operation>\w+)")


class PersistenceMiddleware:
    """Passes requests to applications and has their changes saved."""

    def __init__(self, state: State, writer: StateWriter) -> None:
        self._state = state
        self._writer = writer

    def answer(
        self, environ: WSGIEnvironment, *, service: str, application: Application, is_moto: bool
    ) -> Response:
        """Answer a request; raise NotKeptError without disk space, and NotImplementedError of moto."""
        try:
            name, size = _read_call(environ, service=service)
            changes = _READING.fullmatch(name) is None
            takes_room = name == "PutLogEvents" or (changes and not _DELETING.fullmatch(name))
            if takes_room and shutil.disk_usage(self._state.folder).free < _SPARE + 2 * size:
                raise NotKeptError(self._state.folder, "No space left on device")
            # Other applications take longer and call moto's services themselves.
            with self._writer.changing() if is_moto else nullcontext():
                answer = Response.from_app(application, environ)
            if changes:
                self._writer.changed()
        finally:
            draft = draft_of(environ)
            if draft is not None:
                draft.discard()
        if is_moto and service != "s3" and answer.status_code >= 400 and answer.mimetype == "text/html":
            raise NotImplementedError(f"A request of this form has not been implemented in {service}")
        return answer


def draft_of(environ: WSGIEnvironment) -> StoredBytes | None:
    """Return the file with the content of a large object being uploaded."""
    draft: StoredBytes | None = environ.get(_DRAFT)
    return draft


def _read_call(environ: WSGIEnvironment, *, service: str) -> tuple[str, int]:
    """Read a whole request, so that handling it never waits for the client.

    Return the operation's name (the HTTP method for services whose requests name none), and the size of the
    body in memory, in bytes.
    """
    request, stream = Request(environ, shallow=True), environ["wsgi.input"]
    body = BODIES.receive(stream) if service == "s3" and _is_object(request) else stream.read()
    if isinstance(body, StoredBytes):
        environ[_DRAFT] = body
        environ["CONTENT_LENGTH"] = "0"
        body = b""
    environ["wsgi.input"] = io.BytesIO(body)
    return _name(request, body), len(body)


def _is_object(request: Request) -> bool:
    """Return whether the body of an S3 request is an object or a part of one."""
    return request.method == "PUT" and all(map(_OBJECT_PARAMETERS.fullmatch, request.args))


def _name(request: Request, body: bytes) -> str:
    target = request.headers.get("X-Amz-Target")
    if target:
        return target.rpartition(".")[2]
    operation = _CBOR_PATH.fullmatch(request.path)
    if operation:
        return operation["operation"]
    if request.mimetype == "application/x-www-form-urlencoded":
        return parse_qs(body.decode(errors="replace")).get("Action", [request.method])[0]
    if "delete" in request.args:
        return "DELETE"
    return request.args.get("Action", request.method)
