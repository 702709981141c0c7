"""CloudFormation's errors: AWS's codes with a plain reason."""

from __future__ import annotations

from collections.abc import Iterable


class CloudFormationError(Exception):
    """An error response. `code` is the one that AWS uses."""

    code = "ValidationError"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class TemplateError(CloudFormationError):
    """An invalid template. Lists all errors."""

    @classmethod
    def listing(cls, violations: Iterable[str]) -> TemplateError:
        """Return one error for all problems."""
        return cls("Template error: " + "; ".join(violations))


class AlreadyExistsError(CloudFormationError):
    """A stack or change set with this name exists."""

    code = "AlreadyExistsException"


class ChangeSetNotFoundError(CloudFormationError):
    """The change set does not exist."""

    code = "ChangeSetNotFound"


class InvalidChangeSetStatusError(CloudFormationError):
    """The status of the change set does not allow the action."""

    code = "InvalidChangeSetStatus"


class InsufficientCapabilitiesError(CloudFormationError):
    """The template creates IAM resources without the required capability."""

    code = "InsufficientCapabilitiesException"


class InvalidActionError(CloudFormationError):
    """An action that is not implemented."""

    code = "InvalidAction"
