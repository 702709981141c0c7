"""Roles that have only just been made: IAM tells the services of them within seconds, and not at once.

Until then a service refuses to start a job, in the words that it has for a role which trusts it not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from botocore.exceptions import ClientError

from tritonstack.operations.aws import error_code
from tritonstack.operations.clock import Clock

KNOWN_WITHIN_S = 60.0
"""A role that cannot be assumed by then is wrong, and not new."""
_PAUSE_S = 5.0
_REFUSALS = {
    "ValidationException": re.compile("could not assume role", re.IGNORECASE),
    "InvalidInputException": re.compile("not authorized to perform:? sts:AssumeRole", re.IGNORECASE),
}
"""SageMaker's words, and CodeBuild's, by their codes."""

Answer = TypeVar("Answer")


def once_role_is_known(call: Callable[[], Answer], clock: Clock) -> Answer:
    """What a call gives, made again while the service may not assume the role yet; raises the last one."""
    until = clock.now() + KNOWN_WITHIN_S
    while True:
        try:
            return call()
        except ClientError as error:
            if not _is_about_role(error) or clock.now() >= until:
                raise
        clock.sleep(_PAUSE_S)


def _is_about_role(error: ClientError) -> bool:
    words = _REFUSALS.get(error_code(error))
    return words is not None and words.search(str(error)) is not None
