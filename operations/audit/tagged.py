"""The listing by tag, of all services that AWS's tagging service knows, whatever things are called there.

It is the only one that finds what bears another name, or is of a sort that no listing by name is for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from operations.audit.found import Found, Scope, pages, snake_case, tags_of
from operations.audit.network import IMAGE_TYPES, PART_TYPES
from operations.aws import Cloud, error_code

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
    (r"sagemaker:endpoint/", "AWS::SageMaker::Endpoint", _whole),
    (r"sagemaker:endpoint-config/", "AWS::SageMaker::EndpointConfig", _whole),
    (r"sagemaker:model/", "AWS::SageMaker::Model", _whole),
    (r"sagemaker:inference-component/", "AWS::SageMaker::InferenceComponent", _whole),
    (r"cloudwatch:alarm:", "AWS::CloudWatch::Alarm", lambda arn: _resource(arn).partition(":")[2]),
    (r"cloudwatch:dashboard/", "AWS::CloudWatch::Dashboard", _after_slash),
    (r"sns:", "AWS::SNS::Topic", _whole),
    (r"events:rule/", "AWS::Events::Rule", _last),
    (r"iam:role/", "AWS::IAM::Role", _last),
    (r"iam:policy/", "AWS::IAM::ManagedPolicy", _whole),
    (r"ssm:parameter/", "AWS::SSM::Parameter", lambda arn: _resource(arn).removeprefix("parameter")),
    (r"codebuild:project/", "AWS::CodeBuild::Project", _after_slash),
    (r"cloudformation:stack/", "AWS::CloudFormation::Stack", lambda arn: _resource(arn).split("/")[1]),
    (r"ec2:vpc/", "AWS::EC2::VPC", _last),
    (r"ec2:subnet/", "AWS::EC2::Subnet", _last),
    (r"ec2:route-table/", "AWS::EC2::RouteTable", _last),
    (r"ec2:security-group/", "AWS::EC2::SecurityGroup", _last),
    (r"ec2:vpc-endpoint/", "AWS::EC2::VPCEndpoint", _last),
    (r"ec2:vpc-flow-log/", "AWS::EC2::FlowLog", _last),
    (r"ec2:network-interface/", "AWS::EC2::NetworkInterface", _last),
    (r"ec2:network-acl/", "AWS::EC2::NetworkAcl", _last),
    (r"ec2:image/", "AWS::EC2::Image", _last),
    (r"ec2:snapshot/", "AWS::EC2::Snapshot", _last),
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
    """Everything with the tags of the scope that is still there, but what EC2 itself lists by its tags."""
    filters = [{"Key": key, "Values": [value]} for key, value in sorted(scope.tags.items())]
    client = cloud.client("resourcegroupstaggingapi")
    for item in pages(client, "get_resources", "ResourceTagMappingList", TagFilters=filters):
        kind, name = type_and_id(item["ResourceARN"])
        if kind in (*PART_TYPES, *IMAGE_TYPES):
            continue
        if still := _look_again(cloud, Found(kind, name, tags_of(item["Tags"]))):
            yield still


def _look_again(cloud: Cloud, found: Found) -> Found | None:
    """The same, if its service knows it: the tagging service goes on for a while listing what has gone."""
    if found.type not in _LOOKS:
        return found
    service, look = _LOOKS[found.type]
    try:
        there = look(cloud.client(service), found.id)
    except ClientError as error:
        if _GONE_CODE.search(error_code(error)) or _GONE_WORDS.search(str(error)):
            return None
        raise
    if not there:
        return None
    pending = found.type == "AWS::KMS::Key" and there["KeyMetadata"]["KeyState"] == "PendingDeletion"
    return replace(found, pending=pending)


_GONE_CODE = re.compile("NotFound|NoSuch|^404$")
_GONE_WORDS = re.compile("[Cc]ould not find|does not exist")


def _of_sagemaker(kind: str) -> tuple[str, Callable[[Any, str], Any]]:
    operation = f"describe_{snake_case(kind)}"
    return "sagemaker", lambda client, arn: getattr(client, operation)(**{f"{kind}Name": _last(arn)})


def _log_group(client: Any, name: str) -> Any:
    groups = client.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
    return [group for group in groups if group["logGroupName"] == name]


_LOOKS: Mapping[str, tuple[str, Callable[[Any, str], Any]]] = {
    "AWS::S3::Bucket": ("s3", lambda client, name: client.head_bucket(Bucket=name)),
    "AWS::KMS::Key": ("kms", lambda client, name: client.describe_key(KeyId=name)),
    "AWS::ECR::Repository": (
        "ecr",
        lambda client, name: client.describe_repositories(repositoryNames=[name]),
    ),
    "AWS::Logs::LogGroup": ("logs", _log_group),
    "AWS::CloudWatch::Alarm": (
        "cloudwatch",
        lambda client, name: next(
            (
                alarms
                for alarms in client.describe_alarms(
                    AlarmNames=[name], AlarmTypes=["MetricAlarm", "CompositeAlarm"]
                ).values()
                if isinstance(alarms, list) and alarms
            ),
            None,
        ),
    ),
    "AWS::CloudWatch::Dashboard": (
        "cloudwatch",
        lambda client, name: client.get_dashboard(DashboardName=name),
    ),
    "AWS::SNS::Topic": ("sns", lambda client, arn: client.get_topic_attributes(TopicArn=arn)),
    "AWS::Events::Rule": ("events", lambda client, name: client.describe_rule(Name=name)),
    "AWS::SSM::Parameter": ("ssm", lambda client, name: client.get_parameter(Name=name)),
    "AWS::CodeBuild::Project": (
        "codebuild",
        lambda client, name: client.batch_get_projects(names=[name])["projects"],
    ),
    "AWS::CloudFormation::Stack": (
        "cloudformation",
        lambda client, name: client.describe_stacks(StackName=name),
    ),
    **{
        f"AWS::SageMaker::{kind}": _of_sagemaker(kind)
        for kind in ("Endpoint", "EndpointConfig", "Model", "InferenceComponent")
    },
}
"""How each service is asked for one thing: something true if it is there."""
