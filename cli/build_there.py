"""Builds in an environment's account: jobs that are started or attached to, and followed until they end."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from catalog import naming
from catalog.bootstrap import Bootstrap
from catalog.build_images import endpoint_images
from catalog.build_plans import NeededArtifact
from catalog.builds import ByHand, CodeBuildMachine
from catalog.errors import TritonstackError, UsageError
from catalog.workspace import Workspace
from cli.bootstrap import require_bootstrap
from cli.build_here import BuildInterruptedError
from cli.build_outcomes import Outcome, error_from, show_event
from cli.context import Context
from cli.output import Step, Steps
from operations.aws import Cloud
from operations.builds.codebuild import CodeBuildJobs
from operations.builds.ground import BuildGround, BuildStackError, own_role, stack_outputs
from operations.builds.images import image_job, missing_images
from operations.builds.jobs import (
    BuildJobError,
    JobNews,
    JobOrder,
    JobService,
    JobState,
    LogTail,
    find_result,
    follow,
    parse_event,
    start_or_attach,
)
from operations.builds.processing import ProcessingJobs
from operations.deploying.assembly import Assembly
from operations.deploying.cdk import CdkCli, find_cdk
from operations.deploying.changes import DEPLOY_OPTIONS
from operations.stacks import StackState, deployed_templates, describe_stack, wait_until_settled

_LINES_SHOWN = 20
_POLL_S = 5.0
Done = Callable[[Outcome], None]


def prepare_ground(state: Context, workspace: Workspace, cloud: Cloud) -> BuildGround:
    """What builds in the account, as these files ask for it: deployed if it is not, or is of other files."""
    spec = workspace.spec
    name = naming.build_stack_name(spec.base)
    cdk = find_cdk(state.project.root, environment_name=spec.name, variables=cloud.process_environment())
    try:
        _deploy_if_other(state, cloud, cdk, name, workspace.spec.bootstrap)
    except KeyboardInterrupt:
        raise BuildInterruptedError(
            f"stopped by you; CloudFormation finishes what it has begun of {name}, and nothing is built yet",
            remedy="run the same command again: it waits for that, and goes on",
        ) from None
    outputs = stack_outputs(cloud, name)
    if outputs is None or "SourceArchive" not in outputs:
        raise BuildStackError(
            f"stack {name} does not stand" if outputs is None else f"stack {name} is not complete",
            remedy=f"run `npx cdk deploy {name} -c env={spec.name}`, which says why",
        )
    return ground_of(workspace, outputs)


def _deploy_if_other(state: Context, cloud: Cloud, cdk: CdkCli, name: str, bootstrap: Bootstrap) -> None:
    """Deploy the stack, with the foundation that it stands on, if it is not what the files ask for."""
    with tempfile.TemporaryDirectory(prefix="tritonstack-") as folder:
        with state.output.step("synthesising the build stack") as step:
            cdk.run("synth", name, "--quiet", "--output", folder, on_line=step.update)
        assembly = Assembly(Path(folder))
        require_bootstrap(state, cloud, cdk, bootstrap, allowed=None)
        standing = _settled(state, cloud, name)
        deployed = deployed_templates(cloud, [standing] if standing else [], wanted=assembly)
        if deployed.get(name) != assembly.template(name):
            with state.output.step(f"deploying {name} and what it stands on") as step:
                cdk.run("deploy", name, *DEPLOY_OPTIONS, assembly=assembly.folder, on_line=step.update)


def _settled(state: Context, cloud: Cloud, name: str) -> StackState | None:
    """The stack, once nobody is changing it: while that goes on, its template is what is to come."""
    standing = describe_stack(cloud, name)
    if standing is None or not standing.in_progress:
        return standing
    with state.output.step(f"waiting for what CloudFormation is still doing with {name}") as step:
        wait_until_settled(cloud, [name], on_change=lambda stack: step.update(stack.status))
    return describe_stack(cloud, name)


def ground_of(workspace: Workspace, outputs: Mapping[str, str]) -> BuildGround:
    """The same from what the stack tells."""
    spec = workspace.spec
    images = {kind: outputs.get(f"{kind.capitalize()}Image") for kind in ("cpu", "gpu")}
    return BuildGround(
        base=spec.base,
        bucket=spec.artifact_bucket,
        source=outputs["SourceArchive"],
        images={kind: uri for kind, uri in images.items() if uri},
        endpoint_images=[image.uri for image in endpoint_images(workspace.project, spec)],
        processing_role=outputs.get("ProcessingRole"),
        token_secret=spec.builds.hugging_face_token_secret,
        timeout_minutes=spec.builds.timeout_minutes,
        tags={"project": spec.name_prefix, "environment": spec.name, **spec.tags},
    )


def build_there(
    state: Context,
    cloud: Cloud,
    ground: BuildGround,
    needed: Sequence[NeededArtifact],
    *,
    wait_for_it: bool,
    on_done: Done,
) -> None:
    """Build each of these as a job; what has been built meanwhile is taken as it is."""
    jobs = [_Job.of(cloud, ground, item) for item in needed]
    waiting = [job for job in jobs if not job.take_result(cloud, ground, on_done)]
    if not waiting:
        return
    enough = threading.Event()
    try:
        build_images_there(state, cloud, ground, enough)
        for job in waiting:
            job.start(state)
        if wait_for_it:
            _follow_all(state, cloud, ground, [job for job in waiting if job.state], enough, on_done)
        for job in waiting:
            if job.error:
                on_done(Outcome(job.needed, error=job.error))
    except KeyboardInterrupt:
        enough.set()
        going_on = [job.needed.model for job in waiting if job.state and job.state.status == "running"]
        raise BuildInterruptedError(
            f"you have stopped watching; in the account this goes on: {', '.join(going_on) or 'nothing'}",
            remedy="run the same command again: it attaches to what runs, and takes what is done",
        ) from None


@dataclass
class _Job:
    """One model's job."""

    needed: NeededArtifact
    order: JobOrder
    name: str
    service: JobService
    state: JobState | None = None
    error: TritonstackError | None = None
    said: list[str] = field(default_factory=list)
    """Lines of its log that are no events, the last ones."""
    failure: dict[str, Any] | None = None

    @classmethod
    def of(cls, cloud: Cloud, ground: BuildGround, needed: NeededArtifact) -> _Job:
        """The job that builds an artifact."""
        if isinstance(needed.venue, ByHand):
            raise UsageError(
                f"no job in the account builds {needed.model} for {needed.target}", remedy="add --local"
            )
        order = JobOrder(
            needed.model,
            needed.targets,
            needed.spec_hash,
            needed.venue,
            role=own_role(cloud, ground.base, needed.model) if needed.reach.own_code else None,
            needs_token=needed.reach.hub,
        )
        service: JobService = (
            CodeBuildJobs(cloud, ground, needed.venue.project)
            if isinstance(needed.venue, CodeBuildMachine)
            else ProcessingJobs(cloud, ground)
        )
        return cls(needed, order, order.name(ground), service)

    def take_result(self, cloud: Cloud, ground: BuildGround, on_done: Done) -> bool:
        """Whether it has made its artifact already."""
        manifest = find_result(cloud, ground, self.order, self.name)
        if manifest is not None:
            on_done(Outcome(self.needed, manifest, reused=True))
        return manifest is not None

    def start(self, state: Context) -> None:
        """Begin, or attach."""
        try:
            self.state, attached = start_or_attach(self.service, self.order, self.name)
        except BuildJobError as error:
            self.error = error
            return
        what = "attached to" if attached else "started"
        state.output.note(f"{self.needed.model} for {self.needed.target}: {what} {self.state.id}")

    def hear(self, step: Step, news: JobNews) -> None:
        """Show what is new of it."""
        if not news.lines:
            step.update(news.state.phase)
        for line in news.lines:
            event = parse_event(line)
            if event is None:
                self.said = [*self.said, line][-_LINES_SHOWN:]
                continue
            show_event(step, event)
            if event["event"] == "failed":
                self.failure = event

    def why(self, ended: JobState) -> TritonstackError:
        """Why it made nothing."""
        if ended.status == "stopped":
            return BuildJobError(f"the build of {self.needed.model} was stopped", remedy="build it again")
        if self.failure:
            return error_from(self.failure)
        words = "\n".join(self.said)
        reason = ended.reason or "it left no record"
        return BuildJobError(
            f"the build of {self.needed.model} failed: {reason}\n{words}".rstrip(),
            remedy=f"its log is {ended.log_stream} in {ended.log_group}",
        )


def build_images_there(state: Context, cloud: Cloud, ground: BuildGround, enough: threading.Event) -> None:
    """Build the images that the account lacks."""
    missing = missing_images(cloud, ground)
    if not missing:
        return
    tags = ", ".join(uri.rpartition(":")[2] for uri in missing)
    with state.output.step(f"building {_whose(ground, missing)} image {tags}") as step:
        service, started, _ = image_job(cloud, ground)
        said: list[str] = []

        def hear(news: JobNews) -> None:
            said.extend(news.lines)
            step.update(said[-1] if said else news.state.phase)

        ended = follow(
            service,
            started,
            LogTail(cloud.client("logs")),
            on_news=hear,
            enough=enough,
            poll_s=_POLL_S,
        )
        if ended.status != "succeeded":
            words = "\n".join(said[-_LINES_SHOWN:])
            why = ended.reason or ended.status
            raise BuildJobError(
                f"{_whose(ground, missing)} image could not be built: {why}\n{words}",
                remedy=f"its log is {ended.log_stream} in {ended.log_group}",
            )


def _whose(ground: BuildGround, missing: Sequence[str]) -> str:
    return "the builder's" if set(missing) <= set(ground.images.values()) else "the project's own"


def _follow_all(
    state: Context,
    cloud: Cloud,
    ground: BuildGround,
    jobs: Sequence[_Job],
    enough: threading.Event,
    on_done: Done,
) -> None:
    if not jobs:
        return
    tails = {job.name: LogTail(cloud.client("logs")) for job in jobs}
    pool = ThreadPoolExecutor(len(jobs))
    try:
        with state.output.steps() as steps:
            running: set[Future[_Job]] = {
                pool.submit(_follow_one, steps, job, tails[job.name], enough) for job in jobs
            }
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    _finish(future.result(), cloud, ground, on_done)
    finally:
        enough.set()
        pool.shutdown(cancel_futures=True)


def _follow_one(steps: Steps, job: _Job, tail: LogTail, enough: threading.Event) -> _Job:
    assert job.state is not None  # noqa: S101 - only jobs that were started are followed
    title = f"building {job.needed.model} for {job.needed.target} {job.needed.venue.words}"
    with steps.step(title, label=job.needed.model) as step:
        try:
            job.state = follow(
                job.service,
                job.state,
                tail,
                on_news=lambda news: job.hear(step, news),
                enough=enough,
                poll_s=_POLL_S,
            )
        except (BotoCoreError, ClientError) as error:
            # A build may outlast the credentials of whoever watches it.
            job.error, step.failed = _lost_sight(job, error), True
            return job
        step.failed = job.state.status in ("failed", "stopped")
        if job.state.status == "running":
            step.detail = "goes on in the account"
    return job


def _lost_sight(job: _Job, error: BotoCoreError | ClientError) -> BuildJobError:
    return BuildJobError(
        f"AWS no longer tells of the build of {job.needed.model}, which goes on in the account: {error}",
        remedy="log in again if your credentials have expired, and run the same command again: it attaches "
        "to what runs, and takes what is done",
    )


def _finish(job: _Job, cloud: Cloud, ground: BuildGround, on_done: Done) -> None:
    """Take what a job that has ended made."""
    if job.state is None or job.error or job.state.status == "running":
        return
    manifest = find_result(cloud, ground, job.order, job.name) if job.state.status == "succeeded" else None
    if manifest is None:
        job.error = job.why(job.state)
    else:
        on_done(Outcome(job.needed, manifest))
