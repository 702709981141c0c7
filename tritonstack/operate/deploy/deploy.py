"""Deploy the stacks of a loaded environment with the CDK, and record the deployment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from tritonstack.base import naming
from tritonstack.base.error_kinds import CommandInterruptedError
from tritonstack.base.errors import aws_error_code, aws_error_message
from tritonstack.base.files import short_digest
from tritonstack.base.results import Internal, public
from tritonstack.files.checks.notes import environment_warnings
from tritonstack.files.environment.templates import Instance
from tritonstack.files.loading import ProjectFiles, sample_instance
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.events import Event
from tritonstack.operate.artifacts.publishing import fill_model_prefixes, missing_artifacts, publish_artifact
from tritonstack.operate.deploy.bootstrap import bootstrap_account, lacks_bootstrap, show_event
from tritonstack.operate.deploy.changes import (
    DEPLOY_OPTIONS,
    Changes,
    Outdated,
    compare_endpoints,
    left_without_scaling,
    leftover_note,
    plan_stack_changes,
    rejected_changes,
    remove_scaling,
)
from tritonstack.operate.deploy.instances import InstanceRequest, find_borrowed, plan_instance
from tritonstack.operate.deploy.kept_parameters import copy_parameters, limit_parameters
from tritonstack.operate.deploy.preflight import require_available, require_built
from tritonstack.operate.deploy.switching import switch, to_deployed
from tritonstack.operate.destroy.retained import RunningEndpoint, delete_replaced, live_endpoints
from tritonstack.operate.locks.retention import (
    delete_superseded_images,
    mark_superseded,
    named_artifacts,
    unmark_superseded,
)
from tritonstack.operate.shared.artifacts import model_copies
from tritonstack.operate.shared.aws import AWS_ERRORS, Cloud
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.events import latest_events, latest_of_each, new_event, record_event
from tritonstack.operate.shared.revisions import Revision, revision_of
from tritonstack.operate.shared.running import require_running
from tritonstack.operate.shared.session import Session, read_instance
from tritonstack.operate.shared.stacks import environment_stacks, wait_until_settled
from tritonstack.operate.synth.assembly import Assembly
from tritonstack.operate.synth.cdk import CdkCli, CdkFailedError
from tritonstack.operate.synth.synthesis import cdk_of, synthesized

# The soak time counts from the first such event, so a deployment without changes writes none.


def record_deployment(
    cloud: Cloud, workspace: Workspace, endpoints: Sequence[str], revision: Revision | None = None
) -> Event | None:
    """Record that endpoints run this checkout, unless the last event says so.

    `revision` is the revision that the deployment read; default: the current one.
    """
    if not endpoints:
        return None
    bucket = workspace.spec.artifact_bucket
    event = new_event("deployed", workspace, endpoints=sorted(endpoints), revision=revision)
    if is_already_recorded(event, latest_events(cloud, bucket, "deployed")):
        return None
    record_event(cloud, bucket, event)
    return event


def is_already_recorded(event: Event, events: Iterable[Event]) -> bool:
    """Return whether the latest event in `earlier` (latest first) equals the new one."""
    latest = latest_of_each(events, event.endpoints)
    recorded = {id(last): last for last in latest.values()}  # one event has many endpoints
    return len(latest) == len(event.endpoints) and all(
        _identity(last) == _identity(event) for last in recorded.values()
    )


def _identity(event: Event) -> tuple[object, ...]:
    return event.endpoints, event.artifacts, event.images, event.commit, event.uncommitted


def deploy_workspace(
    session: Session, workspace: Workspace, cloud: Cloud, *, bootstrap: bool, only: Collection[str] = ()
) -> None:
    """Deploy an environment, check that its endpoints are in service, and record the deployment.

    `only` names the endpoints to deploy, with their dependencies; all by default.
    """
    deployment = EnvironmentDeployment(session, workspace, cloud, cdk_of(workspace, cloud))
    try:
        deployment.run(bootstrap=bootstrap, only=only)
    except KeyboardInterrupt:
        raise deployment.interrupted() from None


@dataclass(frozen=True)
class EnvironmentDeployment:
    """A deployment of the stacks of an environment."""

    session: Session
    workspace: Workspace
    cloud: Cloud
    cdk: CdkCli

    def run(self, *, bootstrap: bool, only: Collection[str]) -> None:
        """Deploy, and record it."""
        session, workspace, cloud = self.session, self.workspace, self.cloud
        spec, revision = workspace.spec, revision_of(workspace)
        if revision.files:
            session.reporter.note(f"deploying {revision.description}; {revision.note}")
        for warning in environment_warnings(workspace.environment):
            session.reporter.note(f"warning: {warning}")
        endpoints = [name for name in spec.endpoints if not only or name in only]
        stacks = [naming.endpoint_stack_name(spec.base, name) for name in endpoints]
        with session.reporter.step("waiting for running operations") as step:
            busy = [stack.name for stack in environment_stacks(cloud, spec.base) if stack.in_progress]
            wait_until_settled(cloud, busy, on_change=lambda stack: step.log(f"{stack.name}: {stack.status}"))
        with session.reporter.step("looking for the artifacts and the CDK's bootstrap stack"):
            borrowed = find_borrowed(session, workspace, cloud) if workspace.instance else None
            lent = borrowed.digests if borrowed else ()
            missing = missing_artifacts(session, workspace, cloud, endpoints=endpoints, lent=lent)
            unprepared = lacks_bootstrap(cloud, spec.bootstrap, allowed=bootstrap)
        with synthesized(session, workspace, self.cdk) as assembly:
            with session.reporter.step("comparing with what is deployed"):
                changes = plan_stack_changes(cloud, spec.base, assembly)
                if only:
                    changes = changes.of(stacks)
                changes = compare_endpoints(cloud, spec.base, changes)
                changes.require_possible(rejected_changes(self.cdk, changes))
            if unprepared:  # only after it is certain that the deploy is possible
                bootstrap_account(session, self.cdk, spec.bootstrap, assembly)
            if missing or borrowed:
                foundation = naming.foundation_stack_name(spec.base)
                self.cdk_deploy(assembly, [foundation], title=f"deploying {foundation}")
            for artifact in missing:
                publish_artifact(session, workspace, cloud, artifact)
            if borrowed:
                borrowed.copy(session)
            copies = [copy for copy in model_copies(workspace) if copy.endpoint in endpoints]
            copied_models = fill_model_prefixes(session, workspace, cloud, copies)
            if workspace.instance is None:  # nothing is marked in the bucket of an instance
                with session.reporter.step("keeping the artifacts that the lock names"):
                    unmark_superseded(cloud, spec.artifact_bucket, named_artifacts(workspace.lock.record))
            before = None
            with session.reporter.step("reading what the endpoints run"), self._only_noted():
                before = live_endpoints(cloud, spec.base)
            # Read as late as possible: scaling goes on until the update.
            kept = [*copy_parameters(cloud, spec, changes), *limit_parameters(changes, datetime.now(UTC))]
            self.deploy_all(changes, [*(stacks if only else ["--all"]), *kept])
        self._report_added_models(changes, copied_models)
        for stack in changes.leftovers:
            session.reporter.note(f"{stack}: {leftover_note(stack)}")
        self.finish(endpoints, stacks, revision, before)

    def finish(
        self,
        endpoints: Sequence[str],
        stacks: Sequence[str],
        revision: Revision,
        before: Sequence[RunningEndpoint] | None,
    ) -> None:
        """Record the deployment if the endpoints run it; only then delete what they no longer need.

        `before` is what they ran before; nothing is deleted if it could not be read.
        """
        with self.session.reporter.step("checking that the endpoints are in service"):
            require_running(self.cloud, stacks)
            record_deployment(self.cloud, self.workspace, endpoints, revision)
        if before is not None:
            self._delete_superseded(stacks, before)

    def _delete_superseded(self, stacks: Collection[str], before: Sequence[RunningEndpoint]) -> None:
        """Delete replaced configurations, and mark superseded artifacts for deletion, unless endpoints use
        them.

        Only after the endpoints run what was deployed: until then, they may be rolled back to these. By then,
        the deployment is recorded, so an error of AWS is only noted; the next deployment cleans up.
        """
        cloud, workspace, reporter, live = self.cloud, self.workspace, self.session.reporter, None
        with reporter.step("deleting replaced configurations") as step, self._only_noted():
            live = live_endpoints(cloud, workspace.spec.base)
            deleted = delete_replaced(
                cloud, workspace.spec.base, stacks, live, before=before, on_update=step.log
            )
            step.detail = f"{len(deleted)} deleted" if deleted else "nothing to delete"
        if live is None or workspace.instance is not None:
            return  # the bucket of an instance is deleted with the instance
        with reporter.step("tagging superseded artifacts") as step:
            with self._only_noted():
                marked = mark_superseded(cloud, workspace, live)
                step.detail = f"nothing tagged: {marked.gap}" if marked.gap else ""
                for model, digest in marked.marked:
                    step.log(
                        f"{model} {short_digest(digest)} is superseded: "
                        f"not named by the last {workspace.spec.keep_locks} locks"
                    )
            with self._only_noted():
                for folder, digest in delete_superseded_images(cloud, workspace, live, now=datetime.now(UTC)):
                    step.log(f"deleted image {folder} {digest}: superseded, and no model names it")

    @contextmanager
    def _only_noted(self) -> Iterator[None]:
        """Note an error of AWS instead of raising it; roles of earlier versions lack permissions to clean
        up."""
        try:
            yield
        except AWS_ERRORS as error:
            reason = " ".join(str(error).split())
            if code := aws_error_code(error):
                # AWS's message names the missing permission, except S3's.
                message = " ".join(aws_error_message(error).split())
                reason = f"{getattr(error, 'operation_name', 'call')}: {code}: {message}"
            self.session.reporter.note(f"not cleaned up, the next deployment tries again: {reason}")

    def deploy_all(self, changes: Changes, stacks: Sequence[str]) -> None:
        """Deploy stacks and their dependencies, in two phases if needed."""
        other_types = [item for item in changes.outdated if item.is_other_type]
        others = [item for item in changes.outdated if not item.is_other_type]
        if not changes.two_phase:
            # SageMaker rejects another instance type as soon as the stacks have registered the scaling.
            self._update_outdated(changes, other_types)
            self.cdk_deploy(changes.assembly, stacks, title="deploying what has changed")
            self._update_outdated(changes, others)
            return
        for plan in changes.two_phase:
            for hazard in plan.hazards:
                self.session.reporter.note(
                    f"{plan.endpoint}: {hazard.what}; SageMaker rejects that, so its scaling is removed "
                    "first and restored with the change"
                )
        try:
            with self.session.reporter.step("phase 1 of 2: removing the scaling") as step:
                remove_scaling(self.cdk, changes, on_line=lambda line: show_event(step, line))
            self._update_outdated(changes, other_types)
            self._second_phase(changes, stacks)
            self._update_outdated(changes, others)
        except KeyboardInterrupt:
            unscaled = ", ".join(plan.endpoint or plan.stack for plan in changes.two_phase)
            raise self.interrupted(
                f". Until a deployment resumes, these endpoints may have no scaling: {unscaled}"
            ) from None

    def _update_outdated(self, changes: Changes, outdated: Sequence[Outdated]) -> None:
        """Update what was rolled back; the check at the end reports what is rolled back again."""
        for item in outdated:
            title = f"updating {item.state.name}, which was rolled back"
            with self.session.reporter.step(title) as step:
                template = changes.assembly.template(item.stack)
                planned = to_deployed(self.cloud, item.stack, template, item.state)
                step.detail = switch(self.cloud, planned, on_change=step.log) or ""

    def _second_phase(self, changes: Changes, stacks: Sequence[str]) -> None:
        try:
            title = "phase 2 of 2: deploying what has changed"
            self.cdk_deploy(changes.assembly, stacks, title=title)
        except CdkFailedError as error:
            unscaled = left_without_scaling(self.cloud, self.workspace.spec.base, changes)
            if not unscaled:
                raise
            raise CdkFailedError(
                f"{error.message}\n{', '.join(unscaled)}: serving as before, but without scaling",
                remedy=f"fix the cause and run `tritonstack deploy {self.workspace.cli_arguments}`; it "
                "resumes here and restores the scaling",
            ) from None

    def cdk_deploy(self, assembly: Assembly, stacks: Sequence[str], *, title: str) -> None:
        """Deploy stacks with the CDK; `stacks` may also hold its options."""
        with self.session.reporter.step(title) as step:
            self.cdk.run(
                "deploy",
                *stacks,
                *DEPLOY_OPTIONS,
                assembly=assembly.folder,
                on_line=lambda line: show_event(step, line),
            )

    def _report_added_models(self, changes: Changes, copied_models: Mapping[str, list[str]]) -> None:
        """Report models that were added to deployed multi-model endpoints without a change of a stack."""
        for name, models in copied_models.items():
            if naming.endpoint_stack_name(self.workspace.spec.base, name) in changes.deployed:
                self.session.reporter.note(
                    f"{name}: {', '.join(models)} can be invoked now; added models require no change of the "
                    "endpoint's stack"
                )

    def interrupted(self, consequence: str = "") -> CommandInterruptedError:
        """Return the error of an interrupted deployment."""
        stacks = environment_stacks(self.cloud, self.workspace.spec.base)
        states = "; ".join(f"{stack.name} is {stack.status}" for stack in stacks) or "no stack was changed"
        environment = self.workspace.cli_arguments
        return CommandInterruptedError(
            f"interrupted; CloudFormation finishes running operations: {states}{consequence}",
            remedy=f"run `tritonstack deploy {environment}` to wait and resume, or "
            f"`tritonstack destroy {environment}` to delete everything",
        )


@dataclass(frozen=True)
class Deployment:
    """A finished deployment."""

    environment: str
    endpoints: dict[str, str]
    """Endpoint name in the environment file -> full name in SageMaker; all are InService."""
    instance: Internal[Instance | None] = None
    """The instance that was deployed; None for an environment that is no instance of a template."""

    @public
    def owner(self) -> str | None:
        """The owner of an instance of a template."""
        return self.instance.owner if self.instance else None

    @public
    def expires(self) -> str | None:
        """When an instance of a template expires."""
        return self.instance.expires if self.instance else None


def deploy(
    session: Session, environment: str, *, request: InstanceRequest | None = None, bootstrap: bool = False
) -> Deployment:
    """Deploy an environment; with a request, an instance of the template `environment`.

    `bootstrap` allows `cdk bootstrap` if the account needs it. Raises TritonstackError on failure.
    """
    workspace = _instance(session, environment, request) if request else session.workspace(environment)
    require_built(workspace)
    spec = workspace.spec
    cloud = session.cloud(spec)
    require_available(session, workspace, cloud)
    deploy_workspace(session, workspace, cloud, bootstrap=bootstrap)
    endpoints = {name: spec.endpoint_name(name) for name in spec.endpoints}
    return Deployment(spec.name, endpoints, workspace.instance)


def _instance(session: Session, environment: str, request: InstanceRequest) -> Workspace:
    files = ProjectFiles(session.project)
    template = files.template(environment)
    spec = files.instance(sample_instance(environment, request.name)).spec
    instance = plan_instance(
        template,
        request,
        deployed=read_instance(session.cloud(spec), spec),
        actor=Checkout(session.project.root).actor(),
        now=datetime.now(UTC),
    )
    return files.instance(instance)
