"""CodeBuild's errors with AWS's codes and messages, and failures of build phases."""

from __future__ import annotations

from tritonstack_local.codebuild.records import Status
from tritonstack_local.service.errors import ReplyError, ServiceError


def invalid_input(message: str) -> ServiceError:
    """Return the error for an invalid request."""
    return ServiceError("InvalidInputException", message)


def not_supported(what: str) -> ServiceError:
    """Return the error for an unsupported feature of CodeBuild."""
    return invalid_input(f"The local cloud does not support {what}.")


def no_project(arn: str) -> ServiceError:
    """Return the error for a missing project."""
    return ServiceError("ResourceNotFoundException", f"Project cannot be found: {arn}")


def no_build(build_id: str) -> ServiceError:
    """Return the error for a missing build."""
    return ServiceError("ResourceNotFoundException", f"The provided build {build_id} does not exist")


def project_exists(arn: str) -> ServiceError:
    """Return the error for a name in use."""
    return ServiceError("ResourceAlreadyExistsException", f"Project already exists: {arn}")


def too_many(limit: int) -> ServiceError:
    """Return the error for a project at its build limit."""
    return ServiceError(
        "AccountLimitExceededException", f"Cannot have more than {limit} active builds for the project"
    )


class PhaseFailedError(ReplyError):
    """A phase of a build failed; code and message are its context."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class BuildEndedError(ReplyError):
    """The build was stopped or timed out."""

    def __init__(self, status: Status, code: str = "", message: str = "") -> None:
        super().__init__(message)
        self.status: Status = status
        self.code = code


class MachineGoneError(ReplyError):
    """The machine of the build has ended."""
