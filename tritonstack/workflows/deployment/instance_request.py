"""What an instance of a template is asked for with, in the light of what stands under its name already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tritonstack.base.errors import UsageError
from tritonstack.spec.environments.expiry import moment_text, parse_lifetime, parse_moment, tag_text
from tritonstack.spec.environments.templates import Instance, Template


@dataclass(frozen=True)
class Wish:
    """What a person says of an instance."""

    name: str
    ttl: str | None = None
    owner: str | None = None
    settings: Mapping[str, str] | None = None


def parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """`key=value`, several times."""
    parsed = {}
    for setting in settings:
        key, found, value = setting.partition("=")
        if not found or not key:
            raise UsageError(f"--set {setting!r} sets nothing", remedy="write --set <parameter>=<value>")
        parsed[key] = value
    return parsed


def lease(
    template: Template, wish: Wish, *, standing: Instance | None, actor: str, now: datetime
) -> Instance:
    """The instance to deploy. What nobody says anew stays as it is deployed: owner, expiry, parameters."""
    if standing is not None and standing.template != template.name:
        raise UsageError(
            f"{wish.name!r} is an instance of {standing.template} already",
            remedy=f"choose another --name, or destroy it: `tritonstack destroy {standing.template} "
            f"--name {wish.name}`",
        )
    held = dict(standing.parameters) if standing else {}
    asked = held | template.parameters(wish.settings or {})
    defaults = template.head.parameters
    return Instance(
        template=template.name,
        name=wish.name,
        owner=tag_text(wish.owner or (standing.owner if standing else actor)) or "unknown",
        expires=_expires(template, wish, standing, now),
        # What is as the template has it follows the template when that changes.
        parameters={name: value for name, value in sorted(asked.items()) if defaults.get(name) != value},
    )


def _expires(template: Template, wish: Wish, standing: Instance | None, now: datetime) -> str:
    if wish.ttl is None and standing is not None:
        if parse_moment(standing.expires) <= now:
            raise UsageError(
                f"{wish.name!r} expired at {standing.expires}, and a clean-up may be taking it down",
                remedy="give it more time: add --ttl, for example --ttl 4h",
            )
        return standing.expires
    try:
        longest = parse_lifetime(template.head.longest)
        length = parse_lifetime(wish.ttl) if wish.ttl else longest
    except ValueError as error:
        text, _, remedy = str(error).partition("; ")
        raise UsageError(f"--ttl {text}", remedy=remedy) from None
    if length > longest:
        raise UsageError(
            f"--ttl {wish.ttl} is longer than instances of {template.name} may live",
            remedy=f"choose at most {template.head.longest}; deploying again with --ttl gives it that anew",
        )
    return moment_text((now + length).astimezone(UTC))
