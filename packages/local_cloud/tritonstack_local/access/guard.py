"""Answer a request only if it is signed and not sent by a web page."""

from __future__ import annotations

import io
import logging
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from werkzeug.exceptions import ClientDisconnected
from werkzeug.wrappers import Response
from werkzeug.wsgi import get_input_stream

from tritonstack.base.web.foreign_pages import foreign_reason
from tritonstack_local.access.framing import MalformedBodyError
from tritonstack_local.access.keys import AccessKey
from tritonstack_local.access.requests import (
    DeniedError,
    Reason,
    SentRequest,
    check_length,
    largest_body,
    too_large,
)
from tritonstack_local.access.responses import denial_response
from tritonstack_local.access.verifier import BodyCheck, Payload, Verifier
from tritonstack_local.scope import CALLER, Caller
from tritonstack_local.state.folder import NotKeptError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

Application = Callable[["WSGIEnvironment", "StartResponse"], Iterable[bytes]]
FindKey = Callable[[str], AccessKey | None]

SENT_REQUEST = "tritonstack.sent_request"
BODY = "tritonstack.body"
"""The stream of the connection, with a `deadline`."""
_LINE_ENDS = str.maketrans("\r\n", "  ")
_BLOCK = 1 << 16
_IN_MEMORY = 1 << 20
_SHORT = 6
"""Digits of a length that every service accepts."""
_DRAINED = 16 << 20
_BODY_S = 60.0
"""Longest time for a body whose signature is not yet verified, and for the rest of a denied request."""

log = logging.getLogger(__name__)


def _caller(check: BodyCheck) -> Caller:
    key = check.key
    return Caller(key.key_id, key.account, key.principal, check.region, check.service)


class Guard:
    """Passes signed requests to an application and denies all others."""

    def __init__(self, application: Application, *, find_key: FindKey, port: int) -> None:
        self._application = application
        self._verifier = Verifier(find_key)
        self._port = port

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request, or deny it. Any exception becomes the service's own error."""
        request: SentRequest = environ[SENT_REQUEST]
        respond = _without_cors(start_response)
        try:
            environ["wsgi.input"] = get_input_stream(environ)
            environ["wsgi.input_terminated"] = True
            caller = self._admit(environ, request)
            _set_caller(environ, caller)
            return self._application(environ, respond)
        except DeniedError as error:
            _log_denial(request, error)
            denied = error
        except NotKeptError as error:
            denied = DeniedError(Reason.NO_SPACE, str(error))
        except NotImplementedError as error:
            log.warning("%s", error)
            denied = DeniedError(Reason.NOT_IMPLEMENTED, f"{error} in the local cloud")
        except MalformedBodyError:
            raise
        except _ClientGoneError as gone:
            raise ConnectionAbortedError from gone  # the server ends the connection without a word
        except Exception as error:
            denied = failure(request, error)
        _limit_time(environ)
        _drain(environ["wsgi.input"])
        return denial_response(request, denied)(environ, respond)

    def judge(self, request: SentRequest) -> BodyCheck:
        """Verify everything but the body, before any of it is read; return the check of the body."""
        check_origin(request, port=self._port)
        check = self._verifier.begin(request)
        announced = request.headers.get("content-length")
        if announced is not None and len(announced[0]) > _SHORT and not check.is_final:
            check_length(request, check.service)
        return check

    def admit_whole(self, check: BodyCheck, body: bytes) -> Caller:
        """Verify a judged request with its whole body; return the signer."""
        check.payload.update(body)
        check.payload.finish()
        return _caller(check)

    def denial(self, request: SentRequest, error: Exception) -> Response:
        """Return the response to a request that raised an error here."""
        if isinstance(error, DeniedError):
            _log_denial(request, error)
            denied = error
        else:
            denied = failure(request, error)
        return denial_response(request, denied)

    def _admit(self, environ: WSGIEnvironment, request: SentRequest) -> Caller:
        check = self.judge(request)
        # CompleteMultipartUpload declares the checksum of an object that is not in its body.
        is_content = check.is_final and request.method == "PUT"
        payload = check.payload.and_checksums(request) if is_content else check.payload
        body = io.BufferedReader(_CheckedStream(environ["wsgi.input"], payload), _BLOCK)
        if check.is_final:
            environ["wsgi.input"] = body
            return _caller(check)
        _limit_time(environ)
        # Other services than S3 get a verified body, so that nothing changes before.
        environ["wsgi.input"] = _spool(body, request, check.service)
        return _caller(check)


def _log_denial(request: SentRequest, denied: DeniedError) -> None:
    log.warning("denied %s %s: %s", request.method, request.path[:200], denied)


def failure(request: SentRequest, error: Exception) -> DeniedError:
    """Log an error of the local cloud in one line, and return the answer to its request."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    description = f"{type(error).__name__} {error!s:.300}".translate(_LINE_ENDS)
    log.error("%s %s failed: %s (%s:%s)", request.method, request.path[:200], description, *place[:2])
    log.debug("%s", request.path, exc_info=error)
    return DeniedError(Reason.INTERNAL)


class _ClientGoneError(Exception):
    """The client ended the connection, or sent nothing for too long."""


class _CheckedStream(io.RawIOBase):
    """The content of a body, verified while it is read; a mismatch raises before the end."""

    def __init__(self, stream: IO[bytes], payload: Payload) -> None:
        self._stream = stream
        self._payload = payload
        self._ended = False

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next piece."""
        if self._ended:
            return 0
        try:
            sent = self._stream.read(min(len(buffer), _BLOCK))
        except ClientDisconnected:
            raise DeniedError(Reason.INCOMPLETE_BODY) from None
        except OSError as error:
            raise _ClientGoneError from error
        if not sent:
            self._ended = True
            self._payload.finish()
        self._payload.update(sent)
        buffer[: len(sent)] = sent
        return len(sent)


def _spool(stream: IO[bytes], request: SentRequest, service: str) -> IO[bytes]:
    """Read a whole body within the service's limit."""
    spool = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - open until the end of the request
    limit = largest_body(request, service)
    while block := stream.read(_BLOCK):
        if spool.tell() + len(block) > limit:
            raise too_large(request, limit)
        spool.write(block)
    spool.seek(0)
    return spool


def _set_caller(environ: WSGIEnvironment, caller: Caller) -> None:
    """Set the verified account for every service, whatever headers the client sent."""
    for name in [name for name in environ if name.startswith("HTTP_X_MOTO")]:
        del environ[name]
    environ["HTTP_X_MOTO_ACCOUNT_ID"] = caller.account
    environ[CALLER] = caller


def _without_cors(start_response: StartResponse) -> StartResponse:
    """Drop moto's CORS headers, which let any web page read responses."""

    def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
        kept = [pair for pair in headers if not pair[0].lower().startswith("access-control-")]
        return start_response(status, kept, *exc_info)

    return start


def _limit_time(environ: WSGIEnvironment) -> None:
    if BODY in environ:
        environ[BODY].deadline = time.monotonic() + _BODY_S


def _drain(stream: IO[bytes]) -> None:
    """Read the rest of the request: many clients send everything before they read the response."""
    budget = _DRAINED
    with suppress(Exception):  # whatever is wrong with it, the answer is known
        while budget > 0 and (block := stream.read(min(budget, _BLOCK))):
            budget -= len(block)


def check_origin(request: SentRequest, *, port: int) -> None:
    """Deny requests of web pages from other origins, and requests for another host or port."""
    reason = foreign_reason(request.method, request.headers, port=port, subject="The local cloud")
    if reason is not None:
        raise DeniedError(Reason.FORBIDDEN, reason)
