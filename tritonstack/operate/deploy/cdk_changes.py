"""Parse the CDK's diff into records, because the CDK knows which properties require replacement."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tritonstack.base.results import public
from tritonstack.operate.synth.assembly import CONFIG, MODEL, Template

ChangeAction = Literal["replaced", "maybe replaced", "deleted", "orphaned"]

_STACK = re.compile(r"^Stack (?P<stack>[A-Za-z0-9-]+)(?: |$)")
_RESOURCE = re.compile(
    r"^\[[~-]\] (?P<type>[A-Za-z0-9]+::\S+) (?:\S+ )?(?P<id>[A-Za-z0-9]+) "
    r"(?P<action>replace|may be replaced|destroy|orphan)$"
)
_ACTIONS: dict[str, ChangeAction] = {
    "replace": "replaced",
    "may be replaced": "maybe replaced",
    "destroy": "deleted",
    "orphan": "orphaned",
}
_NAMES = {
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::CodeBuild::Project": "Name",
    "AWS::ECR::Repository": "RepositoryName",
    "AWS::Events::Rule": "Name",
    "AWS::KMS::Alias": "AliasName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SSM::Parameter": "Name",
    "AWS::SageMaker::Endpoint": "EndpointName",
    "AWS::SageMaker::InferenceComponent": "InferenceComponentName",
}
"""The naming property per resource type."""
_CHANGED_IN_PLACE = frozenset(
    {"AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard", "AWS::SageMaker::Endpoint"}
)
"""Types that only a new name replaces."""
_MADE_ANEW_BY_ROLLOUTS = frozenset({MODEL, CONFIG})
"""Immutable types that every rollout recreates, with no loss."""


@dataclass(frozen=True)
class PlannedChange:
    """A resource that is replaced, deleted, or orphaned."""

    stack: str
    logical_id: str
    type: str
    action: ChangeAction
    name: str | None = None
    """Its name, if it is kept: CloudFormation cannot create a second resource with that name."""

    @public
    def rejected(self) -> bool:
        """Return whether CloudFormation rejects the change."""
        return self.name is not None and self.action == "replaced"

    @property
    def expected(self) -> bool:
        """Return whether it is part of every rollout."""
        return self.type in _MADE_ANEW_BY_ROLLOUTS

    @property
    def summary(self) -> str:
        """Return the change in one line."""
        subject = f"{self.type} {self.logical_id}"
        if self.rejected:
            return (
                f"rejected: {subject} must be replaced, but CloudFormation cannot create a second one "
                f"named {self.name}"
            )
        return {
            "replaced": f"replaces {subject}",
            "maybe replaced": f"may replace {subject}",
            "deleted": f"deletes {subject}",
            "orphaned": f"orphans {subject}: it is kept without a stack",
        }[self.action]

    @property
    def remedy(self) -> str | None:
        """Return the remedy of a rejected change."""
        return "rename it, or revert the change that replaces it" if self.rejected else None


def resource_changes(
    lines: Iterable[str], deployed: Mapping[str, Template], new: Mapping[str, Template]
) -> dict[str, list[PlannedChange]]:
    """Parse the output lines of `cdk diff` into changes per stack."""
    changes: dict[str, list[PlannedChange]] = defaultdict(list)
    stack = ""
    for line in lines:
        if head := _STACK.match(line):
            stack = head["stack"]
        elif match := _RESOURCE.match(line):
            name = _retained_name(match["type"], match["id"], deployed.get(stack, {}), new.get(stack, {}))
            changes[stack].append(
                PlannedChange(stack, match["id"], match["type"], _ACTIONS[match["action"]], name)
            )
    return changes


def may_be_rejected(deployed: Template | None, new: Template) -> bool:
    """Return whether a named resource changes that may have to be replaced; only the CDK can tell."""
    before = (deployed or {}).get("Resources", {})
    return any(
        resource["Type"] in _NAMES.keys() - _CHANGED_IN_PLACE
        and logical_id in before
        and before[logical_id].get("Properties") != resource.get("Properties")
        for logical_id, resource in new.get("Resources", {}).items()
    )


def _retained_name(kind: str, logical_id: str, deployed: Template, new: Template) -> str | None:
    """Return a resource's name, if both templates state the same one."""
    sides = [
        template.get("Resources", {}).get(logical_id, {}).get("Properties", {}).get(_NAMES.get(kind, ""))
        for template in (deployed, new)
    ]
    return sides[0] if isinstance(sides[0], str) and sides[0] == sides[1] else None
