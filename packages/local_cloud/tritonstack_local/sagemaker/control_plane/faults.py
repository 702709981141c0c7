"""SageMaker's errors with AWS's codes, status, and messages."""

from __future__ import annotations

from tritonstack_local.service.faults import ServiceError, validation_exception


def not_found(kind: str, arn: str) -> ServiceError:
    """Say that a resource does not exist."""
    return validation_exception(f'Could not find {kind} "{arn}".')


def already_exists(kind: str, arn: str) -> ServiceError:
    """Say that a resource of that name exists."""
    return validation_exception(f'Cannot create already existing {kind} "{arn}".')


def not_built(field: str, reason: str) -> ServiceError:
    """Refuse what SageMaker has and this cloud has not; better than to pretend."""
    return validation_exception(f"The embedded cloud does not support {field}: {reason}.")


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
