"""CodePipeline's errors with AWS's codes and messages, and failures of actions."""

from __future__ import annotations

from tritonstack.base.errors import TritonstackError
from tritonstack_local.service.errors import ServiceError


def no_pipeline(name: str, account: str) -> ServiceError:
    """Return the error for a missing pipeline."""
    return ServiceError(
        "PipelineNotFoundException",
        f"Account '{account}' does not have a pipeline with name '{name}'",
    )


def no_execution(execution_id: str) -> ServiceError:
    """Return the error for a missing execution."""
    return ServiceError("PipelineExecutionNotFoundException", f"Pipeline execution {execution_id} not found")


def invalid(code: str, message: str) -> ServiceError:
    """Return the error for an invalid declaration or request; the code names its kind."""
    return ServiceError(f"Invalid{code}Exception", message)


def not_supported(what: str, reason: str) -> ServiceError:
    """Return the error for an unsupported feature of CodePipeline."""
    return ServiceError("InvalidStructureException", f"The local cloud does not support {what}: {reason}.")


class ActionFailedError(TritonstackError):
    """An action has failed; code and message are its error details."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class AbandonedError(TritonstackError):
    """The execution was stopped without waiting for the action."""


class CloudEndsError(TritonstackError):
    """The cloud is stopping; the next one resumes the action."""
