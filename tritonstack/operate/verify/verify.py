"""Verify that an environment runs and answers what the checked-out files ask for."""

from __future__ import annotations

from collections.abc import Collection

from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.deploy.preflight import require_built, require_endpoint
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.revisions import require_unchanged, revision_of
from tritonstack.operate.shared.running import wait_until_served
from tritonstack.operate.shared.session import Session
from tritonstack.operate.shared.stacks import environment_stacks, wait_until_settled
from tritonstack.operate.synth.synthesis import cdk_of, synthesized
from tritonstack.operate.verify.smoke import smoke_endpoint
from tritonstack.operate.verify.verdicts import (
    EndpointVerdict,
    Verdict,
    check_endpoints,
    check_shared_stacks,
    record_verdict,
    with_smoke,
)


def verify(
    session: Session,
    environment: str,
    *,
    instance: str | None = None,
    endpoints: Collection[str] = (),
    smoke: bool = True,
    record: bool = True,
    wait: bool = False,
) -> Verdict:
    """Verify an environment, an instance of a template, or some endpoints; read `passed` of the verdict.

    Without `smoke`, no endpoint is invoked. Without `record`, nothing is written, and read access is enough.
    With `wait`, wait for running updates first.
    """
    workspace = session.workspace(environment, instance)
    require_built(workspace)
    for name in endpoints:
        require_endpoint(workspace, name)
    return verify_workspace(
        session,
        workspace,
        session.cloud(workspace.spec),
        endpoints=endpoints,
        smoke=smoke,
        record=record,
        wait=wait,
    )


def verify_workspace(
    session: Session,
    workspace: Workspace,
    cloud: Cloud,
    *,
    endpoints: Collection[str] = (),
    smoke: bool = True,
    record: bool = True,
    wait: bool = False,
) -> Verdict:
    """Verify a loaded environment, or some of its endpoints; see `verify`."""
    names = [name for name in workspace.spec.endpoints if not endpoints or name in endpoints]
    if wait:
        _wait(session, workspace, cloud, names)
    revision = revision_of(workspace)
    with (
        synthesized(session, workspace, cdk_of(workspace, cloud)) as assembly,
        session.reporter.step("reading the current state") as step,
    ):
        require_unchanged(workspace, revision)
        stacks = [] if endpoints else check_shared_stacks(cloud, workspace, assembly)
        verdicts = check_endpoints(cloud, workspace, assembly, names)
        passed = [*(check.passed for check in stacks), *(endpoint.passed for endpoint in verdicts)]
        step.failed = not all(passed)
    if smoke:
        verdicts = [_asked(session, workspace, cloud, endpoint) for endpoint in verdicts]
    verdict = Verdict(
        environment=workspace.spec.name,
        revision=revision,
        endpoints=tuple(verdicts),
        stacks=tuple(stacks),
        tested=smoke,
    )
    if record:
        with session.reporter.step("recording the verdict"):
            record_verdict(cloud, workspace, verdict)
    return verdict


def _asked(session: Session, workspace: Workspace, cloud: Cloud, verdict: EndpointVerdict) -> EndpointVerdict:
    """Invoke an endpoint and add its answers to the verdict; a missing endpoint is not invoked."""
    if len(verdict.checks) == 1:
        return verdict
    with session.reporter.step(f"testing {verdict.name}") as step:
        checked = with_smoke(verdict, smoke_endpoint(cloud, workspace, verdict.name))
        step.detail = checked.checks[-1].detail
        step.failed = not checked.checks[-1].passed
    return checked


def _wait(session: Session, workspace: Workspace, cloud: Cloud, names: Collection[str]) -> None:
    spec = workspace.spec
    with session.reporter.step("waiting for running operations") as step:
        stacks = [stack.name for stack in environment_stacks(cloud, spec.base) if stack.in_progress]
        wait_until_settled(cloud, stacks, on_change=lambda stack: step.log(f"{stack.name}: {stack.status}"))
        full_names = [spec.endpoint_name(name) for name in names]
        wait_until_served(cloud, full_names, on_change=lambda name, status: step.log(f"{name}: {status}"))
