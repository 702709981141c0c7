"""The listing by tag, of all services that AWS's tagging service knows, whatever things are called there.

It is the only one that finds what bears another name, or is of a sort that no listing by name is for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from botocore.exceptions import ClientError

from tritonstack.operations.audit.found import Found, Scope, made_elsewhere, pages, snake_case, tags_of
from tritonstack.operations.audit.network import IMAGE_TYPES, PART_TYPES
from tritonstack.operations.aws import Cloud, error_code

TAGGED = "by tag"


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
"""How ARNs of a sort begin after account and region, CloudFormation's name for it, and its id there."""


def type_and_id(arn: str) -> tuple[str, str]:
    """What CloudFormation calls the sort of a resource, and the resource; the ARN itself of unknown ones."""
    service, resource = arn.split(":", 5)[2], _resource(arn)
    for shape, kind, id_of in _SHAPES:
        if re.match(shape, f"{service}:{resource}"):
            return kind, id_of(arn)
    sort = re.split(r"[:/]", resource)[0] if re.search(r"[:/]", resource) else "resource"
    return f"{service}:{sort}", arn


def tagged(cloud: Cloud, scope: Scope) -> Iterator[Found]:
    """Everything with the tags of the scope, but what EC2 itself lists by its tags.

    The service goes on for a while telling of what has gone: `still_there` is for what nobody else tells of.
    """
    if not scope.tags:
        return  # without a filter it would tell of the whole account
    filters = [{"Key": key, "Values": [value]} for key, value in sorted(scope.tags.items())]
    client = cloud.client("resourcegroupstaggingapi")
    for item in pages(client, "get_resources", "ResourceTagMappingList", TagFilters=filters):
        (kind, name), tags = type_and_id(item["ResourceARN"]), tags_of(item["Tags"])
        if kind not in (*PART_TYPES, *IMAGE_TYPES) and not made_elsewhere(tags, cloud.region):
            yield Found(kind, name, tags)


def is_kept_out(error: ClientError) -> bool:
    """Whether it is the policy of a key itself that keeps a caller out, and not what the caller may do."""
    return error_code(error).startswith("AccessDenied") and "resource-based policy" in str(error)


Lists = dict[str, set[str]]
"""Whole lists of services, by the type of what is on them."""


def still_there(cloud: Cloud, found: Found, lists: Lists) -> Found | None:
    """What its own service says of something; it is believed of what no service here lists.

    A list that cannot be narrowed is asked for once, and put into `lists`.
    """
    if found.type == "AWS::KMS::Key":
        return _key(cloud, found)
    look = _LOOKS.get(found.type)
    if look is None:
        return found
    if look.narrowed_by:
        return found if found.id in look.ids(cloud, found.id) else None
    if found.type not in lists:
        lists[found.type] = look.ids(cloud)
    return found if found.id in lists[found.type] else None


@dataclass(frozen=True)
class _Look:
    """How a service lists what something is among, by no other right than an audit needs anyway."""

    service: str
    operation: str
    key: str
    id_of: str
    """The field of the id; none where the items are the ids."""
    narrowed_by: str = ""
    """The parameter that the id narrows the list by. None for SageMaker: its ARNs write names in small
    letters, and nothing says that it finds them by those."""

    def ids(self, cloud: Cloud, name: str = "") -> set[str]:
        """All that are there, as far as they have to do with a name."""
        narrowed = {self.narrowed_by: name} if name else {}
        items = pages(cloud.client(self.service), self.operation, self.key, **narrowed)
        return {item[self.id_of] if self.id_of else item for item in items}


def _key(cloud: Cloud, found: Found) -> Found | None:
    try:
        state = cloud.client("kms").describe_key(KeyId=found.id)["KeyMetadata"]["KeyState"]
    except ClientError as error:
        if error_code(error) == "NotFoundException":
            return None
        if is_kept_out(error):
            return found
        raise
    return replace(found, pending=state == "PendingDeletion")


_LOOKS: Mapping[str, _Look] = {
    "AWS::S3::Bucket": _Look("s3", "list_buckets", "Buckets", "Name"),
    "AWS::ECR::Repository": _Look("ecr", "describe_repositories", "repositories", "repositoryName"),
    "AWS::Logs::LogGroup": _Look(
        "logs", "describe_log_groups", "logGroups", "logGroupName", "logGroupNamePrefix"
    ),
    "AWS::CloudWatch::Dashboard": _Look(
        "cloudwatch", "list_dashboards", "DashboardEntries", "DashboardName", "DashboardNamePrefix"
    ),
    "AWS::CloudWatch::Alarm": _Look(
        "cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName", "AlarmNamePrefix"
    ),
    "AWS::SNS::Topic": _Look("sns", "list_topics", "Topics", "TopicArn"),
    "AWS::Events::Rule": _Look("events", "list_rules", "Rules", "Name", "NamePrefix"),
    "AWS::SSM::Parameter": _Look("ssm", "describe_parameters", "Parameters", "Name"),
    "AWS::CodeBuild::Project": _Look("codebuild", "list_projects", "projects", ""),
    "AWS::CodePipeline::Pipeline": _Look("codepipeline", "list_pipelines", "pipelines", "name"),
    "AWS::CloudFormation::Stack": _Look("cloudformation", "describe_stacks", "Stacks", "StackName"),
    **{
        f"AWS::SageMaker::{kind}": _Look("sagemaker", f"list_{snake_case(kind)}s", f"{kind}s", f"{kind}Arn")
        for kind in ("Endpoint", "EndpointConfig", "Model", "InferenceComponent")
    },
    "AWS::SageMaker::ProcessingJob": _Look(
        "sagemaker", "list_processing_jobs", "ProcessingJobSummaries", "ProcessingJobArn"
    ),
}
