"""AWS::SNS::Subscription."""

from __future__ import annotations

import json
from typing import ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring

_ATTRIBUTES = ("DeliveryPolicy", "FilterPolicy", "FilterPolicyScope", "RawMessageDelivery", "RedrivePolicy")


class Subscription(Provider):
    """Identifier: the subscription's ARN."""

    type_name = "AWS::SNS::Subscription"
    properties: ClassVar = {
        "DeliveryPolicy": Property(effect=False, why="It is kept and read back; a message is sent once."),
        "Endpoint": Property(create_only=True),
        "FilterPolicy": Property(),
        "FilterPolicyScope": Property(),
        "Protocol": Property(
            create_only=True,
            required=True,
            why="Messages reach queues (sqs) and web servers (http, https) that this machine reaches; mail "
            "and text messages are not sent.",
        ),
        "RawMessageDelivery": Property(),
        "RedrivePolicy": Property(
            effect=False, why="It is kept and read back; what cannot be delivered is lost."
        ),
        "TopicArn": Property(create_only=True, required=True),
    }
    attribute_names = frozenset({"Arn"})

    def create(self, request: ResourceRequest) -> str:
        """Subscribe."""
        made = request.client("sns").subscribe(
            **request.api("TopicArn", "Protocol", "Endpoint"), ReturnSubscriptionArn=True
        )
        return str(made["SubscriptionArn"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the attributes."""
        for name in _ATTRIBUTES:
            if name in request.properties:
                _set(request, physical_id, name, _text(request.properties[name]))

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Take back attributes."""
        for name in _ATTRIBUTES:
            if name in previous.properties and name not in request.properties:
                _set(request, physical_id, name, "false" if name == "RawMessageDelivery" else "{}")

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Unsubscribe."""
        with ignoring("NotFound"):
            request.client("sns").unsubscribe(SubscriptionArn=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, str]:
        """Return the ARN."""
        return {"Arn": physical_id}


def _set(request: ResourceRequest, arn: str, name: str, value: str) -> None:
    request.client("sns").set_subscription_attributes(
        SubscriptionArn=arn, AttributeName=name, AttributeValue=value
    )


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value)
