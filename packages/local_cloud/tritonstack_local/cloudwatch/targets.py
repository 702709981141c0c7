"""What a rule's target does with what it gets: a topic publishes it, a project builds, a pipeline runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack_local.clients import Clients
from tritonstack_local.places import Place
from tritonstack_local.service.wire import service_model

log = logging.getLogger(__name__)


def deliver(clients: Clients, arn: str, message: str) -> str | None:
    """Hand a message to a target; returns why that did not succeed."""
    _, _, service, region, account, resource = arn.split(":", 5)
    try:
        TARGETS[service](clients.client(service, Place(account, region)), arn, resource, message)
    except (ClientError, BotoCoreError) as fault:
        log.warning("nothing is delivered to %s: %s", arn, fault)
        return str(fault)
    return None


def _publish(sns: Any, arn: str, _: str, message: str) -> None:
    sns.publish(TopicArn=arn, Message=message)


def _build(codebuild: Any, _: str, resource: str, message: str) -> None:
    """Start a build; the message may say what is to be otherwise than the project has it."""
    given = json.loads(message)
    known = service_model("codebuild").operation_model("StartBuild").input_shape.members
    asked = {name: value for name, value in given.items() if name in known} if isinstance(given, dict) else {}
    codebuild.start_build(**{**asked, "projectName": resource.removeprefix("project/")})


def _run(codepipeline: Any, _: str, resource: str, __: str) -> None:
    codepipeline.start_pipeline_execution(name=resource)


TARGETS: Mapping[str, Callable[[Any, str, str, str], None]] = {
    "codebuild": _build,
    "codepipeline": _run,
    "sns": _publish,
}
"""By the service in their ARN."""
