"""Application Auto Scaling's errors with AWS's codes and messages."""

from __future__ import annotations

from tritonstack_local.autoscaling.records import NAMESPACE, TargetId
from tritonstack_local.service.errors import ServiceError, validation_exception


def no_target(target: TargetId) -> ServiceError:
    """Return the error for a resource that is not registered."""
    return _missing("scalable target", _place(target))


def no_policy(target: TargetId, policy: str) -> ServiceError:
    """Return the error for a missing policy."""
    return _missing("scaling policy", f"{_place(target)}, policy name: {policy}")


def no_action(target: TargetId, action: str) -> ServiceError:
    """Return the error for a missing scheduled action."""
    return _missing("scheduled action", f"{_place(target)}, scheduled action name: {action}")


def no_resource(arn: str) -> ServiceError:
    """Return the error for tags of an unknown target."""
    return ServiceError("ResourceNotFoundException", f"The specified resource doesn't exist: {arn}")


def not_supported(what: str, reason: str) -> ServiceError:
    """Return the error for an unsupported feature of Application Auto Scaling."""
    return validation_exception(f"The local cloud does not support {what}: {reason}.")


def _missing(kind: str, place: str) -> ServiceError:
    return ServiceError("ObjectNotFoundException", f"No {kind} found for {place}")


def _place(target: TargetId) -> str:
    return (
        f"service namespace: {NAMESPACE}, resource ID: {target.resource}, "
        f"scalable dimension: {target.dimension}"
    )
