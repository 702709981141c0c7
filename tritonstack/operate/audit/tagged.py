"""List resources by tag with the Resource Groups Tagging API.

Only this listing finds resources with unexpected names or of types without a listing by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code
from tritonstack.facts.images import ACCOUNTS
from tritonstack.operate.audit.resources import (
    IMAGE_TYPES,
    PART_TYPES,
    AuditScope,
    AwsResource,
    created_in_other_region,
    scalable_target_id,
    snake_case,
    tags_of,
)
from tritonstack.operate.shared.aws import Cloud, is_absent, pages


@dataclass(frozen=True)
class Directory:
    """The listing of a resource type, which needs only permissions that an audit needs anyway."""

    type: str
    service: str
    operation: str
    key: str
    name: str
    """The field of the name; empty if the items are names."""
    beginning: str = ""
    """The parameter for the beginning of a name, if there is one."""
    part: str = ""
    """The parameter for a part of a name, if there is one."""
    id: str = ""
    """The field of the physical id in CloudFormation, if that is not the name."""
    before: str = ""
    """What precedes the base in names."""
    names_region: bool = False
    """Whether it lists all regions, and names contain the region."""

    def find(self, cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
        """Yield the resources whose names are in scope."""
        narrowed = {name: f"{self.before}{scope.base}" for name in (self.beginning, self.part) if name}
        for item in self._items(cloud, narrowed):
            name = item[self.name] if self.name else item
            if scope.names(name, self.before) and not (
                self.names_region and _is_in_other_region(name, cloud.region)
            ):
                yield AwsResource(self.type, item[self.id] if self.id else name)

    def ids(self, cloud: Cloud, only: str = "") -> set[str]:
        """Return the ids that exist, at least `only` if it is among them.

        SageMaker's ids are not narrowed: its ARNs have lower-case names, which may not match.
        """
        narrowed = {self.beginning: only} if self.beginning and only else {}
        field = self.id or self.name
        return {item[field] if field else item for item in self._items(cloud, narrowed)}

    def _items(self, cloud: Cloud, narrowed: Mapping[str, str]) -> Iterator[Any]:
        return pages(cloud.client(self.service), self.operation, self.key, **narrowed)


NAMED = (
    Directory("AWS::S3::Bucket", "s3", "list_buckets", "Buckets", "Name", names_region=True),
    Directory("AWS::KMS::Alias", "kms", "list_aliases", "Aliases", "AliasName", before="alias/"),
    Directory(
        "AWS::CloudWatch::Dashboard",
        "cloudwatch",
        "list_dashboards",
        "DashboardEntries",
        "DashboardName",
        "DashboardNamePrefix",
        names_region=True,
    ),
    Directory("AWS::Events::Rule", "events", "list_rules", "Rules", "Name", "NamePrefix"),
    Directory("AWS::CodeBuild::Project", "codebuild", "list_projects", "projects", ""),
    Directory("AWS::CodePipeline::Pipeline", "codepipeline", "list_pipelines", "pipelines", "name"),
    *(
        # CloudFormation may name models and configurations without the stack's name: tags find those.
        Directory(
            f"AWS::SageMaker::{kind}",
            "sagemaker",
            f"list_{snake_case(kind)}s",
            f"{kind}s",
            f"{kind}Name",
            part="NameContains",
            id=f"{kind}Arn",
        )
        for kind in ("Endpoint", "EndpointConfig", "Model", "InferenceComponent")
    ),
)
"""Types of which the name alone decides."""

_OTHERS = (
    Directory("AWS::ECR::Repository", "ecr", "describe_repositories", "repositories", "repositoryName"),
    Directory(
        "AWS::Logs::LogGroup",
        "logs",
        "describe_log_groups",
        "logGroups",
        "logGroupName",
        "logGroupNamePrefix",
    ),
    Directory(
        "AWS::CloudWatch::Alarm",
        "cloudwatch",
        "describe_alarms",
        "MetricAlarms",
        "AlarmName",
        "AlarmNamePrefix",
    ),
    Directory("AWS::SNS::Topic", "sns", "list_topics", "Topics", "TopicArn"),
    Directory("AWS::SSM::Parameter", "ssm", "describe_parameters", "Parameters", "Name"),
    Directory("AWS::CloudFormation::Stack", "cloudformation", "describe_stacks", "Stacks", "StackName"),
    Directory(
        "AWS::SageMaker::ProcessingJob",
        "sagemaker",
        "list_processing_jobs",
        "ProcessingJobSummaries",
        "ProcessingJobArn",
    ),
)
DIRECTORIES = {directory.type: directory for directory in (*NAMED, *_OTHERS)}


def _is_in_other_region(name: str, region: str) -> bool:
    """Return whether a name belongs to an environment in another region."""
    base_name = re.sub(r"_\d+$", "", name)  # the page number of a dashboard
    return any(base_name.endswith((f"-{other}", f"_{other}")) for other in ACCOUNTS if other != region)


TAGGED = "by tag"
SCALABLE_TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"


def _last(arn: str) -> str:
    return re.split(r"[:/]", arn)[-1]


def _resource(arn: str) -> str:
    return arn.split(":", 5)[5]


def _after_slash(arn: str) -> str:
    return _resource(arn).partition("/")[2]


def _whole(arn: str) -> str:
    return arn


_SHAPES: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    (r"s3:[^/]*$", "AWS::S3::Bucket", _last),
    (r"kms:key/", "AWS::KMS::Key", _after_slash),
    (r"ecr:repository/", "AWS::ECR::Repository", _after_slash),
    (r"logs:log-group:", "AWS::Logs::LogGroup", lambda arn: _resource(arn).split(":")[1]),
    *(
        (rf"sagemaker:{sort}/", f"AWS::SageMaker::{kind}", _whole)
        for sort, kind in (
            ("endpoint", "Endpoint"),
            ("endpoint-config", "EndpointConfig"),
            ("model", "Model"),
            ("inference-component", "InferenceComponent"),
            ("processing-job", "ProcessingJob"),
        )
    ),
    (r"application-autoscaling:scalable-target/", SCALABLE_TARGET, _whole),
    (r"cloudwatch:alarm:", "AWS::CloudWatch::Alarm", lambda arn: _resource(arn).partition(":")[2]),
    (r"cloudwatch:dashboard/", "AWS::CloudWatch::Dashboard", _after_slash),
    (r"sns:", "AWS::SNS::Topic", _whole),
    (r"events:rule/", "AWS::Events::Rule", _last),
    (r"iam:role/", "AWS::IAM::Role", _last),
    (r"iam:policy/", "AWS::IAM::ManagedPolicy", _whole),
    (r"ssm:parameter/", "AWS::SSM::Parameter", lambda arn: _resource(arn).removeprefix("parameter")),
    (r"codebuild:project/", "AWS::CodeBuild::Project", _after_slash),
    (r"codepipeline:", "AWS::CodePipeline::Pipeline", _last),
    (r"iam:oidc-provider/", "AWS::IAM::OIDCProvider", _whole),
    (r"cloudformation:stack/", "AWS::CloudFormation::Stack", lambda arn: _resource(arn).split("/")[1]),
    *(
        (rf"ec2:{sort}/", f"AWS::EC2::{kind}", _last)
        for sort, kind in (
            ("vpc", "VPC"),
            ("subnet", "Subnet"),
            ("route-table", "RouteTable"),
            ("security-group", "SecurityGroup"),
            ("vpc-endpoint", "VPCEndpoint"),
            ("vpc-flow-log", "FlowLog"),
            ("network-interface", "NetworkInterface"),
            ("network-acl", "NetworkAcl"),
            ("image", "Image"),
            ("snapshot", "Snapshot"),
        )
    ),
)
"""ARN prefix after account and region, CloudFormation type, and physical id."""


def type_and_id(arn: str) -> tuple[str, str]:
    """Return the CloudFormation type and id of an ARN; the ARN itself for unknown types."""
    service, resource = arn.split(":", 5)[2], _resource(arn)
    for shape, kind, id_of in _SHAPES:
        if re.match(shape, f"{service}:{resource}"):
            return kind, id_of(arn)
    sort = re.split(r"[:/]", resource)[0] if re.search(r"[:/]", resource) else "resource"
    return f"{service}:{sort}", arn


def tagged(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
    """List everything with the scope's tags, except what EC2 lists by tag.

    The API still reports deleted resources for a while; `still_there` checks types that no other listing
    covers.
    """
    if not scope.tags:
        return  # without a filter, it would return the whole account
    filters = [{"Key": key, "Values": [value]} for key, value in sorted(scope.tags.items())]
    client = cloud.client("resourcegroupstaggingapi")
    targets: dict[str, str] = {}
    for item in pages(client, "get_resources", "ResourceTagMappingList", TagFilters=filters):
        (kind, name), tags = type_and_id(item["ResourceARN"]), tags_of(item["Tags"])
        if kind in (*PART_TYPES, *IMAGE_TYPES) or created_in_other_region(tags, cloud.region):
            continue
        if kind == SCALABLE_TARGET:
            targets = targets or scalable_targets(cloud)
            if name not in targets:
                continue  # deregistered
            name = targets[name]
        yield AwsResource(kind, name, tags)


def scalable_targets(cloud: Cloud) -> dict[str, str]:
    """Return the physical ids of SageMaker's scalable targets by ARN, which contains a number only."""
    listed = pages(
        cloud.client("application-autoscaling"),
        "describe_scalable_targets",
        "ScalableTargets",
        ServiceNamespace="sagemaker",
    )
    return {target.get("ScalableTargetARN", ""): scalable_target_id(target) for target in listed}


def is_kept_out(error: ClientError) -> bool:
    """Return whether the key policy, not the caller's permissions, denies access."""
    return aws_error_code(error).startswith("AccessDenied") and "resource-based policy" in str(error)


Lists = dict[str, set[str]]
"""Complete listings per type."""


def still_there(cloud: Cloud, resource: AwsResource, lists: Lists) -> AwsResource | None:
    """Check with its own service whether a tagged resource exists.

    Listings without a filter are requested once and cached in `lists`.
    """
    if resource.type == "AWS::KMS::Key":
        return _key(cloud, resource)
    directory = DIRECTORIES.get(resource.type)
    if directory is None:
        return resource
    if directory.beginning:
        return resource if resource.id in directory.ids(cloud, resource.id) else None
    if resource.type not in lists:
        lists[resource.type] = directory.ids(cloud)
    return resource if resource.id in lists[resource.type] else None


def _key(cloud: Cloud, key: AwsResource) -> AwsResource | None:
    try:
        state = cloud.client("kms").describe_key(KeyId=key.id)["KeyMetadata"]["KeyState"]
    except ClientError as error:
        if is_absent(error):
            return None
        if is_kept_out(error):
            return key
        raise
    return replace(key, pending=state == "PendingDeletion")
