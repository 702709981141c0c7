"""Correct moto's EventBridge: deliver events to topics and CodeBuild projects.

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

from tritonstack.base.files import parse_json
from tritonstack_local.moto_patches.patching import correct
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.validation import check_passed_roles
from tritonstack_local.service.wire import service_model

log = logging.getLogger(__name__)


def deliver(clients: Clients, arn: str, message: str) -> str | None:
    """Deliver a message to a target; return the error, if any."""
    _, _, service, region, account, resource = arn.split(":", 5)
    try:
        TARGETS[service](clients.client(service, Scope(account, region)), arn, resource, message)
    except (ClientError, BotoCoreError) as error:
        log.warning("cannot deliver to %s: %s", arn, error)
        return str(error)
    return None


def _publish(sns: Any, arn: str, _: str, message: str) -> None:
    sns.publish(TopicArn=arn, Message=message)


def _build(codebuild: Any, _: str, resource: str, message: str) -> None:
    """Start a build; the message may override settings of the project."""
    try:
        given = parse_json(message)
    except ValueError:
        given = None
    known = service_model("codebuild").operation_model("StartBuild").input_shape.members
    asked = {name: value for name, value in given.items() if name in known} if isinstance(given, dict) else {}
    codebuild.start_build(**{**asked, "projectName": resource.removeprefix("project/")})


TARGETS: Mapping[str, Callable[[Any, str, str, str], None]] = {
    "codebuild": _build,
    "sns": _publish,
}
"""Delivery functions by the service in the target's ARN."""


Deliver = Callable[[str, str], None]
"""Delivers a message to the target with this ARN."""

DELIVERED_TO = (*TARGETS, "sqs", "logs", "events")
"""Services supported as targets."""

_send_to_targets = Rule.send_to_targets
_put_targets = EventsBackend.put_targets
_PLACEHOLDER = re.compile(r"<([^<>]+)>")


def apply(*, deliver: Deliver) -> None:
    """Correct moto; `deliver` serves the targets that moto does not."""

    def send_to_targets(rule: Any, original_event: Any, transform_input: bool = True) -> None:
        if rule.state != "ENABLED" or not rule.event_pattern.matches_event(original_event):
            return
        event = _told(original_event)
        for target in rule.targets:
            if _service(target) in TARGETS:
                deliver(target["Arn"], target_input(target, event))
        others = copy.copy(rule)
        others.targets = [target for target in rule.targets if _service(target) not in TARGETS]
        _send_to_targets(others, original_event, transform_input)

    correct((Rule, "send_to_targets", send_to_targets), (EventsBackend, "put_targets", _put_known_targets))


def _put_known_targets(
    backend: EventsBackend, name: str, event_bus_arn: str | None, targets: list[dict[str, Any]]
) -> None:
    for target in targets:
        check_passed_roles(backend.account_id, target)
        service = _service(target)
        if service not in DELIVERED_TO:
            raise ValidationException(
                f"The local cloud does not support targets of {service} in PutTargets; supported: topics, "
                "queues, log groups, buses, and CodeBuild projects."
            )
        ignored = sorted({"Input", "InputPath"} & target.keys())
        if ignored and service not in TARGETS:
            raise ValidationException(
                f"The local cloud does not support {ignored[0]} in PutTargets for targets of {service}, "
                "only for topics and projects."
            )
    _put_targets(backend, name, event_bus_arn, targets)


def target_input(target: Mapping[str, Any], event: Mapping[str, Any]) -> str:
    """Return the input of a target for an event."""
    if "Input" in target:
        return str(target["Input"])
    if "InputPath" in target:
        return json.dumps(_at(event, target["InputPath"]))
    transformer = target.get("InputTransformer")
    if transformer is None:
        return json.dumps(event)
    values = {name: _at(event, path) for name, path in transformer.get("InputPathsMap", {}).items()}

    def value(match: re.Match[str]) -> str:
        found = values.get(match[1], "")
        return found if isinstance(found, str) else json.dumps(found)

    return _PLACEHOLDER.sub(value, transformer["InputTemplate"])


def _at(event: Any, path: str) -> Any:
    """Return the value at a path such as $.detail.status; empty if missing."""
    found = event
    for name in path.removeprefix("$").strip(".").split("."):
        if name:
            found = found.get(name, "") if isinstance(found, Mapping) else ""
    return found


def _told(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event in AWS's format; moto's time is a number, and it adds another field."""
    shown = {name: value for name, value in event.items() if name != "ingestion-time"}
    if isinstance(shown["time"], int | float):
        shown["time"] = f"{datetime.fromtimestamp(shown['time'], UTC):%Y-%m-%dT%H:%M:%SZ}"
    return shown


def _service(target: Mapping[str, Any]) -> str:
    return str(target["Arn"].split(":")[2])
