"""CloudFormation's errors: AWS's codes with a plain reason."""

from __future__ import annotations

from collections.abc import Iterable


class CloudFormationError(Exception):
    """An error response with AWS's code."""

    def __init__(self, message: str, *, code: str = "ValidationError") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class TemplateError(CloudFormationError):
    """An invalid template. Lists all errors."""

    @classmethod
    def listing(cls, violations: Iterable[str]) -> TemplateError:
        """Return one error for all problems."""
        return cls("Template error: " + "; ".join(violations))
