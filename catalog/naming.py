"""Names that an environment gives to what it deploys.

Stacks, operations and people find each other's resources through these functions, never through
CloudFormation exports: a name follows from the environment's file alone.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

NAME_PATTERN = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
ENDPOINT_NAME_LIMIT = 63
BUCKET_NAME_LIMIT = 63


def check_name(text: str) -> str:
    """Names become folders, TargetModels and parts of ARNs: keep to what all of those accept."""
    if not NAME_PATTERN.fullmatch(text) or len(text) > 40 or "--" in text:
        raise ValueError(
            f"{text!r} is not a name; use up to 40 lower-case letters, digits and single hyphens, "
            "beginning with a letter"
        )
    return text


Name = Annotated[str, AfterValidator(check_name)]


def environment_prefix(*, prefix: str, environment: str) -> str:
    """What every name in an environment begins with."""
    return f"{prefix}-{environment}"


def foundation_stack_name(base: str) -> str:
    """The stack that holds what all endpoints of an environment share."""
    return f"{base}-foundation"


def endpoint_stack_name(base: str, endpoint: str) -> str:
    """The stack of one endpoint."""
    return f"{base}-endpoint-{endpoint}"


def endpoint_name(base: str, endpoint: str) -> str:
    """The name callers of InvokeEndpoint use."""
    return f"{base}-{endpoint}"


def artifact_bucket_name(base: str, *, account: str, region: str) -> str:
    """Where artifacts lie; bucket names are global, so account and region are part of it."""
    return f"{base}-artifacts-{account}-{region}"


def log_bucket_name(base: str, *, account: str, region: str) -> str:
    """Where the artifact bucket's access log goes."""
    return f"{base}-logs-{account}-{region}"


def key_alias(base: str) -> str:
    """The alias of the environment's KMS key."""
    return f"alias/{base}"


def alarm_topic_name(base: str) -> str:
    """The topic that alarms go to."""
    return f"{base}-alarms"


def image_repository_name(base: str, image: str) -> str:
    """The ECR repository of one of the images in containers/."""
    return f"{base}/{image}"


def endpoint_log_group(endpoint: str) -> str:
    """Where SageMaker writes the log of an endpoint's containers; the name is SageMaker's own."""
    return f"/aws/sagemaker/Endpoints/{endpoint}"


def artifact_prefix(model: str, digest: str) -> str:
    """Where an artifact lies in a bucket or in the local store, without a slash at its end."""
    return f"models/{model}/{digest}"
