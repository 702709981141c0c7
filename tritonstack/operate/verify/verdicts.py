"""Judge whether an environment runs what the checked-out commit requests, and record the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.error_kinds import NotRecordedError
from tritonstack.base.errors import aws_error_code
from tritonstack.base.files import short_digest
from tritonstack.base.results import Internal, Key, public
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.events import Event
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.files.records.manifests import ARCHIVE_NAME, DIGEST_NOTE
from tritonstack.operate.deploy.plans import plan_stack
from tritonstack.operate.shared.artifacts import find_object, is_archive_of, model_copies
from tritonstack.operate.shared.aws import Cloud, in_parallel
from tritonstack.operate.shared.events import new_event, record_event
from tritonstack.operate.shared.revisions import ComparedRevision, Revision
from tritonstack.operate.synth.assembly import Assembly, Template, as_written
from tritonstack.operate.verify.checks import Check, shortened
from tritonstack.operate.verify.endpoint_checks import endpoint_checks
from tritonstack.operate.verify.expectations import expected_endpoint
from tritonstack.operate.verify.live import DeployedStack, deployed_stack, observe_endpoint
from tritonstack.operate.verify.smoke import SmokeResult, UntestedVariant, not_tested


@dataclass(frozen=True)
class Placed:
    """An archive and its expected location."""

    model: str
    artifact: LockedArtifact
    key: str


def artifact_check(cloud: Cloud, workspace: Workspace, name: str) -> Check:
    """Check all archives that an endpoint fetches at startup or on demand."""
    s3, bucket = cloud.client("s3"), workspace.spec.artifact_bucket
    placed = places(workspace, name)
    heads = in_parallel(lambda place: find_object(s3, bucket, place.key), placed)
    failures = tuple(
        failure
        for place, head in zip(placed, heads, strict=True)
        if (failure := place_failure(place, head, bucket=bucket))
    )
    multi_model = isinstance(workspace.spec.endpoints[name], MultiModelEndpoint)
    place = "at the model prefix" if multi_model else "in place"
    detail = f"{len(placed) - len(failures)} of {len(placed)} {place}"
    return Check("artifacts", failures, detail=detail, compared=2 * len(placed))


def places(workspace: Workspace, name: str) -> list[Placed]:
    """Return the expected archive locations of an endpoint's models."""
    if isinstance(workspace.spec.endpoints[name], MultiModelEndpoint):
        copies = [copy for copy in model_copies(workspace) if copy.endpoint == name]
        return [Placed(copy.model, copy.artifact, copy.key) for copy in copies]
    return list({place.key: place for place in _published(workspace, name)}.values())


def place_failure(place: Placed, head: dict[str, Any] | None, *, bucket: str) -> str | None:
    """Return the failure of a stored object, by its S3 metadata."""
    url = f"s3://{bucket}/{place.key}"
    if head is None:
        return f"{place.model}: artifact not found at {url}"
    if is_archive_of(place.artifact, head):
        return None
    note = head.get("Metadata", {}).get(DIGEST_NOTE, "none")
    return (
        f"{place.model}: the object at {url} is not the locked archive: "
        f"got {head['ContentLength']} bytes with recorded digest {short_digest(note)}, expected "
        f"{place.artifact.archive_bytes} with {short_digest(place.artifact.digest)}"
    )


def _published(workspace: Workspace, name: str) -> Iterator[Placed]:
    for served in workspace.serves(name):
        artifact = workspace.artifact_for(served.model, served.instance)
        if artifact is not None:
            prefix = naming.artifact_prefix(served.model, artifact.digest)
            yield Placed(served.model, artifact, f"{prefix}/{ARCHIVE_NAME}")


_LONGEST_NOTE = 2000


@dataclass(frozen=True)
class EndpointVerdict:
    """One endpoint and its findings."""

    name: str
    """The endpoint's name in the environment's file."""
    full_name: Annotated[str, Key("endpoint")]
    checks: tuple[Check, ...]
    smoke: tuple[SmokeResult, ...] = ()
    not_compared: Mapping[str, int] = field(default_factory=dict)
    """Number of resources per type that were checked by template only."""

    @public
    def passed(self) -> bool:
        """Return whether it matches and answers correctly as far as tested."""
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> list[str]:
        """Return all failures, each with its check."""
        return [f"{check.aspect}: {failure}" for check in self.checks for failure in check.failures]

    @public
    def not_tested(self) -> list[UntestedVariant]:
        """Return the variants that were not tested."""
        return not_tested(self.smoke)


@dataclass(frozen=True)
class Verdict(ComparedRevision):
    """The findings of an environment."""

    environment: str
    revision: Internal[Revision]
    """The revision that it was compared with."""
    endpoints: tuple[EndpointVerdict, ...]
    stacks: tuple[Check, ...] = ()
    """Shared stacks; empty if only some endpoints were requested."""
    tested: bool = False
    """Whether smoke requests were sent; without them, the answers are unknown."""

    @public
    def passed(self) -> bool:
        """Return whether there are no failures."""
        return not self.failures

    @public
    def failures(self) -> list[str]:
        """Return all failures."""
        shared = [f"{check.aspect}: {failure}" for check in self.stacks for failure in check.failures]
        return [
            *shared,
            *(f"{endpoint.name}: {failure}" for endpoint in self.endpoints for failure in endpoint.failures),
        ]

    @public
    def summary(self) -> str:
        """Return the verdict in one line."""
        asks = self.revision.description
        if not self.passed:
            count = len(self.failures)
            things = f"{count} differences" if count > 1 else "1 difference"
            return f"failed: {things} from {asks}"
        compared = sum(check.compared for check in self._checks)
        skipped = sum(check.skipped for check in self._checks)
        unknown = f", {skipped} known only to CloudFormation" if skipped else ""
        return (
            f"verified: {self.environment} matches {asks} ({compared} values compared{unknown})"
            f"{self._unanswered}"
        )

    @property
    def _unanswered(self) -> str:
        """Return the untested variants as text."""
        if not self.tested:
            return "; no smoke requests were sent"
        names = [
            f"{endpoint.name}/{variant.variant}"
            for endpoint in self.endpoints
            for variant in endpoint.not_tested
        ]
        return f"; untested, answers unknown: {', '.join(names)}" if names else ""

    @property
    def _checks(self) -> list[Check]:
        return [*self.stacks, *(check for endpoint in self.endpoints for check in endpoint.checks)]


def check_endpoints(
    cloud: Cloud, workspace: Workspace, assembly: Assembly, names: Sequence[str]
) -> list[EndpointVerdict]:
    """Check endpoints without sending requests."""
    return in_parallel(lambda name: _check_endpoint(cloud, workspace, assembly, name), names)


def check_shared_stacks(cloud: Cloud, workspace: Workspace, assembly: Assembly) -> list[Check]:
    """Check the shared stacks: each must exist and match."""
    base = workspace.spec.base
    endpoint_stacks = {naming.endpoint_stack_name(base, name) for name in workspace.spec.endpoints}
    names = [name for name in assembly.stacks if name not in endpoint_stacks]
    return in_parallel(
        lambda name: stack_check(name, deployed_stack(cloud, name), assembly.template(name), aspect=name),
        names,
    )


def stack_check(
    name: str, stack: DeployedStack | None, expected: Template, *, aspect: str = "stack"
) -> Check:
    """Check that a stack exists, is complete, and matches its template. Pure."""
    if stack is None:
        return Check(aspect, ("not deployed: the stack does not exist",), compared=1)
    state, notes = stack.state, []
    because = f": {state.reason}" if state.reason else ""
    failures = []
    if state.failure:
        never = not (state.was_created or state.in_progress)
        failures.append(f"not deployed: {state.failure}" if never else state.failure)
    elif state.status == "UPDATE_ROLLBACK_COMPLETE":
        notes.append(f"its last update was rolled back{because}")
    deployed: Template | None = as_written(stack.template, expected)
    if deployed is not None and deployed != expected:
        plan = plan_stack(name, deployed=deployed, new=expected)
        failures.append(f"not deployed: {plan.summary.removeprefix(f'{name}: ')}")
        failures += [f"pending: {line}" for line in plan.details]
    return Check(aspect, tuple(failures), tuple(notes), state.status, compared=2)


def with_smoke(verdict: EndpointVerdict, results: Sequence[SmokeResult]) -> EndpointVerdict:
    """Add smoke results to a verdict."""
    return replace(verdict, checks=(*verdict.checks, smoke_check(results)), smoke=tuple(results))


def smoke_check(results: Sequence[SmokeResult]) -> Check:
    """Summarize smoke results. Pure."""
    texts = {result: shortened(str(result).partition("/")[2]) for result in results}
    untested = not_tested(results)
    notes = [f"{target.variant}: {target.model} was not tested: {target.reason}" for target in untested]
    whole = {(target.variant, target.model) for target in untested}
    notes += [
        texts[result]
        for result in results
        if result.outcome == "skipped" and (result.variant, result.model) not in whole
    ]
    answers = [result for result in results if result.outcome != "skipped"]
    right = [result for result in answers if not result.is_failure]
    slowest = max((result.milliseconds or 0.0 for result in answers), default=0.0)
    return Check(
        "answers",
        tuple(texts[result] for result in answers if result.is_failure),
        tuple(notes),
        f"{len(right)} of {len(answers)} correct, slowest {slowest:.0f} ms" if answers else "none sent",
        compared=len(answers),
    )


def verdict_events(workspace: Workspace, verdict: Verdict) -> list[Event]:
    """Return the events to record: one for failures, one for passes.

    A failure in a shared stack affects all endpoints. Without smoke requests nothing counts as verified,
    because promotion would take it as proof of correct answers.
    """
    shared = any(not check.passed for check in verdict.stacks)
    refuted = [endpoint.name for endpoint in verdict.endpoints if shared or not endpoint.passed]
    passed = [endpoint.name for endpoint in verdict.endpoints if endpoint.name not in refuted]
    events = []
    if passed and verdict.tested:
        events.append(new_event("verified", workspace, endpoints=passed, revision=verdict.revision))
    if refuted:
        # If one of two endpoints with the same artifact fails, the artifact is not verified.
        note = "; ".join(verdict.failures)
        short = note if len(note) <= _LONGEST_NOTE else f"{note[: _LONGEST_NOTE - 1]}…"
        refutation = new_event("refuted", workspace, endpoints=refuted, note=short, revision=verdict.revision)
        events.append(refutation)
    return events


def record_verdict(cloud: Cloud, workspace: Workspace, verdict: Verdict) -> list[Event]:
    """Record a verdict; skip an environment without a bucket."""
    events, bucket = verdict_events(workspace, verdict), workspace.spec.artifact_bucket
    for event in events:
        try:
            record_event(cloud, bucket, event)
        except ClientError as error:
            if aws_error_code(error) == "NoSuchBucket":
                return []
            raise NotRecordedError(
                f"{verdict.summary}; cannot record this in s3://{bucket}: {error}",
                remedy="use credentials that may write objects below events/ there, or pass --no-record",
            ) from None
    return events


def _check_endpoint(cloud: Cloud, workspace: Workspace, assembly: Assembly, name: str) -> EndpointVerdict:
    spec = workspace.spec
    stack = naming.endpoint_stack_name(spec.base, name)
    template = assembly.template(stack)
    deployed = deployed_stack(cloud, stack)
    checks, not_compared = [stack_check(stack, deployed, template)], dict[str, int]()
    if deployed is not None and deployed.template is not None:
        expected = expected_endpoint(template, deployed.facts)
        if expected is not None:
            checks += endpoint_checks(expected, observe_endpoint(cloud, expected))
            not_compared |= expected.not_compared
        checks.append(artifact_check(cloud, workspace, name))
    return EndpointVerdict(name, spec.endpoint_name(name), tuple(checks), not_compared=not_compared)
