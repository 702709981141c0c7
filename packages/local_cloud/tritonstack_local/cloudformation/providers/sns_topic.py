"""AWS::SNS::Topic."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring

_ATTRIBUTES = ("DisplayName", "KmsMasterKeyId", "SignatureVersion", "TracingConfig")


class Topic(Provider):
    """Identifier: the topic's ARN."""

    type_name = "AWS::SNS::Topic"
    name_property = "TopicName"
    properties: ClassVar = {
        "DisplayName": Property(
            effect=False, why="It is kept and read back; no mail is sent that would show it."
        ),
        "KmsMasterKeyId": Property(effect=False, why="It is kept and read back; nothing is encrypted."),
        "SignatureVersion": Property(effect=False, why="Not kept: messages are signed in one way."),
        "Tags": Property(shape="sns:TagList"),
        "TopicName": Property(create_only=True),
        "TracingConfig": Property(effect=False, why="Not kept: there is no X-Ray."),
    }
    attribute_names = frozenset({"TopicArn", "TopicName"})

    def create(self, request: ResourceRequest) -> str:
        """Make the topic."""
        made = request.client("sns").create_topic(Name=request.name("TopicName", max_length=256))
        return str(made["TopicArn"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set attributes and tags."""
        sns = request.client("sns")
        for name in _ATTRIBUTES:
            if name in request.properties:
                _set(sns, physical_id, name, str(request.properties[name]))
        if request.properties.get("Tags"):
            sns.tag_resource(ResourceArn=physical_id, Tags=request.value("Tags"))

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Take back attributes and tags."""
        sns = request.client("sns")
        for name in _ATTRIBUTES:
            if name in previous.properties and name not in request.properties:
                _set(sns, physical_id, name, "")
        kept = {tag["Key"] for tag in request.properties.get("Tags", [])}
        gone = [tag["Key"] for tag in previous.properties.get("Tags", []) if tag["Key"] not in kept]
        if gone:
            sns.untag_resource(ResourceArn=physical_id, TagKeys=gone)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the topic."""
        with ignoring("NotFound"):
            request.client("sns").delete_topic(TopicArn=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return ARN and name."""
        return {"TopicArn": physical_id, "TopicName": physical_id.rsplit(":", 1)[1]}


def _set(sns: Any, arn: str, name: str, value: str) -> None:
    sns.set_topic_attributes(TopicArn=arn, AttributeName=name, AttributeValue=value)
