"""The event stream of InvokeEndpointWithResponseStream."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.event_stream import event, exception

_EXPLANATIONS = {
    "ModelInvocationTimeExceeded": "The model did not finish its response within the time limit.",
    "StreamBroken": "The connection to the model was closed before the end of its response.",
}

log = logging.getLogger(__name__)


def model_stream_error(code: str) -> ServiceError:
    """Return the error of a model that fails while it responds."""
    status = 504 if code == "ModelInvocationTimeExceeded" else 500
    return ServiceError("ModelStreamError", _EXPLANATIONS[code], status=status, fields={"ErrorCode": code})


async def messages(parts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield a PayloadPart per part of the body, and the exception that ends it early."""
    async with aclosing(parts):
        try:
            async for part in parts:
                yield event("PayloadPart", part)
        except ServiceError as error:
            yield exception(error.code, {"Message": error.message, **error.fields})
        except Exception:
            log.exception("a response stream failed")
            yield exception("InternalStreamFailure", {"Message": "The stream failed in the local cloud."})
