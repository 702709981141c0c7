"""Error answers in AWS's format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tritonstack.base.errors import TritonstackError


def sentence(reason: str) -> str:
    """Return a reason as a sentence: with a capital letter and a final period."""
    return f"{reason[0].upper()}{reason[1:].removesuffix('.')}."


class ReplyError(TritonstackError):
    """A failure that an AWS service would report in a reply or a status, without a remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(message, remedy=None)


class ServiceError(ReplyError):
    """An error response, which SDKs raise as a ClientError with this code."""

    def __init__(
        self, code: str, message: str, *, status: int = 400, fields: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.fields = dict(fields or {})


def validation_exception(message: str) -> ServiceError:
    """Return the error that most services use for invalid requests."""
    return ServiceError("ValidationException", message)


def constraints_broken(violations: Iterable[str]) -> ServiceError:
    """Return one error that lists every violated constraint of the service model, as AWS does."""
    listed = list(violations)
    plural = "s" if len(listed) > 1 else ""
    return validation_exception(f"{len(listed)} validation error{plural} detected: {'; '.join(listed)}")
