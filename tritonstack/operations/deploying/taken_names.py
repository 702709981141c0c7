"""Find new resources whose names are taken: CloudFormation cannot create a second one.

Retained resources of a destroyed environment keep their names, as do resources that services create late.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from botocore.exceptions import ClientError

from tritonstack.base.results import public
from tritonstack.operations.aws import Cloud
from tritonstack.operations.deploying.assembly import Template

_REMEDY = (
    "an earlier environment retained it, or it was created manually: back up its data and delete it, "
    "or deploy under another name"
)


@dataclass(frozen=True)
class TakenName:
    """A new resource whose name is taken."""

    stack: str
    logical_id: str
    type: str
    name: str

    @public
    def summary(self) -> str:
        """The violation."""
        return (
            f"rejected: {self.type} {self.logical_id} must be created, but {self.name} already exists "
            "outside this stack"
        )

    @property
    def remedy(self) -> str:
        """Return the remedy."""
        return _REMEDY


def names_to_create(stack: str, deployed: Template | None, new: Template) -> Iterator[TakenName]:
    """Return the named resources that the deployed stack does not have. Pure."""
    before = (deployed or {}).get("Resources", {})
    for logical_id, resource in new.get("Resources", {}).items():
        if resource["Type"] not in _SORTS:
            continue
        naming = _SORTS[resource["Type"]][0]
        name = resource.get("Properties", {}).get(naming)
        if isinstance(name, str) and name != before.get(logical_id, {}).get("Properties", {}).get(naming):
            yield TakenName(stack, logical_id, resource["Type"], name)


def taken_names(cloud: Cloud, candidates: Iterable[TakenName]) -> list[TakenName]:
    """Return the new names that exist in this account outside their stack.

    A concurrent deployment may have created some in that stack since its template was read.
    """
    candidates, taken = list(candidates), set[tuple[str, str]]()
    for kind, (_, read) in _SORTS.items():
        names = {candidate.name for candidate in candidates if candidate.type == kind}
        if names:
            taken |= {(kind, name) for name in read(cloud, names) if name in names}
    return [
        candidate
        for candidate in candidates
        if (candidate.type, candidate.name) in taken and not _held_by_its_stack(cloud, candidate)
    ]


def _held_by_its_stack(cloud: Cloud, candidate: TakenName) -> bool:
    """Return whether the stack has created it by now."""
    client = cloud.client("cloudformation")
    try:
        resources = client.describe_stack_resources(
            StackName=candidate.stack, LogicalResourceId=candidate.logical_id
        )
    except ClientError as error:
        if "does not exist" in str(error):
            return False  # neither the stack nor its resource exists
        raise
    return any(
        item.get("PhysicalResourceId") == candidate.name and item["ResourceStatus"] != "DELETE_COMPLETE"
        for item in resources["StackResources"]
    )


def _buckets(cloud: Cloud, _: Collection[str]) -> Iterator[str]:
    for bucket in cloud.client("s3").list_buckets()["Buckets"]:
        yield bucket["Name"]


def _aliases(cloud: Cloud, _: Collection[str]) -> Iterator[str]:
    for page in cloud.client("kms").get_paginator("list_aliases").paginate():
        yield from (alias["AliasName"] for alias in page["Aliases"])


def _log_groups(cloud: Cloud, names: Collection[str]) -> Iterator[str]:
    logs = cloud.client("logs").get_paginator("describe_log_groups")
    for name in sorted(names):
        for page in logs.paginate(logGroupNamePrefix=name):
            yield from (group["logGroupName"] for group in page["logGroups"])


def _repositories(cloud: Cloud, _: Collection[str]) -> Iterator[str]:
    for page in cloud.client("ecr").get_paginator("describe_repositories").paginate():
        yield from (repository["repositoryName"] for repository in page["repositories"])


_SORTS: Mapping[str, tuple[str, Callable[[Cloud, Collection[str]], Iterator[str]]]] = {
    "AWS::ECR::Repository": ("RepositoryName", _repositories),
    "AWS::KMS::Alias": ("AliasName", _aliases),
    "AWS::Logs::LogGroup": ("LogGroupName", _log_groups),
    "AWS::S3::Bucket": ("BucketName", _buckets),
}
"""Resource types that can outlive stacks: the naming property, and how to list names."""
