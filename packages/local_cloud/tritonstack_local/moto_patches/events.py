"""Correct moto's EventBridge: deliver events to topics, with their input transformers, and start builds.

Also, moto sends events to disabled rules, ignores Input and InputPath, and fails on events for unknown
targets; such targets are rejected by PutTargets.
"""

from __future__ import annotations

import copy
import json
import logging
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from moto.events.exceptions import ValidationException
from moto.events.models import EventsBackend, Rule

from tritonstack_local.moto_patches import correct
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.wire import check_passed_roles

Deliver = Callable[[str, str], None]
"""Delivers a message to the topic or project with this ARN."""

_OWN = ("sns", "codebuild")
_TARGETS = (*_OWN, "sqs", "logs", "events")
_NOT_SUPPORTED = ("Input", "InputPath")
_send_to_targets = Rule.send_to_targets
_put_targets = EventsBackend.put_targets
_PLACEHOLDER = re.compile(r"<([^<>]+)>")

log = logging.getLogger(__name__)


def deliver(clients: Clients, arn: str, message: str) -> None:
    """Publish a message to a topic, or start a build of a project."""
    _, _, service, region, account, resource = arn.split(":", 5)
    client = clients.client(service, Scope(account, region))
    try:
        if service == "sns":
            client.publish(TopicArn=arn, Message=message)
        else:
            client.start_build(projectName=resource.removeprefix("project/"))
    except (ClientError, BotoCoreError) as error:
        log.warning("cannot deliver to %s: %s", arn, error)


def apply(*, deliver: Deliver) -> None:
    """Correct moto; `deliver` serves the targets that moto does not."""

    def send_to_targets(rule: Any, original_event: Any, transform_input: bool = True) -> None:
        if rule.state != "ENABLED" or not rule.event_pattern.matches_event(original_event):
            return
        event = _as_of_aws(original_event)
        for target in rule.targets:
            if _service(target) in _OWN:
                deliver(target["Arn"], target_input(target, event))
        others = copy.copy(rule)
        others.targets = [target for target in rule.targets if _service(target) not in _OWN]
        _send_to_targets(others, original_event, transform_input)

    correct((Rule, "send_to_targets", send_to_targets), (EventsBackend, "put_targets", _put_known_targets))


def _put_known_targets(
    backend: EventsBackend, name: str, event_bus_arn: str | None, targets: list[dict[str, Any]]
) -> None:
    for target in targets:
        check_passed_roles(backend.account_id, target)
        service = _service(target)
        unsupported = [field for field in _NOT_SUPPORTED if field in target]
        if service == "codebuild" and "InputTransformer" in target:
            unsupported.append("InputTransformer")  # its result would be ignored
        if service not in _TARGETS:
            unsupported.append(f"targets of {service}")
        if unsupported:
            raise ValidationException(
                f"The local cloud does not support {unsupported[-1]} in PutTargets; supported: topics, "
                "queues, log groups, buses, and CodeBuild projects; InputTransformer for topics."
            )
    _put_targets(backend, name, event_bus_arn, targets)


def target_input(target: Mapping[str, Any], event: Mapping[str, Any]) -> str:
    """Return the input of a target for an event."""
    transformer = target.get("InputTransformer")
    if transformer is None:
        return json.dumps(event)
    values = {name: _at(event, path) for name, path in transformer.get("InputPathsMap", {}).items()}

    def value(match: re.Match[str]) -> str:
        text = values.get(match[1], "")
        return text if isinstance(text, str) else json.dumps(text)

    return _PLACEHOLDER.sub(value, transformer["InputTemplate"])


def _at(event: Any, path: str) -> Any:
    """Return the value at a path such as $.detail.status; empty if missing."""
    value = event
    for name in path.removeprefix("$").strip(".").split("."):
        if name:
            value = value.get(name, "") if isinstance(value, Mapping) else ""
    return value


def _as_of_aws(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event in AWS's format; moto's time is a number, and it adds another field."""
    shown = {name: value for name, value in event.items() if name != "ingestion-time"}
    if isinstance(shown["time"], int | float):
        shown["time"] = f"{datetime.fromtimestamp(shown['time'], UTC):%Y-%m-%dT%H:%M:%SZ}"
    return shown


def _service(target: Mapping[str, Any]) -> str:
    return str(target["Arn"].split(":")[2])
