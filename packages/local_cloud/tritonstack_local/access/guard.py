"""Answer a request only if it is signed and not sent by a web page."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable

from werkzeug.wrappers import Response

from tritonstack.base.foreign_pages import foreign_reason
from tritonstack_local.access.keys import AccessKey
from tritonstack_local.access.requests import DeniedError, Reason, SentRequest, check_length
from tritonstack_local.access.responses import denial_response
from tritonstack_local.access.verifier import BodyCheck, Verifier
from tritonstack_local.scope import Caller
from tritonstack_local.state.folder import NotKeptError

_LINE_ENDS = str.maketrans("\r\n", "  ")
_SHORT = 6
"""Digits of a length that every service accepts."""

log = logging.getLogger(__name__)


class Guard:
    """Admits signed requests and denies all others."""

    def __init__(self, *, find_key: Callable[[str], AccessKey | None], port: int) -> None:
        self._verifier = Verifier(find_key)
        self._port = port

    def judge(self, request: SentRequest) -> BodyCheck:
        """Verify everything but the body, before any of it is read; return the check of the body."""
        reason = foreign_reason(request.method, request.headers, port=self._port, subject="The local cloud")
        if reason is not None:
            raise DeniedError(Reason.FORBIDDEN, reason)
        check = self._verifier.begin(request)
        announced = request.headers.get("content-length")
        if announced is not None and len(announced[0]) > _SHORT and not check.is_final:
            check_length(request, check.service)
        return check

    def admit(self, check: BodyCheck, body: bytes) -> Caller:
        """Verify a judged request with its whole body; return the signer."""
        check.payload.update(body)
        check.payload.finish()
        return check.caller

    def denial(self, request: SentRequest, error: Exception) -> Response:
        """Return the service's own response to a request that raised an error."""
        match error:
            case DeniedError():
                log.warning("denied %s %s: %s", request.method, request.path[:200], error)
                denied = error
            case NotKeptError():
                denied = DeniedError(Reason.NO_SPACE, str(error))
            case NotImplementedError():
                log.warning("%s", error)
                denied = DeniedError(Reason.NOT_IMPLEMENTED, f"{error} in the local cloud")
            case _:
                denied = _failure(request, error)
        return denial_response(request, denied)


def _failure(request: SentRequest, error: Exception) -> DeniedError:
    """Log an error of the local cloud in one line, and return the answer to its request."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    description = f"{type(error).__name__} {error!s:.300}".translate(_LINE_ENDS)
    log.error("%s %s failed: %s (%s:%s)", request.method, request.path[:200], description, *place[:2])
    log.debug("%s", request.path, exc_info=error)
    return DeniedError(Reason.INTERNAL)
