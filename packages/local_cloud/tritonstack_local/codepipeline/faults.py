"""CodePipeline's errors with AWS's codes and messages, and failures of actions."""

from __future__ import annotations

from tritonstack.base.errors import TritonstackError
from tritonstack_local.service.faults import ServiceError


def no_pipeline(name: str, account: str) -> ServiceError:
    """Say that there is no such pipeline."""
    return ServiceError(
        "PipelineNotFoundException",
        f"Account '{account}' does not have a pipeline with name '{name}'",
    )


def no_execution(execution_id: str) -> ServiceError:
    """Say that there is no such execution."""
    return ServiceError("PipelineExecutionNotFoundException", f"Pipeline execution {execution_id} not found")


def invalid(code: str, message: str) -> ServiceError:
    """Return what is wrong with a declaration or a request; the code names what it is about."""
    return ServiceError(f"Invalid{code}Exception", message)


def not_built(what: str, reason: str) -> ServiceError:
    """Refuse what CodePipeline has and this cloud has not; better than to pretend."""
    return ServiceError("InvalidStructureException", f"The embedded cloud does not support {what}: {reason}.")


class ActionFailedError(TritonstackError):
    """An action has failed; code and message are its error details."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class AbandonedError(TritonstackError):
    """The execution was stopped without waiting for the action."""


class CloudEndsError(TritonstackError):
    """This cloud is ending; the next one goes on with the action."""
