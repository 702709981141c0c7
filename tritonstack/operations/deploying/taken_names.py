"""Names that a deploy would make something under, and that are taken: CloudFormation makes no second one.

What an environment was to retain stays under its name when the environment is destroyed, and so does what a
service made late by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.operations.aws import Cloud
from tritonstack.operations.deploying.assembly import Template

_REMEDY = (
    "an earlier environment of this name was to retain it, or somebody made it by hand: copy what is still "
    "wanted of it and delete it, or deploy under another name"
)


@dataclass(frozen=True)
class TakenName:
    """A resource that is to be made, and is there."""

    stack: str
    logical_id: str
    type: str
    name: str

    @property
    def words(self) -> str:
        """What is wrong with it."""
        return (
            f"refused: {self.type} {self.logical_id} would have to be made, and there is one named "
            f"{self.name} already, which this stack does not hold"
        )

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return _REMEDY

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self) | {"words": self.words}


def names_to_make(stack: str, deployed: Template | None, wanted: Template) -> Iterator[TakenName]:
    """What of a stack comes under a name of its own that the stack as it stands has not. Pure."""
    before = (deployed or {}).get("Resources", {})
    for logical_id, resource in wanted.get("Resources", {}).items():
        if resource["Type"] not in _SORTS:
            continue
        naming = _SORTS[resource["Type"]][0]
        name = resource.get("Properties", {}).get(naming)
        if isinstance(name, str) and name != before.get(logical_id, {}).get("Properties", {}).get(naming):
            yield TakenName(stack, logical_id, resource["Type"], name)


def taken_names(cloud: Cloud, wished: Iterable[TakenName]) -> list[TakenName]:
    """Those among the names to be made that are taken in this account, and not by their own stack.

    Another deploy may be making that stack just now: since the look at its template it holds more.
    """
    wished, taken = list(wished), set[tuple[str, str]]()
    for kind, (_, read) in _SORTS.items():
        names = {one.name for one in wished if one.type == kind}
        if names:
            taken |= {(kind, name) for name in read(cloud, names) if name in names}
    return [one for one in wished if (one.type, one.name) in taken and not _held_by_its_stack(cloud, one)]


def _held_by_its_stack(cloud: Cloud, one: TakenName) -> bool:
    """Whether CloudFormation says by now that the stack has made it."""
    client = cloud.client("cloudformation")
    try:
        found = client.describe_stack_resources(StackName=one.stack, LogicalResourceId=one.logical_id)
    except ClientError as error:
        if "does not exist" in str(error):
            return False  # neither the stack nor, in it, the resource
        raise
    return any(
        item.get("PhysicalResourceId") == one.name and item["ResourceStatus"] != "DELETE_COMPLETE"
        for item in found["StackResources"]
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
"""What outlives stacks under a name: the property of that, and how to see which names there are."""
