"""KMS keys, SSM parameters, and the CDK's metadata."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    NOT_ENFORCED,
    Property,
    Provider,
    ResourceRequest,
    generated_name,
    ignoring,
    reject_change,
)


class AliasProvider(Provider):
    """Identifier: the alias name."""

    type_name = "AWS::KMS::Alias"
    name_property = "AliasName"
    properties: ClassVar = {
        "AliasName": Property(create_only=True, required=True),
        "TargetKeyId": Property(required=True),
    }

    def create(self, request: ResourceRequest) -> str:
        """Create the alias."""
        request.client("kms").create_alias(**request.api())
        return str(request.properties["AliasName"])

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Point the alias at another key."""
        request.client("kms").update_alias(**request.api())

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the alias."""
        with ignoring("NotFoundException"):
            request.client("kms").delete_alias(AliasName=physical_id)


class KeyProvider(Provider):
    """Identifier: the key's id. Deleting schedules the deletion; the key is pending until then."""

    type_name = "AWS::KMS::Key"
    properties: ClassVar = {
        "BypassPolicyLockoutSafetyCheck": Property(effect=False, reason="Key policies are not enforced."),
        "Description": Property(),
        "EnableKeyRotation": Property(effect=False, reason="It is stored and returned; no key is rotated."),
        "Enabled": Property(),
        "KeyPolicy": Property(effect=False, reason=NOT_ENFORCED),
        "KeySpec": Property(reason="KMS operations work; other services do not encrypt with keys."),
        "KeyUsage": Property(),
        "MultiRegion": Property(),
        "PendingWindowInDays": Property(
            effect=False, reason="It is stored and returned; a scheduled deletion never runs."
        ),
        "RotationPeriodInDays": Property(effect=False, reason="Not stored: keys are not rotated."),
        "Tags": Property(members={"Key": None, "Value": None}),
    }
    attribute_names = frozenset({"Arn", "KeyId"})

    def create(self, request: ResourceRequest) -> str:
        """Create the key."""
        given = request.api("Description", "KeySpec", "KeyUsage")
        made = request.client("kms").create_key(
            **given, MultiRegion=request.flag("MultiRegion"), **_policy(request)
        )
        return str(made["KeyMetadata"]["KeyId"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set policy, rotation, state, description and tags."""
        kms = request.client("kms")
        if "KeyPolicy" in request.properties:
            kms.put_key_policy(KeyId=physical_id, PolicyName="default", **_policy(request))
        kms.update_key_description(KeyId=physical_id, Description=request.properties.get("Description", ""))
        if request.flag("EnableKeyRotation"):
            period = {"RotationPeriodInDays": int(request.properties.get("RotationPeriodInDays", 365))}
            kms.enable_key_rotation(KeyId=physical_id, **period)
        tags = request.properties.get("Tags", [])
        if tags:
            kms.tag_resource(
                KeyId=physical_id,
                Tags=[{"TagKey": tag["Key"], "TagValue": str(tag["Value"])} for tag in tags],
            )
        if "Enabled" in request.properties and not request.flag("Enabled"):
            kms.disable_key(KeyId=physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove rotation, disabling, and tags."""
        reject_change(request, previous, "KeySpec", "KeyUsage", "MultiRegion")
        kms = request.client("kms")
        if previous.flag("EnableKeyRotation") and not request.flag("EnableKeyRotation"):
            kms.disable_key_rotation(KeyId=physical_id)
        if "Enabled" in previous.properties and not previous.flag("Enabled"):
            kms.enable_key(KeyId=physical_id)
        kept = {tag["Key"] for tag in request.properties.get("Tags", [])}
        gone = [tag["Key"] for tag in previous.properties.get("Tags", []) if tag["Key"] not in kept]
        if gone:
            kms.untag_resource(KeyId=physical_id, TagKeys=gone)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Schedule the deletion."""
        days = int(request.properties.get("PendingWindowInDays", 30))
        with ignoring("NotFoundException", "KMSInvalidStateException"):
            request.client("kms").schedule_key_deletion(KeyId=physical_id, PendingWindowInDays=days)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the key's names."""
        stack = request.stack
        return {"Arn": f"arn:aws:kms:{stack.region}:{stack.account}:key/{physical_id}", "KeyId": physical_id}


def _policy(request: ResourceRequest) -> dict[str, str]:
    if "KeyPolicy" not in request.properties:
        return {}
    policy = request.properties["KeyPolicy"]
    return {"Policy": policy if isinstance(policy, str) else json.dumps(policy)}


class ParameterProvider(Provider):
    """Identifier: the parameter's name."""

    type_name = "AWS::SSM::Parameter"
    name_property = "Name"
    maps_tags = True
    properties: ClassVar = {
        "AllowedPattern": Property(
            effect=False, reason="It is stored and returned; values are not checked against it."
        ),
        "DataType": Property(effect=False, reason="It is stored and returned; the image is not checked."),
        "Description": Property(),
        "Name": Property(create_only=True),
        "Tags": Property(),
        "Tier": Property(
            effect=False, reason="It is stored and returned; every parameter has the same limits."
        ),
        "Type": Property(required=True),
        "Value": Property(required=True),
    }
    attribute_names = frozenset({"Type", "Value"})
    volatile_attributes = frozenset({"Type", "Value"})

    def create(self, request: ResourceRequest) -> str:
        """Create the parameter; the name must be unused."""
        name = request.name("Name", max_length=2048)
        request.client("ssm").put_parameter(Name=name, Overwrite=False, **_settings(request))
        return name

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the tags."""
        tags = [
            {"Key": key, "Value": str(value)} for key, value in request.properties.get("Tags", {}).items()
        ]
        if tags:
            request.client("ssm").add_tags_to_resource(
                ResourceType="Parameter", ResourceId=physical_id, Tags=tags
            )

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Write the value and remove tags."""
        ssm = request.client("ssm")
        ssm.put_parameter(Name=physical_id, Overwrite=True, **_settings(request))
        gone = sorted(previous.properties.get("Tags", {}).keys() - request.properties.get("Tags", {}).keys())
        if gone:
            ssm.remove_tags_from_resource(ResourceType="Parameter", ResourceId=physical_id, TagKeys=gone)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the parameter."""
        with ignoring("ParameterNotFound"):
            request.client("ssm").delete_parameter(Name=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return type and value."""
        return {"Type": request.properties["Type"], "Value": str(request.properties["Value"])}


def _settings(request: ResourceRequest) -> dict[str, str]:
    names = ("AllowedPattern", "DataType", "Description", "Tier", "Type", "Value")
    return {name: str(request.properties[name]) for name in names if name in request.properties}


class CdkMetadataProvider(Provider):
    """Identifier: a generated name. Creates nothing."""

    type_name = "AWS::CDK::Metadata"
    properties: ClassVar = {
        "Analytics": Property(
            effect=False, reason="Usage statistics for AWS; the local cloud does not read them."
        )
    }

    def create(self, request: ResourceRequest) -> str:
        """Return a name; there is nothing to create."""
        return generated_name(request.stack.name, request.logical_id, max_length=128)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Do nothing."""
