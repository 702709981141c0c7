"""SageMaker's errors with AWS's codes, status, and messages."""

from __future__ import annotations

from tritonstack_local.service.errors import ServiceError, validation_exception


def not_found(kind: str, arn: str) -> ServiceError:
    """Return the error for a missing resource."""
    return validation_exception(f'Could not find {kind} "{arn}".')


def already_exists(kind: str, arn: str) -> ServiceError:
    """Return the error for a name in use."""
    return validation_exception(f'Cannot create already existing {kind} "{arn}".')


def not_supported(field: str, reason: str) -> ServiceError:
    """Return the error for an unsupported feature of SageMaker."""
    return validation_exception(f"The local cloud does not support {field}: {reason}.")


def invalid_invocation(message: str) -> ServiceError:
    """Return the runtime's error for an invalid request; its code differs from the control plane's."""
    return ServiceError("ValidationError", message)


def model_not_ready(target: str) -> ServiceError:
    """Return the error for a model that is still being loaded."""
    return ServiceError(
        "ModelNotReadyException",
        f"Model {target} is still being downloaded or loaded. Wait and try again.",
        status=429,
    )
