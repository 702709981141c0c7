"""Answer a request only if it is signed and not sent by a web page."""

from __future__ import annotations

import io
import logging
import tempfile
from collections.abc import Callable, Iterable, MutableMapping
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, unquote

from werkzeug.wrappers import Request, Response
from werkzeug.wsgi import get_input_stream

from tritonstack.base.web.foreign_pages import foreign_reason
from tritonstack_local.access.responses import denial_response
from tritonstack_local.signatures.keys import AccessKey
from tritonstack_local.signatures.payload import STREAMING, UNSIGNED, ChecksummedPayload, Payload
from tritonstack_local.signatures.requests import DeniedError, Reason, SentRequest
from tritonstack_local.signatures.verifier import BodyCheck, Verifier

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

Application = Callable[["WSGIEnvironment", "StartResponse"], Iterable[bytes]]
FindKey = Callable[[str], AccessKey | None]

SENT_REQUEST = "tritonstack.sent_request"
_CALLER = "tritonstack.caller"
_SHA256 = "HTTP_X_AMZ_CONTENT_SHA256"
_CHECKSUM = "x-amz-checksum-"
_UNSIGNED_ACTION = "AssumeRoleWithWebIdentity"
_BLOCK = 1 << 16
_IN_MEMORY = 1 << 20
_DRAINED = 16 << 20
_LARGEST_UNSIGNED_FORM = 1 << 16

log = logging.getLogger(__name__)


class Caller(NamedTuple):
    """The signer of a request, with service and region."""

    key_id: str
    account: str
    principal: str
    region: str
    service: str


def _caller(check: BodyCheck) -> Caller:
    key = check.key
    return Caller(key.key_id, key.account, key.principal, check.region, check.service)


def caller_of(environ: WSGIEnvironment) -> Caller:
    """Return the signer of a request that the guard admitted."""
    caller: Caller = environ[_CALLER]
    return caller


class Guard:
    """Passes signed requests to an application and denies all others."""

    def __init__(self, application: Application, *, find_key: FindKey, port: int) -> None:
        self._application = application
        self._verifier = Verifier(find_key)
        self._port = port

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request, or deny it."""
        request: SentRequest = environ[SENT_REQUEST]
        respond = _without_cors(start_response)
        environ["wsgi.input"] = get_input_stream(environ)
        environ["wsgi.input_terminated"] = True
        service = ""
        try:
            check_origin(request, port=self._port)
            caller = self._admit(environ, request)
            service = caller.service
            _set_caller(environ, caller)
            return self._application(environ, respond)
        except DeniedError as denied:
            log.warning("denied %s %s: %s", request.method, request.path[:200], denied)
            _drain(environ["wsgi.input"])
            answer = denial_response(environ, denied, service=service or _claimed_service(request))
            return answer(environ, respond)

    def admit_whole(self, request: SentRequest, body: bytes) -> tuple[Caller, bytes]:
        """Verify a request with its whole body; return the signer and the content."""
        check_origin(request, port=self._port)
        check = self._verifier.begin(request)
        content = check.payload.update(body)
        check.payload.finish()
        return _caller(check), content

    def denial(self, request: SentRequest, denied: DeniedError) -> Response:
        """Return the response to a request that `admit_whole` denied."""
        log.warning("denied %s %s: %s", request.method, request.path[:200], denied)
        environ = {
            "REQUEST_METHOD": request.method,
            "PATH_INFO": unquote(request.path, encoding="latin-1"),
            "QUERY_STRING": request.query,
            "CONTENT_TYPE": request.header("content-type") or "",
            **{
                f"HTTP_{name.upper().replace('-', '_')}": values[-1]
                for name, values in request.headers.items()
            },
        }
        return denial_response(environ, denied, service=_claimed_service(request))

    def _admit(self, environ: WSGIEnvironment, request: SentRequest) -> Caller:
        try:
            check = self._verifier.begin(request)
        except DeniedError as denied:
            if denied.reason is Reason.MISSING and _is_web_identity(environ, request):
                raise DeniedError(Reason.INVALID_IDENTITY_TOKEN) from None
            raise
        # CompleteMultipartUpload declares the checksum of an object that is not in its body.
        is_content = check.is_final and request.method == "PUT"
        payload = ChecksummedPayload(check.payload, request) if is_content else check.payload
        body = _CheckedStream(environ["wsgi.input"], payload, environ)
        if environ.get(_SHA256, "").startswith(STREAMING):
            # The application reads the decoded chunks.
            environ[_SHA256] = UNSIGNED
            environ["CONTENT_LENGTH"] = request.header("x-amz-decoded-content-length") or ""
        environ["wsgi.input"] = io.BufferedReader(body, _BLOCK) if check.is_final else _read_whole(body)
        return _caller(check)


class _CheckedStream(io.RawIOBase):
    """The content of a body, verified while it is read; a mismatch raises before the end.

    At the end, adds the checksums of the trailer to the headers in `environ`.
    """

    def __init__(self, stream: IO[bytes], payload: Payload, environ: MutableMapping[str, Any]) -> None:
        self._stream = stream
        self._payload = payload
        self._environ = environ
        self._ended = False

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next piece."""
        while not self._ended:
            sent = self._stream.read(min(len(buffer), _BLOCK))
            if not sent:
                self._end()
            elif content := self._payload.update(sent):
                buffer[: len(content)] = content
                return len(content)
        return 0

    def _end(self) -> None:
        self._ended = True
        self._payload.finish()
        for name, value in self._payload.trailer.items():
            if name.startswith(_CHECKSUM):
                self._environ.setdefault(f"HTTP_{name.upper().replace('-', '_')}", value)


def _read_whole(body: io.RawIOBase) -> IO[bytes]:
    """Read a whole body, so that its signature is verified before anything changes."""
    return _spool(io.BufferedReader(body, _BLOCK))


def _spool(stream: IO[bytes]) -> IO[bytes]:
    spool = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - open until the end of the request
    while block := stream.read(_BLOCK):
        spool.write(block)
    spool.seek(0)
    return spool


def _is_web_identity(environ: WSGIEnvironment, request: SentRequest) -> bool:
    """Return whether AWS accepts this request without a signature.

    AWS verifies its token with the identity provider's keys. The local cloud cannot fetch those, and
    responds as AWS does in that case.
    """
    if Request(environ, shallow=True).mimetype != "application/x-www-form-urlencoded" or request.query:
        return False
    body = environ["wsgi.input"].read(_LARGEST_UNSIGNED_FORM)
    return parse_qs(body.decode("latin-1")).get("Action") == [_UNSIGNED_ACTION]


def _set_caller(environ: WSGIEnvironment, caller: Caller) -> None:
    """Set the verified account for every service, whatever headers the client sent."""
    for name in [name for name in environ if name.startswith("HTTP_X_MOTO")]:
        del environ[name]
    environ["HTTP_X_MOTO_ACCOUNT_ID"] = caller.account
    environ[_CALLER] = caller


def _claimed_service(request: SentRequest) -> str:
    """Return the service in the credential of a denied request, which determines the error format."""
    header = request.header("authorization") or ""
    credential = header.partition("Credential=")[2].partition(",")[0]
    parts = (request.parameter("X-Amz-Credential") or credential).split("/")
    return parts[3].lower() if len(parts) == 5 else ""


def _without_cors(start_response: StartResponse) -> StartResponse:
    """Drop moto's CORS headers, which let any web page read responses."""

    def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
        kept = [pair for pair in headers if not pair[0].lower().startswith("access-control-")]
        return start_response(status, kept, *exc_info)

    return start


def _drain(stream: IO[bytes]) -> None:
    """Read the rest of the request: many clients send everything before they read the response."""
    left = _DRAINED
    try:
        while left > 0 and (block := stream.read(min(left, _BLOCK))):
            left -= len(block)
    except (DeniedError, OSError):
        return


def check_origin(request: SentRequest, *, port: int) -> None:
    """Deny requests of web pages from other origins, and requests for another host or port."""
    reason = foreign_reason(request.method, request.headers, port=port, subject="The local cloud")
    if reason is not None:
        raise DeniedError(Reason.FORBIDDEN, reason)
