"""`tritonstack deploy`: foundation, artifacts, endpoints, in this order, with the CDK command line."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from catalog import naming
from catalog.errors import InvalidFilesError, TritonstackError, shown_path
from catalog.manifests import MANIFEST_NAME
from catalog.naming import artifact_prefix
from catalog.workspace import Workspace, load_workspace
from cli.context import Context
from cli.output import Step
from model_build.artifacts import verify_artifact
from model_build.store import publish
from operations.artifacts import is_published
from operations.aws import Cloud
from operations.cdk import CdkCli, InterruptedDeployError, find_cdk
from operations.stacks import environment_stacks, is_bootstrapped, wait_until_settled


def deploy(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment to deploy.")],
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap", help="Run `cdk bootstrap` first if the account needs it.")
    ] = False,
) -> None:
    """Deploy an environment: its foundation, the artifacts its lock names, then its endpoints.

    `cdk deploy --all -c env=<environment>` does the same once the artifacts are in the bucket.

    Example: tritonstack deploy local --bootstrap
    """
    state: Context = context.obj
    workspace = load_workspace(state.project, environment)
    unbuilt = [problem for name in workspace.spec.endpoints for problem in workspace.unbuilt(name)]
    if unbuilt:
        raise InvalidFilesError(unbuilt)
    cloud = state.cloud(workspace.spec)
    cdk = find_cdk(state.project.root, environment_name=environment, variables=cloud.process_environment())
    try:
        _deploy(state, workspace, cloud, cdk, bootstrap=bootstrap)
    except KeyboardInterrupt:
        raise InterruptedDeployError(_interrupted(cloud, workspace), remedy=_resume(environment)) from None


def _deploy(state: Context, workspace: Workspace, cloud: Cloud, cdk: CdkCli, *, bootstrap: bool) -> None:
    spec = workspace.spec
    foundation = naming.foundation_stack_name(spec.base)
    endpoints = [naming.endpoint_stack_name(spec.base, name) for name in spec.endpoints]
    with state.output.step("waiting for what CloudFormation is still doing") as step:
        wait_until_settled(
            cloud, [foundation, *endpoints], on_change=lambda stack: step.log(f"{stack.name}: {stack.status}")
        )
    missing = _missing(state, workspace, cloud)
    _require_bootstrap(state, workspace, cloud, cdk, allowed=bootstrap)
    with tempfile.TemporaryDirectory(prefix="tritonstack-") as folder:
        assembly = Path(folder)
        with state.output.step("synthesising the stacks") as step:
            cdk.run("synth", "--quiet", "--output", folder, on_line=step.update)
        if missing:
            _cdk_deploy(state, cdk, assembly, foundation)
        for artifact in missing:
            _publish(state, workspace, cloud, artifact)
        _cdk_deploy(state, cdk, assembly, "--all")
    for stack in environment_stacks(cloud, spec.base):
        if stack.name not in (foundation, *endpoints):
            state.output.note(
                f"stack {stack.name} still runs, though {shown_path(workspace.environment.file)} no longer "
                f"names its endpoint; `aws cloudformation delete-stack --stack-name {stack.name}` ends it"
            )
    names = {name: spec.endpoint_name(name) for name in spec.endpoints}
    state.output.result(
        {"environment": spec.name, "endpoints": names},
        text="\n".join(f"{name}: endpoint {full} is in service" for name, full in names.items()),
    )


def _cdk_deploy(state: Context, cdk: CdkCli, assembly: Path, stacks: str) -> None:
    what = "what has changed" if stacks == "--all" else stacks
    options = ("--require-approval", "never", "--concurrency", "4", "--progress", "events")
    with state.output.step(f"deploying {what}") as step:
        cdk.run("deploy", stacks, *options, assembly=assembly, on_line=lambda line: _show(step, line))


def _show(step: Step, line: str) -> None:
    """Of all that the CDK says, the events of the resources."""
    columns = [column.strip() for column in line.split(" | ")]
    if len(columns) != 6:
        return
    _, progress, _, status, kind, resource = columns
    text = f"{progress:>5} {status} {kind} {resource.partition(' (')[0]}"
    if step.watched and "FAILED" not in status:
        step.update(text)
    else:
        step.log(text)


def _require_bootstrap(
    state: Context, workspace: Workspace, cloud: Cloud, cdk: CdkCli, *, allowed: bool
) -> None:
    if is_bootstrapped(cloud):
        return
    target = f"aws://{cloud.account}/{cloud.region}"
    if not allowed:
        raise TritonstackError(
            f"the CDK has not prepared account {cloud.account} in {cloud.region}",
            remedy=f"run `npx cdk bootstrap {target}` once, or add --bootstrap",
        )
    with state.output.step(f"bootstrapping {target}") as step:
        cdk.run("bootstrap", target, on_line=step.log)


def _missing(state: Context, workspace: Workspace, cloud: Cloud) -> list[Path]:
    """The artifacts that the environment's endpoints run and its bucket lacks, found whole on this machine.

    This comes before anything is deployed: a damaged artifact must not leave half an environment.
    """
    needed = {
        (served.model, artifact.digest): artifact
        for name in workspace.spec.endpoints
        for served in workspace.serves(name)
        if (artifact := workspace.artifact_for(served.model, served.instance))
    }
    bucket = workspace.spec.artifact_bucket
    return [
        _local_artifact(state, workspace, model, digest)
        for model, digest in sorted(needed)
        if not is_published(cloud, bucket=bucket, model=model, artifact=needed[model, digest])
    ]


def _local_artifact(state: Context, workspace: Workspace, model: str, digest: str) -> Path:
    bucket = workspace.spec.artifact_bucket
    artifact = state.project.artifacts_dir / artifact_prefix(model, digest)
    if not (artifact / MANIFEST_NAME).is_file():
        raise TritonstackError(
            f"artifact {digest[:12]} of {model!r} is neither in s3://{bucket} nor on this machine",
            remedy=f"run `tritonstack build {workspace.spec.name}`",
        )
    verify_artifact(artifact)
    return artifact


def _publish(state: Context, workspace: Workspace, cloud: Cloud, artifact: Path) -> None:
    bucket = workspace.spec.artifact_bucket
    with state.output.step(f"publishing {artifact.parent.name} {artifact.name[:12]} to {bucket}"):
        publish(artifact_dir=artifact, bucket=bucket, s3_client=cloud.client("s3"))


def _interrupted(cloud: Cloud, workspace: Workspace) -> str:
    stacks = environment_stacks(cloud, workspace.spec.base)
    states = "; ".join(f"{stack.name} is {stack.status}" for stack in stacks) or "no stack was begun"
    return f"interrupted; CloudFormation finishes what it has begun: {states}"


def _resume(environment: str) -> str:
    return (
        f"`tritonstack deploy {environment}` waits for that and goes on; "
        f"`tritonstack destroy {environment}` takes everything down"
    )
