"""Retry calls with new IAM roles, which take seconds to propagate.

Until then, services reject the role with the same error as a role that does not trust them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code
from tritonstack.operate.shared.aws import Clock

KNOWN_WITHIN_S = 60.0
"""After this time, the role is wrong, not new."""
_PAUSE_S = 5.0
_REJECTIONS = {
    "ValidationException": re.compile("could not assume role", re.IGNORECASE),
    "InvalidInputException": re.compile("not authorized to perform:? sts:AssumeRole", re.IGNORECASE),
}
"""Error messages of SageMaker and CodeBuild, by error code."""

Answer = TypeVar("Answer")


def once_role_is_known(call: Callable[[], Answer], clock: Clock) -> Answer:
    """Return a call's result; retry while the service cannot assume the role yet."""
    until = clock.now() + KNOWN_WITHIN_S
    while True:
        try:
            return call()
        except ClientError as error:
            if not _is_about_role(error) or clock.now() >= until:
                raise
        clock.sleep(_PAUSE_S)


def _is_about_role(error: ClientError) -> bool:
    patterns = _REJECTIONS.get(aws_error_code(error))
    return patterns is not None and patterns.search(str(error)) is not None
