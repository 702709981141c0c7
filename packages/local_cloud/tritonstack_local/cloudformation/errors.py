"""CloudFormation's errors: AWS's codes with a plain reason."""

from __future__ import annotations

from collections.abc import Iterable


class CloudFormationError(Exception):
    """An answer other than success. `code` is the one that the real CloudFormation would use."""

    code = "ValidationError"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class TemplateError(CloudFormationError):
    """A template that cannot be deployed as it stands. Lists every fault found."""

    @classmethod
    def listing(cls, problems: Iterable[str]) -> TemplateError:
        """Return one error for all problems."""
        return cls("Template error: " + "; ".join(problems))


class AlreadyExistsError(CloudFormationError):
    """A stack or change set of that name exists."""

    code = "AlreadyExistsException"


class ChangeSetNotFoundError(CloudFormationError):
    """No such change set."""

    code = "ChangeSetNotFound"


class InvalidChangeSetStatusError(CloudFormationError):
    """The change set cannot be used in its present state."""

    code = "InvalidChangeSetStatus"


class InsufficientCapabilitiesError(CloudFormationError):
    """The template creates IAM resources and the caller did not acknowledge it."""

    code = "InsufficientCapabilitiesException"


class InvalidActionError(CloudFormationError):
    """An action that this CloudFormation does not have."""

    code = "InvalidAction"
