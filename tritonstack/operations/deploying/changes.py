"""A deploy, looked at before it is made: what stands, what is to be, and what lies between."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import Cloud
from tritonstack.operations.deploying.assembly import Assembly, Template
from tritonstack.operations.deploying.cdk import CdkCli
from tritonstack.operations.deploying.cdk_changes import ResourceFate, may_be_refused, resource_fates
from tritonstack.operations.deploying.plans import StackPlan, plan_stack
from tritonstack.operations.deploying.taken_names import TakenName, names_to_make, taken_names
from tritonstack.operations.deploying.updates import unregistered
from tritonstack.operations.stacks import deployed_templates, environment_stacks

DEPLOY_OPTIONS = ("--require-approval", "never", "--concurrency", "4", "--progress", "events")

_HOLD_MORE_THAN_THEY_TELL = ("ROLLBACK_FAILED", "DELETE_FAILED")
"""Stacks that do not stand, and have not let go of everything."""


class RefusedChangeError(TritonstackError):
    """SageMaker or CloudFormation would refuse the change, whatever the order of updates."""


@dataclass(frozen=True)
class Changes:
    """The plans of all stacks of an environment, and the templates that they come from."""

    assembly: Assembly
    deployed: Mapping[str, Template]
    plans: Sequence[StackPlan]
    leftovers: Sequence[str] = ()
    """Stacks that stand, and that the environment's file no longer asks for."""
    taken: Sequence[TakenName] = ()
    """What is to be made under names that are taken."""

    @property
    def refused(self) -> list[StackPlan]:
        """What cannot be done."""
        return [plan for plan in self.plans if plan.action == "refused"]

    @property
    def two_phase(self) -> list[StackPlan]:
        """What needs scaling taken off first."""
        return [plan for plan in self.plans if plan.action == "two-phase"]

    def of(self, stacks: Collection[str]) -> Changes:
        """Those of some stacks alone."""
        plans = [plan for plan in self.plans if plan.stack in stacks]
        taken = [one for one in self.taken if one.stack in stacks]
        return replace(self, plans=plans, leftovers=(), taken=taken)

    def require_possible(self, fates: Iterable[ResourceFate] = ()) -> None:
        """Raise RefusedChangeError with all that cannot be done, `fates` of single resources among it."""
        hazards = [hazard for plan in self.refused for hazard in plan.hazards if hazard.refused]
        single: list[TakenName | ResourceFate] = [*self.taken, *(fate for fate in fates if fate.refused)]
        words = [plan.words for plan in self.refused]
        words += [f"{one.stack}: {one.words}" for one in single]
        if words:
            remedies = [hazard.remedy for hazard in hazards] + [one.remedy for one in single]
            told = dict.fromkeys(remedy for remedy in remedies if remedy)
            raise RefusedChangeError("\n".join(words), remedy="; ".join(told))


def look_ahead(cloud: Cloud, base: str, assembly: Assembly) -> Changes:
    """Compare what stands with what was synthesised."""
    standing = environment_stacks(cloud, base)
    deployed = deployed_templates(cloud, standing, wanted=assembly)
    plans = [
        plan_stack(stack, deployed=deployed.get(stack), new=assembly.template(stack))
        for stack in assembly.stacks
    ]
    leftovers = [stack.name for stack in standing if stack.name not in assembly.stacks]
    # What these hold themselves is no other's.
    unfinished = {stack.name for stack in standing if stack.status in _HOLD_MORE_THAN_THEY_TELL}
    wished = [
        name
        for stack in assembly.stacks
        if stack not in unfinished
        for name in names_to_make(stack, deployed.get(stack), assembly.template(stack))
    ]
    return Changes(assembly, deployed, plans, leftovers, taken_names(cloud, wished))


def cdk_diff(cdk: CdkCli, assembly: Assembly, *stacks: str) -> list[str]:
    """The CDK's own words of what a deploy would change; of all stacks if none is named."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tritonstack-") as folder:
        # The role that the CDK would look with reads the whole account; its callers read the stacks anyhow.
        looked_at = assembly.without_roles(Path(folder) / "assembly")
        # By the templates alone: a change set is something that is made in the account.
        cdk.run("diff", *stacks, "--method=template", assembly=looked_at.folder, on_line=lines.append)
    return lines


def refused_fates(cdk: CdkCli, changes: Changes) -> list[ResourceFate]:
    """What would have to be replaced under its own name; the CDK is asked where that could be so."""
    wanted = {plan.stack: changes.assembly.template(plan.stack) for plan in changes.plans}
    changed = [name for name in wanted if may_be_refused(changes.deployed.get(name), wanted[name])]
    if not changed:
        return []
    lines = cdk_diff(cdk, changes.assembly, *changed, "--exclusively")
    fates = resource_fates(lines, changes.deployed, wanted)
    return [fate for of_stack in fates.values() for fate in of_stack if fate.refused]


def leftover_words(stack: str) -> str:
    """What becomes of a stack that nobody asks for any more, and what ends it: a deploy deletes nothing."""
    return (
        "still stands, though the environment's file no longer asks for it; "
        f"`aws cloudformation delete-stack --stack-name {stack}` ends it"
    )


def left_without_scaling(cloud: Cloud, base: str, changes: Changes) -> list[str]:
    """The endpoints whose scaling the first phase took off, and whose stacks the second did not change."""
    standing = deployed_templates(cloud, environment_stacks(cloud, base), wanted=changes.assembly)
    return [
        plan.endpoint or plan.stack
        for plan in changes.two_phase
        if standing.get(plan.stack) != changes.assembly.template(plan.stack)
    ]


def take_scaling_off(cdk: CdkCli, changes: Changes, *, on_line: Callable[[str], None]) -> None:
    """The first of two phases: the stacks as they stand, without the registrations that are in the way.

    The CDK deploys them, with the roles and parameters it deploys everything with. The second phase is the
    deploy itself, which registers again what its templates ask for.
    """
    templates = {
        plan.stack: unregistered(
            changes.deployed[plan.stack], {hazard.variant for hazard in plan.hazards if hazard.variant}
        )
        for plan in changes.two_phase
    }
    with tempfile.TemporaryDirectory(prefix="tritonstack-") as folder:
        first = changes.assembly.with_templates(templates, Path(folder) / "assembly")
        cdk.run(
            "deploy", *templates, "--exclusively", *DEPLOY_OPTIONS, assembly=first.folder, on_line=on_line
        )
