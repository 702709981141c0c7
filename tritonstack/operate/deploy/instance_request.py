"""Combine a request for an instance of a template with the instance that is deployed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tritonstack.base.error_kinds import CommandLineError, UnusableNameError
from tritonstack.files.environment.expiry import (
    LifetimeError,
    moment_text,
    parse_lifetime,
    parse_moment,
    tag_text,
)
from tritonstack.files.environment.templates import Instance, Template


@dataclass(frozen=True)
class InstanceRequest:
    """The options for an instance of a template; None keeps the deployed value."""

    name: str
    ttl: str | None = None
    owner: str | None = None
    settings: Mapping[str, str] | None = None


def parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """Parse `key=value` options."""
    parsed = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key:
            raise CommandLineError(
                f"--set {setting!r} is incomplete", remedy="pass --set <parameter>=<value>"
            )
        parsed[key] = value
    return parsed


def plan_instance(
    template: Template, request: InstanceRequest, *, deployed: Instance | None, actor: str, now: datetime
) -> Instance:
    """Return the instance to deploy; owner, expiry, and parameters that are not requested stay."""
    if deployed is not None and deployed.template != template.name:
        raise UnusableNameError(
            f"{request.name!r} is already an instance of {deployed.template}",
            remedy=f"choose another --name, or run `tritonstack destroy {deployed.template} "
            f"--name {request.name}` first",
        )
    current = dict(deployed.parameters) if deployed else {}
    parameters = current | template.parameters(request.settings or {})
    defaults = template.head.parameters
    return Instance(
        template=template.name,
        name=request.name,
        owner=tag_text(request.owner or (deployed.owner if deployed else actor)) or "unknown",
        expires=_expires(template, request, deployed, now),
        # Values equal to the template's defaults follow the template when it changes.
        parameters={name: value for name, value in sorted(parameters.items()) if defaults.get(name) != value},
    )


def _expires(template: Template, request: InstanceRequest, deployed: Instance | None, now: datetime) -> str:
    if request.ttl is None and deployed is not None:
        if parse_moment(deployed.expires) <= now:
            raise LifetimeError(
                f"{request.name!r} expired at {deployed.expires} and may be being destroyed",
                remedy="extend it with --ttl, for example --ttl 4h",
            )
        return deployed.expires
    try:
        longest = parse_lifetime(template.head.longest)
        length = parse_lifetime(request.ttl) if request.ttl else longest
    except ValueError as error:
        text, _, remedy = str(error).partition("; ")
        raise CommandLineError(f"--ttl: {text}", remedy=remedy) from None
    if length > longest:
        raise LifetimeError(
            f"--ttl {request.ttl} exceeds the maximum for instances of {template.name}",
            remedy=f"choose at most {template.head.longest}; redeploy with --ttl to extend it later",
        )
    return moment_text((now + length).astimezone(UTC))
