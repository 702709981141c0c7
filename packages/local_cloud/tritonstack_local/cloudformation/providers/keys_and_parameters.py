"""KMS keys, SSM parameters, and the CDK's metadata."""

from __future__ import annotations

from typing import Any

from tritonstack_local.cloudformation.providers.base import (
    KEYS_AND_VALUES,
    NOT_ENFORCED,
    Creation,
    Deletion,
    Name,
    Property,
    PropertySetting,
    Provider,
    ResourceRequest,
    Tagging,
    alike,
    ignoring,
    kept,
)

_ALIAS = Provider(
    type_name="AWS::KMS::Alias",
    identifier="AliasName",
    name=Name("AliasName"),
    properties={
        **alike("AliasName", create_only=True, required=True),
        **alike("TargetKeyId", required=True),
    },
    creation=Creation("create_alias"),
    update_operation="update_alias",
    deletion=Deletion("delete_alias", "NotFoundException"),
)


class KeyProvider(Provider):
    """Identifier: the key's id. Deleting schedules the deletion; the key is pending until then."""

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        """Return the arguments of a new key."""
        policy = {"Policy": document} if (document := request.value("KeyPolicy")) else {}
        return request.api("Description") | policy

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set policy, description, tags, and rotation."""
        super().settle(request, physical_id)
        if request.flag("EnableKeyRotation"):
            request.client("kms").enable_key_rotation(KeyId=physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove rotation and tags."""
        super().update(request, physical_id, previous)
        if previous.flag("EnableKeyRotation") and not request.flag("EnableKeyRotation"):
            request.client("kms").disable_key_rotation(KeyId=physical_id)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Schedule the deletion."""
        days = int(request.properties.get("PendingWindowInDays", 30))
        with ignoring("NotFoundException KMSInvalidStateException"):
            request.client("kms").schedule_key_deletion(KeyId=physical_id, PendingWindowInDays=days)


_KEY = KeyProvider(
    type_name="AWS::KMS::Key",
    identifier="KeyId",
    properties={
        "Description": Property(),
        "EnableKeyRotation": kept("no key is rotated."),
        "KeyPolicy": Property(as_text=True, effect=False, reason=NOT_ENFORCED),
        "PendingWindowInDays": kept("a scheduled deletion never runs."),
        "Tags": Property(members=KEYS_AND_VALUES),
    },
    creation=Creation("create_key", "KeyMetadata.KeyId"),
    settings={
        "KeyPolicy": PropertySetting("put_key_policy", "Policy", fixed={"PolicyName": "default"}),
        "Description": PropertySetting("update_key_description", "Description", default=""),
    },
    tagging=Tagging(
        "tag_resource",
        "untag_resource",
        {"KeyId": "{id}"},
        write=lambda tags: [{"TagKey": key, "TagValue": value} for key, value in tags.items()],
    ),
    attributes={"Arn": "arn:aws:kms:{region}:{account}:key/{id}", "KeyId": "{id}"},
)


class ParameterProvider(Provider):
    """Identifier: the parameter's name, which must be unused."""

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Write the value and remove tags."""
        request.client("ssm").put_parameter(Name=physical_id, Overwrite=True, **self.arguments(request))
        super().update(request, physical_id, previous)


_PARAMETER = ParameterProvider(
    type_name="AWS::SSM::Parameter",
    identifier="Name",
    maps_tags=True,
    name=Name("Name", 2048),
    properties={
        "Description": Property(as_text=True),
        "Name": Property(create_only=True),
        "Tags": Property(),
        **alike("Type Value", required=True, as_text=True),
    },
    creation=Creation("put_parameter"),
    tagging=Tagging(
        "add_tags_to_resource",
        "remove_tags_from_resource",
        {"ResourceType": "Parameter", "ResourceId": "{id}"},
    ),
    deletion=Deletion("delete_parameter", "ParameterNotFound"),
    attributes={"Type": "{Type}", "Value": "{Value}"},
    volatile_attributes=("Type", "Value"),
)

_METADATA = Provider(  # creates nothing
    type_name="AWS::CDK::Metadata",
    properties={
        "Analytics": Property(
            effect=False, reason="Usage statistics for AWS; the local cloud does not read them."
        )
    },
)

TYPES = (_METADATA, _ALIAS, _KEY, _PARAMETER)
