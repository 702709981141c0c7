"""Start build jobs in the account, and follow each one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tritonstack.base.error_kinds import NotApplicableError
from tritonstack.base.errors import TritonstackError
from tritonstack.files.project.build_machines import CodeBuildMachine, ManualBuild
from tritonstack.files.project.build_plans import NeededArtifact
from tritonstack.files.records.manifests import Manifest
from tritonstack.operate.build.outcomes import LINES_SHOWN, Outcome, error_from, show_event
from tritonstack.operate.jobs.codebuild import CodeBuildJobs
from tritonstack.operate.jobs.jobs import (
    BuildInfra,
    BuildJobError,
    JobOrder,
    JobService,
    JobState,
    JobUpdate,
    NoRoomError,
    find_result,
    own_role,
    parse_event,
    start_or_attach,
)
from tritonstack.operate.jobs.processing import ProcessingJobs
from tritonstack.operate.shared.aws import AWS_ERRORS, Cloud
from tritonstack.operate.shared.session import Reporter, Session, Step

Done = Callable[[Outcome], None]


@dataclass
class Job:
    """The build job of one model."""

    cloud: Cloud
    infra: BuildInfra
    needed: NeededArtifact
    order: JobOrder
    name: str
    service: JobService
    state: JobState | None = None
    error: TritonstackError | None = None
    log_lines: list[str] = field(default_factory=list)
    """The last lines of its log that are no events."""
    failed_event: dict[str, Any] | None = None
    """The event `failed` in its log."""
    rejection: str = ""
    """Why the service has not started it yet."""
    reused: bool = False
    """True if its artifact existed already."""

    @classmethod
    def of(cls, cloud: Cloud, infra: BuildInfra, needed: NeededArtifact) -> Job:
        """Return the job that builds an artifact."""
        if isinstance(needed.build_machine, ManualBuild):
            raise NotApplicableError(
                f"no build job in the account supports {needed.model} for {needed.target}",
                remedy="add --local",
            )
        order = JobOrder(
            needed.model,
            needed.targets,
            needed.spec_hash,
            needed.build_machine,
            role=own_role(cloud, infra.base, needed.model) if needed.reach.own_code else None,
            needs_token=needed.reach.hub,
            choices=needed.choices,
        )
        service: JobService = (
            CodeBuildJobs(cloud, infra, needed.build_machine.project)
            if isinstance(needed.build_machine, CodeBuildMachine)
            else ProcessingJobs(cloud, infra)
        )
        return cls(cloud, infra, needed, order, order.name(infra), service)

    @property
    def project(self) -> str | None:
        """The CodeBuild project of the job; None for Processing jobs."""
        build_machine = self.order.build_machine
        return build_machine.project if isinstance(build_machine, CodeBuildMachine) else None

    @property
    def is_waiting(self) -> bool:
        """True if the job has not started."""
        return self.state is None and self.error is None and not self.reused

    @property
    def is_running(self) -> bool:
        """True if the job is running."""
        return self.state is not None and self.state.status == "running" and self.error is None

    def result(self) -> Manifest | None:
        """Return the artifact if the job has built it."""
        return find_result(self.cloud, self.infra, self.order, self.name)

    def reuse_result(self, on_done: Done) -> bool:
        """Report the artifact if an earlier run of the job has built it; return whether it has."""
        manifest = self.result()
        if manifest is not None:
            self.reused = True
            on_done(Outcome(self.needed, manifest, reused=True))
        return self.reused

    def start(self, reporter: Reporter) -> bool:
        """Start the job or attach to it, or set `error`; return False if there was no capacity."""
        try:
            self.state, attached = start_or_attach(self.service, self.order, self.name)
        except NoRoomError as error:
            if self.rejection != error.message:
                reporter.note(f"{self.needed.model} for {self.needed.target} is waiting: {error.message}")
            self.rejection = error.message
            return False
        except BuildJobError as error:
            self.error = error
        except AWS_ERRORS as error:
            # Credentials can expire while a job waits for capacity; the running jobs are still followed.
            self.error = BuildJobError(
                f"cannot start the build of {self.needed.model}: {error}",
                remedy="log in again if your credentials have expired, and rerun the command",
            )
        else:
            action = "attached to" if attached else "started"
            reporter.note(f"{self.needed.model} for {self.needed.target}: {action} {self.state.id}")
        return True

    def on_update(self, step: Step, update: JobUpdate) -> None:
        """Report new log lines, or the phase if there are none."""
        if not update.lines:
            step.update(update.state.phase)
        for line in update.lines:
            event = parse_event(line)
            if event is None:
                self.log_lines = [*self.log_lines, line][-LINES_SHOWN:]
                continue
            show_event(step, event)
            if event["event"] == "failed":
                self.failed_event = event

    def failure_error(self, state: JobState) -> TritonstackError:
        """Return why the job failed."""
        if state.status == "stopped":
            return BuildJobError(f"the build of {self.needed.model} was stopped", remedy="build it again")
        if self.failed_event:
            return error_from(self.failed_event, log=f"{state.log_stream} in {state.log_group}")
        log_lines = "\n".join(self.log_lines)
        reason = state.reason or "no record was written"
        return BuildJobError(
            f"the build of {self.needed.model} failed: {reason}\n{log_lines}".rstrip(),
            remedy=f"its log is {state.log_stream} in {state.log_group}",
        )

    def stop_following(self, error: Exception) -> None:
        """Record that the job can no longer be followed, for example because credentials expired."""
        self.error = BuildJobError(
            f"cannot follow the build of {self.needed.model}, which is still running in AWS: {error}",
            remedy="log in again if your credentials have expired, and rerun the command to attach to "
            "running builds and collect finished ones",
        )


def begin(session: Session, jobs: Sequence[Job], on_done: Done) -> list[Job]:
    """Start waiting jobs in order while their projects have capacity; return the started jobs.

    An artifact that another process has built in the meantime is reused.
    """
    started: list[Job] = []
    full_projects: set[str | None] = set()
    for job in (job for job in jobs if job.is_waiting):
        if job.project in full_projects or job.reuse_result(on_done):
            continue
        if not _has_room(job, jobs) or not job.start(session.reporter):
            full_projects.add(job.project)
        elif job.state is not None:
            started.append(job)
    return started


def _has_room(job: Job, jobs: Sequence[Job]) -> bool:
    limit = job.infra.concurrent
    running = sum(other.is_running and other.project == job.project for other in jobs)
    return job.project is None or limit is None or running < limit
