"""How services list what has a name: to find resources, and to check those that are known by their tags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack.facts.images import ACCOUNTS
from tritonstack.operate.audit.resources import AuditScope, AwsResource, snake_case
from tritonstack.operate.shared.aws import Cloud, pages


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
