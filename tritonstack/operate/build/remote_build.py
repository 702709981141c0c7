"""Build in the account of an environment: start or attach to jobs, and follow them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from tritonstack.base import naming
from tritonstack.files.project.build_plans import NeededArtifact
from tritonstack.files.project.custom_images import endpoint_images
from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.build.local_build import BuildInterruptedError
from tritonstack.operate.build.outcomes import LINES_SHOWN, Outcome
from tritonstack.operate.build.started_jobs import Done, Job, begin
from tritonstack.operate.deploy.bootstrap import lacks_bootstrap
from tritonstack.operate.deploy.changes import DEPLOY_OPTIONS
from tritonstack.operate.jobs.codebuild import CodeBuildJobs, image_job, missing_images
from tritonstack.operate.jobs.jobs import (
    BuildInfra,
    BuildJobError,
    BuildStackError,
    JobState,
    JobUpdate,
    LogTail,
    NoRoomError,
    follow,
)
from tritonstack.operate.shared.artifacts import may_have_bucket
from tritonstack.operate.shared.aws import AWS_ERRORS, Cloud
from tritonstack.operate.shared.session import Session, Step, Steps
from tritonstack.operate.shared.stacks import StackState, describe_stack, wait_until_settled
from tritonstack.operate.synth.assembly import deployed_templates
from tritonstack.operate.synth.synthesis import cdk_of, synthesized

_POLL_S = 5.0
_ROOM_S = 30.0
"""Interval between attempts to start a job while there is no capacity."""


def prepare_build_infra(session: Session, workspace: Workspace, cloud: Cloud) -> BuildInfra:
    """Deploy the build infrastructure of an environment if it is missing or outdated, and return it."""
    spec = workspace.spec
    name = naming.build_stack_name(spec.base)
    try:
        _deploy_if_other(session, workspace, cloud, name)
    except KeyboardInterrupt:
        raise BuildInterruptedError(
            f"interrupted; CloudFormation is still updating {name}, and no build has started",
            remedy="rerun the command; it waits for the update and resumes",
        ) from None
    stack = describe_stack(cloud, name)
    if stack is None or "SourceArchive" not in stack.outputs:
        raise BuildStackError(
            f"stack {name} does not exist" if stack is None else f"stack {name} has no complete outputs",
            remedy=f"run `cdk deploy {name} -c env={spec.name}` to see the cause",
        )
    return build_infra_of(workspace, stack.outputs)


def prepare_bucket(session: Session, workspace: Workspace, cloud: Cloud) -> None:
    """Deploy the foundation of an environment if its artifact bucket is missing."""
    spec = workspace.spec
    with session.reporter.step(f"looking for the bucket of {spec.name}"):
        if may_have_bucket(cloud, spec.artifact_bucket):
            return
        _deploy_if_other(session, workspace, cloud, naming.foundation_stack_name(spec.base))
        if not may_have_bucket(cloud, spec.artifact_bucket):
            raise BuildStackError(
                f"bucket {spec.artifact_bucket!r} does not exist, although its stack is deployed",
                remedy="restore the bucket, or build with --no-publish",
            )


def _deploy_if_other(session: Session, workspace: Workspace, cloud: Cloud, name: str) -> None:
    """Deploy a stack and its foundation if its template differs from the files."""
    cdk = cdk_of(workspace, cloud)
    with session.reporter.step("looking for the CDK's bootstrap stack"):
        lacks_bootstrap(cloud, workspace.spec.bootstrap, allowed=None)
    with synthesized(session, workspace, cdk, name) as assembly:
        stack = _settled(session, cloud, name)
        deployed = deployed_templates(cloud, [stack] if stack else [], assembly=assembly)
        if deployed.get(name) != assembly.template(name):
            with session.reporter.step(f"deploying {name} and its dependencies") as step:
                cdk.run("deploy", name, *DEPLOY_OPTIONS, assembly=assembly.folder, on_line=step.update)


def _settled(session: Session, cloud: Cloud, name: str) -> StackState | None:
    """Return a stack after its running update has ended."""
    state = describe_stack(cloud, name)
    if state is None or not state.in_progress:
        return state
    with session.reporter.step(f"waiting for operations on {name}") as step:
        wait_until_settled(cloud, [name], on_change=lambda stack: step.update(stack.status))
    return describe_stack(cloud, name)


def build_infra_of(workspace: Workspace, outputs: Mapping[str, str]) -> BuildInfra:
    """Return the build infrastructure from the outputs of its stack."""
    spec = workspace.spec
    images = {kind: outputs.get(f"{kind.capitalize()}Image") for kind in ("cpu", "gpu")}
    return BuildInfra(
        base=spec.base,
        bucket=spec.artifact_bucket,
        source=outputs["SourceArchive"],
        images={kind: uri for kind, uri in images.items() if uri},
        endpoint_images=[image.uri for image in endpoint_images(workspace.project, spec)],
        processing_role=outputs.get("ProcessingRole"),
        token_secret=spec.builds.hugging_face_token_secret,
        timeout_minutes=spec.builds.timeout_minutes,
        concurrent=spec.builds.concurrent,
        tags={"project": spec.name_prefix, "environment": spec.name, **spec.tags},
    )


def build_remotely(
    session: Session,
    cloud: Cloud,
    infra: BuildInfra,
    needed: Sequence[NeededArtifact],
    *,
    wait_for_it: bool,
    on_done: Done,
) -> None:
    """Build each artifact as a job; an artifact that exists by then is reused."""
    jobs = [Job.of(cloud, infra, item) for item in needed]
    waiting = [job for job in jobs if not job.reuse_result(on_done)]
    if not waiting:
        return
    cancelled = threading.Event()
    try:
        build_images_remotely(session, cloud, infra, cancelled)
        started = begin(session, waiting, on_done)
        if wait_for_it:
            _follow_all(session, waiting, started, cancelled, on_done)
        for job in waiting:
            error = job.error or (_not_started_error(job) if job.is_waiting else None)
            if error:
                on_done(Outcome(job.needed, error=error))
    except KeyboardInterrupt:
        cancelled.set()
        running = [job.needed.model for job in waiting if job.state and job.state.status == "running"]
        raise BuildInterruptedError(
            f"stopped following; still running in AWS: {', '.join(running) or 'nothing'}",
            remedy="rerun the command to attach to running builds and collect finished ones",
        ) from None


def build_images_remotely(
    session: Session, cloud: Cloud, infra: BuildInfra, cancelled: threading.Event
) -> None:
    """Build the images that are missing in the account."""
    missing = missing_images(cloud, infra)
    if not missing:
        return
    tags = ", ".join(uri.rpartition(":")[2] for uri in missing)
    with session.reporter.step(f"building {_image_owner(infra, missing)} image {tags}") as step:
        service, started = _start_image_build(cloud, infra, step)
        lines: list[str] = []

        def on_news(update: JobUpdate) -> None:
            lines.extend(update.lines)
            step.update(lines[-1] if lines else update.state.phase)

        state = follow(
            service,
            started,
            LogTail(cloud.client("logs")),
            on_update=on_news,
            cancelled=cancelled,
            poll_s=_POLL_S,
        )
        if state.status != "succeeded":
            last_lines = "\n".join(lines[-LINES_SHOWN:])
            reason = state.reason or state.status
            raise BuildJobError(
                f"cannot build {_image_owner(infra, missing)} image: {reason}\n{last_lines}",
                remedy=f"its log is {state.log_stream} in {state.log_group}",
            )


def _start_image_build(cloud: Cloud, infra: BuildInfra, step: Step) -> tuple[CodeBuildJobs, JobState]:
    while True:
        try:
            service, started, _ = image_job(cloud, infra)
        except NoRoomError as full:
            step.update(full.message)
            time.sleep(_ROOM_S)
        else:
            return service, started


def _image_owner(infra: BuildInfra, missing: Sequence[str]) -> str:
    return "the build" if set(missing) <= set(infra.images.values()) else "the custom"


def _not_started_error(job: Job) -> BuildJobError:
    return BuildJobError(
        f"the build of {job.needed.model} has not started: "
        + (job.rejection or f"{job.project} runs at most {job.infra.concurrent} builds at once"),
        remedy="rerun when a build has ended, or without --no-wait",
    )


def _follow_all(
    session: Session, jobs: Sequence[Job], started: Sequence[Job], cancelled: threading.Event, on_done: Done
) -> None:
    """Follow running jobs, and start waiting jobs when capacity is free."""
    pool = ThreadPoolExecutor(len(jobs))
    try:
        with session.reporter.steps() as steps:
            running: set[Future[Job]] = set()
            while True:
                running |= {pool.submit(_follow_one, steps, job, cancelled) for job in started}
                some_wait = any(job.is_waiting for job in jobs)
                if not running and not some_wait:
                    return
                if not running:
                    cancelled.wait(_ROOM_S)
                timeout_s = _ROOM_S if some_wait else None
                done, running = wait(running, timeout=timeout_s, return_when=FIRST_COMPLETED)
                for future in done:
                    _finish(future.result(), on_done)
                started = begin(session, jobs, on_done)
    finally:
        cancelled.set()
        pool.shutdown(cancel_futures=True)


def _follow_one(steps: Steps, job: Job, cancelled: threading.Event) -> Job:
    assert job.state is not None  # noqa: S101 - only jobs that were started are followed
    title = f"building {job.needed.model} for {job.needed.target} {job.needed.build_machine.description}"
    with steps.step(title, label=job.needed.model) as step:
        try:
            job.state = follow(
                job.service,
                job.state,
                LogTail(job.cloud.client("logs")),
                on_update=lambda update: job.on_update(step, update),
                cancelled=cancelled,
                poll_s=_POLL_S,
            )
        except AWS_ERRORS as error:
            job.stop_following(error)
            step.failed = True
            return job
        step.failed = job.state.status in ("failed", "stopped")
        if job.state.status == "running":
            step.detail = "still running in AWS"
    return job


def _finish(job: Job, on_done: Done) -> None:
    """Take the result of a job that has ended."""
    if job.state is None or job.error or job.state.status == "running":
        return
    manifest = job.result() if job.state.status == "succeeded" else None
    if manifest is None:
        job.error = job.failure_error(job.state)
    else:
        on_done(Outcome(job.needed, manifest))
