"""The network that an environment's endpoints stand in, if they are to have one of their own."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from tritonstack.base.documents import Record, check_distinct

_PRIVATE = tuple(
    map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
)
"""Addresses that nobody has on the internet. Python's own list holds loopback, too, which AWS refuses."""


LEAST_SUBNETS = 2
"""SageMaker asks for subnets in two Availability Zones; which zone a subnet is in, no file says."""


def _check_cidr(text: str) -> str:
    try:
        block = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no IPv4 block ({error}); write one such as 10.40.0.0/16") from None
    if not any(block.subnet_of(private) for private in _PRIVATE) or not 16 <= block.prefixlen <= 24:
        raise ValueError(
            f"{text!r} is not a block from /16 to /24 of {', '.join(map(str, _PRIVATE))}; "
            "write one such as 10.40.0.0/16"
        )
    return text


def _id_checker(prefix: str) -> AfterValidator:
    pattern = re.compile(rf"{prefix}-[0-9a-f]{{8,17}}")

    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{text!r} is not an id; it reads like {prefix}-0a1b2c3d4e5f67890")
        return text

    return AfterValidator(check)


class NewVpc(Record):
    """A network without a way to the internet, with the AWS endpoints that SageMaker needs in it."""

    cidr: Annotated[str, AfterValidator(_check_cidr)] = "10.40.0.0/16"
    """Its addresses."""
    availability_zones: Annotated[int, Field(ge=2, le=3)] = 2
    """How many zones it spans, with one private subnet each."""


def _check_subnets(ids: tuple[str, ...]) -> tuple[str, ...]:
    if len(ids) < LEAST_SUBNETS:
        raise ValueError(
            f"expected at least {LEAST_SUBNETS} subnets in different Availability Zones, got {len(ids)}; "
            "add a private subnet of another zone: SageMaker asks for two"
        )
    return check_distinct(ids)


class ExistingVpc(Record):
    """Subnets and security groups that somebody else looks after, the way to S3, ECR and logs included."""

    vpc_id: Annotated[str, _id_checker("vpc")]
    """The network."""
    subnet_ids: Annotated[
        tuple[Annotated[str, _id_checker("subnet")], ...],
        Field(max_length=16, json_schema_extra={"minItems": LEAST_SUBNETS}),
        AfterValidator(_check_subnets),
    ]
    """Private subnets in it, at least two, each in another Availability Zone."""
    security_group_ids: Annotated[
        tuple[Annotated[str, _id_checker("sg")], ...],
        Field(min_length=1, max_length=5),
        AfterValidator(check_distinct),
    ]
    """What endpoints may reach."""


class NetworkSpec(Record):
    """Either a network that is made, or one that exists."""

    create: NewVpc | None = None
    """Make a network for this environment."""
    existing: ExistingVpc | None = None
    """Use one that exists."""

    @model_validator(mode="after")
    def _one_of_both(self) -> NetworkSpec:
        if (self.create is None) == (self.existing is None):
            raise ValueError("a network is either made or there already; give one of `create` and `existing`")
        return self
