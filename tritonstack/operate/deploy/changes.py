"""Compare the deployed stacks with the synthesized ones before a deployment."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tritonstack.operate.deploy.cdk_changes import PlannedChange, may_be_rejected, resource_changes
from tritonstack.operate.deploy.plans import RejectedChangeError, StackPlan, plan_stack, unregistered
from tritonstack.operate.deploy.taken_names import TakenName, names_to_create, taken_names
from tritonstack.operate.destroy.retained import variants_of
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.running import EndpointState, endpoint_states
from tritonstack.operate.shared.stacks import environment_stacks
from tritonstack.operate.synth.assembly import Assembly, Template, deployed_templates, with_instance_types
from tritonstack.operate.synth.cdk import CdkCli

DEPLOY_OPTIONS = ("--require-approval", "never", "--concurrency", "4", "--progress", "events")

_HOLD_MORE_THAN_THEY_TELL = ("ROLLBACK_FAILED", "DELETE_FAILED")
"""Statuses of stacks that do not exist and hold no resources."""
_UPDATED = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
"""What CloudFormation reports even if SageMaker has rolled the endpoint back."""


@dataclass(frozen=True)
class Outdated:
    """An endpoint or component that was rolled back, and that CloudFormation does not update: its stack has
    the deployed configuration already.
    """

    stack: str
    state: EndpointState
    is_other_type: bool
    """Whether it runs on other instance types than its stack deployed."""


@dataclass(frozen=True)
class Changes:
    """The plans and templates of all stacks of an environment."""

    assembly: Assembly
    deployed: Mapping[str, Template]
    plans: Sequence[StackPlan]
    leftovers: Sequence[str] = ()
    """Deployed stacks that the environment's file no longer requests."""
    taken: Sequence[TakenName] = ()
    """New resources whose names are taken."""
    outdated: Sequence[Outdated] = ()

    @property
    def rejected(self) -> list[StackPlan]:
        """Return the impossible changes."""
        return [plan for plan in self.plans if plan.action == "rejected"]

    @property
    def two_phase(self) -> list[StackPlan]:
        """Return the changes that require removing scaling first."""
        return [plan for plan in self.plans if plan.action == "two-phase"]

    def of(self, stacks: Collection[str]) -> Changes:
        """Return the changes of some stacks only."""
        plans = [plan for plan in self.plans if plan.stack in stacks]
        taken = [name for name in self.taken if name.stack in stacks]
        return replace(self, plans=plans, leftovers=(), taken=taken)

    def require_possible(self, planned: Iterable[PlannedChange] = ()) -> None:
        """Raise RejectedChangeError with all impossible changes, including those in `planned`."""
        hazards = [hazard for plan in self.rejected for hazard in plan.hazards if hazard.rejected]
        single: list[TakenName | PlannedChange] = [
            *self.taken,
            *(change for change in planned if change.rejected),
        ]
        messages = [plan.summary for plan in self.rejected]
        messages += [f"{conflict.stack}: {conflict.summary}" for conflict in single]
        if messages:
            remedies = [hazard.remedy for hazard in hazards] + [conflict.remedy for conflict in single]
            unique_remedies = dict.fromkeys(remedy for remedy in remedies if remedy)
            raise RejectedChangeError("\n".join(messages), remedy="; ".join(unique_remedies))


def plan_stack_changes(cloud: Cloud, base: str, assembly: Assembly) -> Changes:
    """Compare the deployed stacks with the synthesized ones."""
    stacks = environment_stacks(cloud, base)
    deployed = deployed_templates(cloud, stacks, assembly=assembly)
    compared = compare_stacks(assembly, deployed)
    leftovers = [stack.name for stack in stacks if stack.name not in assembly.stacks]
    # Names that these stacks hold themselves are not taken.
    unfinished = {stack.name for stack in stacks if stack.status in _HOLD_MORE_THAN_THEY_TELL}
    new_names = [
        name
        for stack in assembly.stacks
        if stack not in unfinished
        for name in names_to_create(stack, deployed.get(stack), assembly.template(stack))
    ]
    return replace(compared, leftovers=leftovers, taken=taken_names(cloud, new_names))


def compare_endpoints(cloud: Cloud, base: str, changes: Changes) -> Changes:
    """Consider endpoints that were rolled back although their stacks were updated.

    SageMaker compares instance types with those that run, not with those that the stack deployed.
    """
    plans, outdated = list[StackPlan](), list[Outdated]()
    updated = {stack.name for stack in environment_stacks(cloud, base) if stack.status in _UPDATED}
    for plan in changes.plans:
        states = endpoint_states(cloud, plan.stack) if plan.endpoint and plan.stack in updated else []
        states = [state for state in states if state.is_outdated]
        running = changes.deployed.get(plan.stack, {})
        for state in states:
            if state.runs == "configuration":
                variants = variants_of(cloud.client("sagemaker"), state.active) or {}
                types = {name: variant.get("InstanceType") for name, variant in variants.items()}
                running = with_instance_types(running, types)
        is_other_type = bool(states) and running != changes.deployed[plan.stack]
        if plan.action in ("nothing", "change"):
            outdated += [Outdated(plan.stack, state, is_other_type) for state in states]
        new = changes.assembly.template(plan.stack)
        plans.append(plan_stack(plan.stack, deployed=running, new=new) if is_other_type else plan)
    return replace(changes, plans=plans, outdated=outdated)


def compare_stacks(assembly: Assembly, deployed: Mapping[str, Template]) -> Changes:
    """Compare templates with the synthesized ones. Pure."""
    plans = [
        plan_stack(stack, deployed=deployed.get(stack), new=assembly.template(stack))
        for stack in assembly.stacks
    ]
    return Changes(assembly, deployed, plans, [stack for stack in deployed if stack not in assembly.stacks])


def cdk_diff(cdk: CdkCli, assembly: Assembly, *stacks: str) -> list[str]:
    """Return the CDK's diff; of all stacks if none is named."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tritonstack-") as folder:
        # The CDK's lookup role can read the whole account; the caller's permissions suffice.
        copy = assembly.without_roles(Path(folder) / "assembly")
        # Compare templates only: a change set would create a resource in the account.
        cdk.run("diff", *stacks, "--method=template", assembly=copy.folder, on_line=lines.append)
    return lines


def cdk_diff_of_templates(cdk: CdkCli, assembly: Assembly, before: Mapping[str, Template]) -> list[str]:
    """Return the CDK's diff of all stacks with earlier templates, without an AWS call."""

    def diff(stack: str) -> list[str]:
        lines: list[str] = []
        file = Path(folder) / f"{stack}.json"
        file.write_text(json.dumps(before.get(stack, {})))
        arguments = (stack, "--exclusively", f"--template={file}")
        cdk.run("diff", *arguments, assembly=assembly.folder, on_line=lines.append)
        return lines

    changed = [stack for stack in assembly.stacks if before.get(stack) != assembly.template(stack)]
    # With --template, the CDK takes one stack per process; each start costs a second or more.
    with (
        tempfile.TemporaryDirectory(prefix="tritonstack-") as folder,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        return [line for lines in pool.map(diff, changed) for line in lines]


def rejected_changes(cdk: CdkCli, changes: Changes) -> list[PlannedChange]:
    """Return the resources that must be replaced under the same name, according to the CDK."""
    templates = {plan.stack: changes.assembly.template(plan.stack) for plan in changes.plans}
    changed = [name for name in templates if may_be_rejected(changes.deployed.get(name), templates[name])]
    if not changed:
        return []
    lines = cdk_diff(cdk, changes.assembly, *changed, "--exclusively")
    planned = resource_changes(lines, changes.deployed, templates)
    return [change for stack_changes in planned.values() for change in stack_changes if change.rejected]


def leftover_note(stack: str) -> str:
    """Return the note on a stack that is no longer requested; a deployment never deletes stacks."""
    return (
        "is deployed, but no longer in the environment's file; delete it with `aws cloudformation "
        f"delete-stack --stack-name {stack}`"
    )


def left_without_scaling(cloud: Cloud, base: str, changes: Changes) -> list[str]:
    """Return the endpoints whose scaling was removed in phase 1 and whose stacks did not change in phase
    2."""
    deployed = deployed_templates(cloud, environment_stacks(cloud, base), assembly=changes.assembly)
    return [
        plan.endpoint or plan.stack
        for plan in changes.two_phase
        if deployed.get(plan.stack) != changes.assembly.template(plan.stack)
    ]


def remove_scaling(cdk: CdkCli, changes: Changes, *, on_line: Callable[[str], None]) -> None:
    """Return phase 1: the deployed stacks without the scaling registrations that block the update.

    The CDK deploys them as usual. Phase 2 is the deployment itself, which registers scaling again.
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
