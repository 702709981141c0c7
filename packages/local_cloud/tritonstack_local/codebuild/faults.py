"""CodeBuild's errors with AWS's codes and messages, and failures of build phases."""

from __future__ import annotations

from tritonstack.base.errors import TritonstackError
from tritonstack_local.codebuild.records import Status
from tritonstack_local.service.faults import ServiceError


def invalid_input(message: str) -> ServiceError:
    """Return what is wrong with a request."""
    return ServiceError("InvalidInputException", message)


def not_built(what: str, reason: str) -> ServiceError:
    """Refuse what CodeBuild has and this cloud has not; better than to pretend."""
    return invalid_input(f"The embedded cloud does not support {what}: {reason}.")


def no_project(arn: str) -> ServiceError:
    """Say that there is no such project."""
    return ServiceError("ResourceNotFoundException", f"Project cannot be found: {arn}")


def no_build(build_id: str) -> ServiceError:
    """Say that there is no such build."""
    return ServiceError("ResourceNotFoundException", f"The provided build {build_id} does not exist")


def project_exists(arn: str) -> ServiceError:
    """Say that the name is taken."""
    return ServiceError("ResourceAlreadyExistsException", f"Project already exists: {arn}")


def too_many(limit: int) -> ServiceError:
    """Say that a project builds as many at once as it may."""
    return ServiceError(
        "AccountLimitExceededException", f"Cannot have more than {limit} active builds for the project"
    )


class PhaseFailedError(TritonstackError):
    """A phase of a build failed; code and message are its context."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class BuildEndedError(TritonstackError):
    """The build was ended from outside: stopped, or out of time."""

    def __init__(self, status: Status, code: str = "", message: str = "") -> None:
        super().__init__(message)
        self.status: Status = status
        self.code = code


class MachineGoneError(TritonstackError):
    """What runs the build's commands is no longer there."""
