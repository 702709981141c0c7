"""Types of other services whose resources take more than the calls in resource_types.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tritonstack_local.cloudformation.providers.base import (
    Provider,
    ProviderError,
    ResourceRequest,
    ignoring,
    removed_items,
    small,
)
from tritonstack_local.cloudformation.providers.values import shape_named, to_api
from tritonstack_local.codebuild.unsupported import project_rejection

_SERVICE = "application-autoscaling"
_KEY = ("ServiceNamespace", "ResourceId", "ScalableDimension")
_CONFIGURATIONS = ("StepScalingPolicyConfiguration", "TargetTrackingScalingPolicyConfiguration")


class ScalingProvider(Provider):
    """A type of Application Auto Scaling."""

    @property
    def service(self) -> str:
        """boto3's name of the service."""
        return _SERVICE


class ScalableTargetProvider(ScalingProvider):
    """Identifier: `resource id|dimension|namespace`."""

    def create(self, request: ResourceRequest) -> str:
        """Return the identifier; `settle` registers the target."""
        target = self.target(request, "")
        return "|".join((target["ResourceId"], target["ScalableDimension"], target["ServiceNamespace"]))

    def target(self, request: ResourceRequest, physical_id: str) -> dict[str, str]:
        """Return the arguments that name the target."""
        return request.api(*_KEY)

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Register the target with its limits, and put its scheduled actions."""
        scaling = request.client(_SERVICE)
        settings = request.api(*_KEY, "MinCapacity", "MaxCapacity")
        tags = {"Tags": request.tags} if request.tags else {}
        scaling.register_scalable_target(**settings, **tags)
        for action in request.value("ScheduledActions") or []:
            scaling.put_scheduled_action(**self.target(request, physical_id), **action)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Delete scheduled actions and tags that the template no longer has."""
        self._delete_actions(previous, _actions(previous) - _actions(request))
        super().update(request, physical_id, previous)

    def remove_tags(self, request: ResourceRequest, physical_id: str, keys: list[str]) -> None:
        """Remove tags; they belong to an ARN that only Application Auto Scaling knows."""
        scaling = request.client(_SERVICE)
        targets = scaling.describe_scalable_targets(
            **request.api("ServiceNamespace", "ScalableDimension"),
            ResourceIds=[request.properties["ResourceId"]],
        )
        for target in targets["ScalableTargets"]:
            scaling.untag_resource(ResourceARN=target["ScalableTargetARN"], TagKeys=keys)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the scheduled actions and deregister the target."""
        self._delete_actions(request, _actions(request))
        super().delete(request, physical_id)

    def _delete_actions(self, request: ResourceRequest, names: set[str]) -> None:
        for name in sorted(names):
            with ignoring(self.deletion.gone):
                request.client(_SERVICE).delete_scheduled_action(
                    **self.target(request, ""), ScheduledActionName=name
                )


def _actions(request: ResourceRequest) -> set[str]:
    return {action["ScheduledActionName"] for action in request.properties.get("ScheduledActions", [])}


class ScalingPolicyProvider(ScalingProvider):
    """Identifier: the policy's ARN."""

    def target(self, request: ResourceRequest, physical_id: str) -> dict[str, str]:
        """Return the arguments that name the policy."""
        resource, dimension, namespace = request.properties["ScalingTargetId"].split("|")
        named = dict(zip(_KEY, (namespace, resource, dimension), strict=True))
        return named | request.api("PolicyName")

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        """Return what the policy does."""
        return request.api("PolicyType", *_CONFIGURATIONS)

    def create(self, request: ResourceRequest) -> str:
        """Put the policy."""
        answer = self.call(
            request, self.update_operation, **self.target(request, ""), **self.arguments(request)
        )
        return str(answer["PolicyARN"])


# Values that an update sends for removed properties.
_ABSENT: Mapping[str, Any] = {
    "Cache": {"type": "NO_CACHE"},
    "ConcurrentBuildLimit": -1,
    "Description": "",
    "LogsConfig": {"cloudWatchLogs": {"status": "ENABLED"}},
    "QueuedTimeoutInMinutes": 480,
    "Tags": [],
    "TimeoutInMinutes": 60,
}


class ProjectProvider(Provider):
    """Identifier: the project's name, also returned by `Ref`."""

    def violations(self, logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield what CodeBuild would reject, before any resource is created."""
        yield from super().violations(logical_id, properties)
        fields = {
            small(name): to_api(value, shape_named(f"codebuild:CreateProject.{small(name)}"))
            for name, value in properties.items()
            if name in self.properties
        }
        if (rejection := project_rejection(fields)) is not None:
            yield f"{logical_id}: {rejection}"

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Change all settings, and remove those that the template no longer has."""
        absent = {small(name): value for name, value in _ABSENT.items() if previous.value(name) is not None}
        request.client("codebuild").update_project(name=physical_id, **absent | self.arguments(request))


class RepositoryProvider(Provider):
    """Identifier: the repository's name. With images, it is deleted only if EmptyOnDelete is set."""

    def call(self, request: ResourceRequest, operation: str, **arguments: Any) -> Any:
        """Call an operation of ECR."""
        force = {"force": request.flag("EmptyOnDelete")} if operation == self.deletion.operation else {}
        return super().call(request, operation, **arguments, **force)


def _transformation(item: Mapping[str, Any]) -> dict[str, Any]:
    converted = {small(key): value for key, value in item.items()}
    if "defaultValue" in converted:
        converted["defaultValue"] = float(converted["defaultValue"])
    if "dimensions" in converted:
        converted["dimensions"] = {entry["Key"]: entry["Value"] for entry in converted["dimensions"]}
    return converted


class MetricFilterProvider(Provider):
    """Identifier: the filter's name; it belongs to one log group."""

    def target(self, request: ResourceRequest, physical_id: str) -> dict[str, str]:
        """Return the names of the filter and its group."""
        return {"logGroupName": request.properties["LogGroupName"], "filterName": physical_id}

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        """Return the pattern and its metrics."""
        return {
            "filterPattern": request.properties["FilterPattern"],
            "metricTransformations": [
                _transformation(item) for item in request.properties["MetricTransformations"]
            ],
        }


class RuleProvider(Provider):
    """Identifier: the rule's name, also returned by `Ref`."""

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Put the rule, its targets and its tags."""
        super().settle(request, physical_id)
        if targets := request.value("Targets"):
            answer = request.client("events").put_targets(Rule=physical_id, Targets=targets)
            for rejected in answer["FailedEntries"]:
                raise ProviderError(f"target {rejected['TargetId']}: {rejected['ErrorMessage']}")

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove targets and tags."""
        super().update(request, physical_id, previous)
        before, after = (
            {target["Id"] for target in item.properties.get("Targets", [])} for item in (previous, request)
        )
        if before - after:
            request.client("events").remove_targets(Rule=physical_id, Ids=sorted(before - after))

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Remove the targets and delete the rule."""
        events = request.client("events")
        with ignoring(self.deletion.gone):
            if targets := events.list_targets_by_rule(Rule=physical_id)["Targets"]:
                events.remove_targets(Rule=physical_id, Ids=[target["Id"] for target in targets])
            events.delete_rule(Name=physical_id)


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


class ParameterProvider(Provider):
    """Identifier: the parameter's name, which must be unused."""

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Write the value and remove tags."""
        request.client("ssm").put_parameter(Name=physical_id, Overwrite=True, **self.arguments(request))
        super().update(request, physical_id, previous)


class BucketProvider(Provider):
    """Identifier: the bucket's name. A bucket that is not empty cannot be deleted."""

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        """Return the region, which us-east-1 does not accept."""
        region = request.stack.region
        place = {"CreateBucketConfiguration": {"LocationConstraint": region}}
        return {} if region == "us-east-1" else place


_OWNER_ACTIONS = (
    "SNS:GetTopicAttributes",
    "SNS:SetTopicAttributes",
    "SNS:AddPermission",
    "SNS:RemovePermission",
    "SNS:DeleteTopic",
    "SNS:Subscribe",
    "SNS:ListSubscriptionsByTopic",
    "SNS:Publish",
)


class TopicPolicyProvider(Provider):
    """Identifier: a generated name. Deletion restores the topics' default policy."""

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the policy of every topic."""
        for topic in request.properties["Topics"]:
            self._set_policy(request, topic, request.properties["PolicyDocument"])

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Restore the default policy of removed topics."""
        self._reset(request, removed_items(request, previous, "Topics"))

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Restore the default policy of every topic."""
        self._reset(request, request.properties["Topics"])

    def _reset(self, request: ResourceRequest, topics: list[str]) -> None:
        for topic in topics:
            statement = {
                "Sid": "__default_statement_ID",
                "Effect": "Allow",
                "Principal": {"AWS": "*"},
                "Action": list(_OWNER_ACTIONS),
                "Resource": topic,
                "Condition": {"StringEquals": {"AWS:SourceOwner": request.stack.account}},
            }
            policy = {"Version": "2008-10-17", "Id": "__default_policy_ID", "Statement": [statement]}
            with ignoring("NotFound"):
                self._set_policy(request, topic, policy)

    def _set_policy(self, request: ResourceRequest, topic: str, policy: object) -> None:
        request.client("sns").set_topic_attributes(
            TopicArn=topic, AttributeName="Policy", AttributeValue=json.dumps(policy)
        )


CLASSES: Mapping[str, type[Provider]] = {
    "AWS::ApplicationAutoScaling::ScalableTarget": ScalableTargetProvider,
    "AWS::ApplicationAutoScaling::ScalingPolicy": ScalingPolicyProvider,
    "AWS::CodeBuild::Project": ProjectProvider,
    "AWS::ECR::Repository": RepositoryProvider,
    "AWS::Events::Rule": RuleProvider,
    "AWS::KMS::Key": KeyProvider,
    "AWS::Logs::MetricFilter": MetricFilterProvider,
    "AWS::S3::Bucket": BucketProvider,
    "AWS::SNS::TopicPolicy": TopicPolicyProvider,
    "AWS::SSM::Parameter": ParameterProvider,
}
