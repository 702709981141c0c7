"""Decide whether a request changes state."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from werkzeug.wrappers import Request

from tritonstack_local.state.bodies import BodyStore, StoredBytes

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_READING = re.compile(
    r"(Describe|Get|List|Head|BatchGet|Search|Lookup|Filter|Query|Scan|Simulate|Validate|Estimate|Test)[A-Z].*"
    r"|Query|Scan|Encrypt|Decrypt|GenerateDataKey.*|Sign|Verify|GET|HEAD|OPTIONS"
    # Data points are not persisted, and lines of logs are appended to files.
    r"|PutMetricData|PutLogEvents"
)
_CHANGING = {"GetSessionToken", "GetFederationToken"}
_DELETING = re.compile(r"(Delete|Remove|Terminate)[A-Z].*|DELETE")
_OBJECT_PARAMETERS = re.compile(r"x-id|partNumber|uploadId|X-Amz-.*", re.IGNORECASE)
_DRAFT = "tritonstack.draft"
_CBOR_PATH = re.compile(r"/service/[^/]+/operation/(?P<operation>\w+)")


@dataclass(frozen=True)
class ServiceCall:
    """The operation's name; the HTTP method for services whose requests name none."""

    service: str
    name: str
    size: int
    """Size of its body in memory, in bytes."""

    @property
    def changes(self) -> bool:
        """Whether it may change the service's state."""
        return self.name in _CHANGING or _READING.fullmatch(self.name) is None

    @property
    def deletes(self) -> bool:
        """Whether it frees disk space."""
        return _DELETING.fullmatch(self.name) is not None

    @property
    def appends(self) -> bool:
        """Whether it writes to files beside the state."""
        return self.name == "PutLogEvents"


def draft_of(environ: WSGIEnvironment) -> StoredBytes | None:
    """Return the file with the content of a large object being uploaded."""
    draft: StoredBytes | None = environ.get(_DRAFT)
    return draft


def read_call(environ: WSGIEnvironment, *, service: str, bodies: BodyStore) -> ServiceCall:
    """Read a whole request, so that handling it never waits for the client."""
    request = Request(environ, shallow=True)
    if service == "s3" and _is_object(request):
        body = bodies.receive(environ["wsgi.input"])
    else:
        body = Request(environ, shallow=False).get_data(cache=False)
    if isinstance(body, StoredBytes):
        environ[_DRAFT] = body
        environ["CONTENT_LENGTH"] = "0"
        body = b""
    environ["wsgi.input"] = io.BytesIO(body)
    return ServiceCall(service, _name(request, body), len(body))


def _is_object(request: Request) -> bool:
    """Return whether the body of an S3 request is an object or a part of one."""
    return request.method == "PUT" and all(map(_OBJECT_PARAMETERS.fullmatch, request.args))


def _name(request: Request, body: bytes) -> str:
    target = request.headers.get("X-Amz-Target")
    if target:
        return target.rpartition(".")[2]
    named = _CBOR_PATH.fullmatch(request.path)
    if named:
        return named["operation"]
    if request.mimetype == "application/x-www-form-urlencoded":
        return parse_qs(body.decode(errors="replace")).get("Action", [request.method])[0]
    if "delete" in request.args:
        return "DELETE"
    return request.args.get("Action", request.method)
