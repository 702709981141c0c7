"""The errors that this SageMaker answers with, in the codes, status and words that AWS uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from catalog.errors import TritonstackError


def sentence(reason: str) -> str:
    """Make a sentence of a reason, which the tables of what is refused hold as half of one."""
    return f"{reason[0].upper()}{reason[1:]}."


class ServiceError(TritonstackError):
    """An error answer: what the SDK turns into a ClientError with this code."""

    def __init__(
        self, code: str, message: str, *, status: int = 400, fields: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.fields = dict(fields or {})


def validation_exception(message: str) -> ServiceError:
    """Build the control plane's answer to nearly everything that is wrong with a request."""
    return ServiceError("ValidationException", message)


def constraints_broken(violations: Iterable[str]) -> ServiceError:
    """Tell every broken constraint of the service model at once, as AWS does."""
    listed = list(violations)
    plural = "s" if len(listed) > 1 else ""
    return validation_exception(f"{len(listed)} validation error{plural} detected: {'; '.join(listed)}")


def not_found(kind: str, arn: str) -> ServiceError:
    """Say that a resource does not exist."""
    return validation_exception(f'Could not find {kind} "{arn}".')


def already_exists(kind: str, arn: str) -> ServiceError:
    """Say that a resource of that name exists."""
    return validation_exception(f'Cannot create already existing {kind} "{arn}".')


def not_built(field: str, reason: str) -> ServiceError:
    """Refuse what SageMaker has and this cloud has not; better than to pretend."""
    return validation_exception(f"The embedded cloud does not offer {field}: {reason}.")


def invocation_refused(message: str) -> ServiceError:
    """Build the runtime's answer to a request that no container should see; its code has another ending."""
    return ServiceError("ValidationError", message)


def model_not_ready(target: str) -> ServiceError:
    """Tell a caller of a multi-model endpoint to come again."""
    return ServiceError(
        "ModelNotReadyException",
        f"Model {target} is still being downloaded or loaded. Wait and try again.",
        status=429,
    )
