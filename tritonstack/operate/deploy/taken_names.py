"""Find new resources whose names are taken: CloudFormation cannot create a second one.

Retained resources of a destroyed environment keep their names, as do resources that services create late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tritonstack.base.results import public
from tritonstack.operate.shared.aws import Cloud, if_present, pages
from tritonstack.operate.synth.assembly import Template

_REMEDY = (
    "an earlier environment retained it, or it was created manually: back up its data and delete it, "
    "or deploy under another name"
)


@dataclass(frozen=True)
class _Sort:
    """A resource type: the property that names it, and how to list the names that exist."""

    naming: str
    service: str
    operation: str
    key: str
    name: str
    prefix: str = ""
    """The parameter that narrows the list to a name, if the service has one."""

    def existing(self, cloud: Cloud, names: Collection[str]) -> Iterator[str]:
        """Yield the names that exist, at least those among `names`."""
        client = cloud.client(self.service)
        narrowed: list[dict[str, str]] = (
            [{self.prefix: name} for name in sorted(names)] if self.prefix else [{}]
        )
        for parameters in narrowed:
            yield from (item[self.name] for item in pages(client, self.operation, self.key, **parameters))


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
        naming = _SORTS[resource["Type"]].naming
        name = resource.get("Properties", {}).get(naming)
        if isinstance(name, str) and name != before.get(logical_id, {}).get("Properties", {}).get(naming):
            yield TakenName(stack, logical_id, resource["Type"], name)


def taken_names(cloud: Cloud, candidates: Iterable[TakenName]) -> list[TakenName]:
    """Return the new names that exist in this account outside their stack.

    A concurrent deployment may have created some in that stack since its template was read.
    """
    candidates, taken = list(candidates), set[tuple[str, str]]()
    for kind, sort in _SORTS.items():
        names = {candidate.name for candidate in candidates if candidate.type == kind}
        if names:
            taken |= {(kind, name) for name in sort.existing(cloud, names) if name in names}
    return [
        candidate
        for candidate in candidates
        if (candidate.type, candidate.name) in taken and not _held_by_its_stack(cloud, candidate)
    ]


def _held_by_its_stack(cloud: Cloud, candidate: TakenName) -> bool:
    """Return whether the stack has created it by now; neither stack nor resource may exist."""
    describe = cloud.client("cloudformation").describe_stack_resources
    answer = if_present(describe, StackName=candidate.stack, LogicalResourceId=candidate.logical_id)
    return answer is not None and any(
        item.get("PhysicalResourceId") == candidate.name and item["ResourceStatus"] != "DELETE_COMPLETE"
        for item in answer["StackResources"]
    )


_SORTS = {
    "AWS::ECR::Repository": _Sort(
        "RepositoryName", "ecr", "describe_repositories", "repositories", "repositoryName"
    ),
    "AWS::KMS::Alias": _Sort("AliasName", "kms", "list_aliases", "Aliases", "AliasName"),
    "AWS::Logs::LogGroup": _Sort(
        "LogGroupName", "logs", "describe_log_groups", "logGroups", "logGroupName", "logGroupNamePrefix"
    ),
    "AWS::S3::Bucket": _Sort("BucketName", "s3", "list_buckets", "Buckets", "Name"),
}
"""Resource types that can outlive stacks."""
