"""What the embedded cloud's CloudFormation can deploy, told from the providers themselves."""

from __future__ import annotations

from dataclasses import dataclass

from local_cloud.cloudformation.actions import ACTIONS
from local_cloud.cloudformation.providers import PROVIDERS
from local_cloud.cloudformation.providers.refused import REFUSED_TYPES


@dataclass(frozen=True)
class TypeCapability:
    """One CloudFormation type: what is acted on, what is taken without effect, what `Fn::GetAtt` answers."""

    type: str
    acted_on: tuple[str, ...]
    without_effect: tuple[str, ...]
    attributes: tuple[str, ...]


def capabilities() -> tuple[TypeCapability, ...]:
    """Return every type, in the order of the alphabet."""
    return tuple(
        TypeCapability(
            type=name,
            acted_on=tuple(sorted(key for key, known in provider.properties.items() if known.effect)),
            without_effect=tuple(
                sorted(key for key, known in provider.properties.items() if not known.effect)
            ),
            attributes=tuple(sorted(provider.attribute_names)),
        )
        for name, provider in sorted(PROVIDERS.items())
    )


def actions() -> tuple[str, ...]:
    """Return the actions of the CloudFormation API that are implemented."""
    return tuple(sorted(ACTIONS))


def refused_types() -> dict[str, str]:
    """Return the types that are known and refused, with the reason."""
    return dict(REFUSED_TYPES)


def capability_table() -> str:
    """Return the types as a Markdown table."""
    rows = [
        f"| {item.type} | {', '.join(item.acted_on) or '–'} | {', '.join(item.without_effect) or '–'} |"
        for item in capabilities()
    ]
    header = ["| type | properties acted on | accepted without effect |", "|---|---|---|"]
    return "\n".join([*header, *rows])
