"""The network of an environment's endpoints, if it has its own."""

from __future__ import annotations

import ipaddress
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.error_kinds import UnavailableOptionError
from tritonstack.base.yaml import Choice, Record, check_distinct, matching, raise_violations

_PRIVATE = tuple(
    map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
)
"""Private address ranges. Python's own list includes loopback, which AWS rejects."""


LEAST_SUBNETS = 2
"""SageMaker requires subnets in two Availability Zones; a file does not show a subnet's zone."""


def _check_cidr(text: str) -> str:
    try:
        block = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"invalid IPv4 block {text!r} ({error}); write one such as 10.40.0.0/16") from None
    if not any(block.subnet_of(private) for private in _PRIVATE) or not 16 <= block.prefixlen <= 24:
        raise ValueError(
            f"expected a block from /16 to /24 of {', '.join(map(str, _PRIVATE))}, got {text!r}; "
            "write one such as 10.40.0.0/16"
        )
    return text


def _id(prefix: str) -> AfterValidator:
    message = f"invalid id {{}}; write one such as {prefix}-0a1b2c3d4e5f67890"
    return matching(rf"{prefix}-[0-9a-f]{{8,17}}", message)


ZoneId = Annotated[
    str,
    matching(
        r"[a-z]{3,4}[0-9]-az[0-9]{1,2}",
        "invalid Availability Zone id {}; write an id such as use1-az1, not a name",
    ),
]


class NewVpc(Record):
    """A new VPC without internet access, with the VPC endpoints that SageMaker needs."""

    cidr: Annotated[str, AfterValidator(_check_cidr)] = "10.40.0.0/16"
    """Address range."""
    availability_zones: Annotated[int, Field(ge=2, le=3)] = 2
    """Number of Availability Zones, with one private subnet each."""
    availability_zone_ids: (
        Annotated[
            tuple[ZoneId, ...],
            Field(min_length=LEAST_SUBNETS, max_length=3),
            AfterValidator(check_distinct),
        ]
        | None
    ) = None
    """Zones by id, such as use1-az1; default: the first zones of the account."""

    @property
    def zones(self) -> int:
        """Number of zones."""
        return len(self.availability_zone_ids or ()) or self.availability_zones

    @model_validator(mode="after")
    def _selects_zones_once(self) -> NewVpc:
        if self.availability_zone_ids and "availability_zones" in self.model_fields_set:
            raise_violations(
                [
                    UnavailableOptionError.at(
                        ("availability_zones",),
                        "the zones are already selected by availability_zone_ids",
                        "remove one of the two",
                    )
                ]
            )
        return self


def _check_subnets(ids: tuple[str, ...]) -> tuple[str, ...]:
    if len(ids) < LEAST_SUBNETS:
        raise ValueError(
            f"expected at least {LEAST_SUBNETS} subnets in different Availability Zones, got {len(ids)}; "
            "add a private subnet of another zone: SageMaker requires two"
        )
    return check_distinct(ids)


class ExistingVpc(Record):
    """Existing subnets and security groups, with routes to S3, ECR, and CloudWatch Logs."""

    vpc_id: Annotated[str, _id("vpc")]
    """The VPC."""
    subnet_ids: Annotated[
        tuple[Annotated[str, _id("subnet")], ...],
        Field(max_length=16, json_schema_extra={"minItems": LEAST_SUBNETS}),
        AfterValidator(_check_subnets),
    ]
    """At least two private subnets, each in another Availability Zone."""
    security_group_ids: Annotated[
        tuple[Annotated[str, _id("sg")], ...],
        Field(min_length=1, max_length=5),
        AfterValidator(check_distinct),
    ]
    """Security groups of the endpoints."""


class NetworkSpec(Record):
    """A new or an existing network."""

    alternatives: ClassVar = (Choice(("create", "existing")),)

    create: NewVpc | None = None
    """Create a network for this environment."""
    existing: ExistingVpc | None = None
    """Use an existing network."""
