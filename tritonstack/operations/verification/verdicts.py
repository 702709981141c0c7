"""Whether what runs is what the checked-out commit asks for: looked at side by side, judged, written down."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import Cloud, error_code
from tritonstack.operations.deploying.assembly import Assembly, Template
from tritonstack.operations.deploying.plans import plan_stack
from tritonstack.operations.deploying.stored_templates import as_written
from tritonstack.operations.events import new_event, record_event
from tritonstack.operations.revisions import Revision
from tritonstack.operations.smoke.asking import NotAsked, SmokeResult, not_asked
from tritonstack.operations.verification.artifact_checks import artifact_check
from tritonstack.operations.verification.checks import Check, shortened
from tritonstack.operations.verification.endpoint_checks import endpoint_checks
from tritonstack.operations.verification.expectations import expected_endpoint
from tritonstack.operations.verification.live import (
    StandingStack,
    observe_endpoint,
    side_by_side,
    standing_stack,
)
from tritonstack.project.workspace import Workspace
from tritonstack.records.events import Event

_LONGEST_NOTE = 2000


class VerdictNotWrittenError(TritonstackError):
    """What was found out could not be written down."""


@dataclass(frozen=True)
class EndpointVerdict:
    """One endpoint, and all that was found out about it."""

    name: str
    """By its name in the environment's file."""
    full_name: str
    checks: tuple[Check, ...]
    smoke: tuple[SmokeResult, ...] = ()
    not_compared: Mapping[str, int] = field(default_factory=dict)
    """Resources of its stack that are held to the template alone: how many of each type."""

    @property
    def passed(self) -> bool:
        """Whether it runs what was asked for, and answers rightly as far as it was asked."""
        return all(check.passed for check in self.checks)

    @property
    def faults(self) -> list[str]:
        """All that is wrong, each with the side that it was found on."""
        return [f"{check.aspect}: {fault}" for check in self.checks for fault in check.faults]

    @property
    def not_asked(self) -> list[NotAsked]:
        """Its variants that no request could be sent to."""
        return not_asked(self.smoke)

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return {
            "name": self.name,
            "endpoint": self.full_name,
            "passed": self.passed,
            "checks": [check.facts() for check in self.checks],
            "smoke": [result.facts() for result in self.smoke],
            "not_asked": [asdict(one) for one in self.not_asked],
            "not_compared": dict(self.not_compared),
        }


@dataclass(frozen=True)
class Verdict:
    """What was found out about an environment."""

    environment: str
    revision: Revision
    """The files that it was held against."""
    endpoints: tuple[EndpointVerdict, ...]
    stacks: tuple[Check, ...] = ()
    """Those that belong to no endpoint; none where single endpoints were asked about."""
    asked: bool = False
    """Whether endpoints were sent smoke requests, without which nothing is known of their answers."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    @property
    def faults(self) -> list[str]:
        """All that is wrong."""
        shared = [f"{check.aspect}: {fault}" for check in self.stacks for fault in check.faults]
        return [*shared, *(f"{one.name}: {fault}" for one in self.endpoints for fault in one.faults)]

    @property
    def words(self) -> str:
        """The verdict in one line."""
        asks = f"{self.revision.words} asks for"
        if not self.passed:
            count = len(self.faults)
            things = f"{count} things are" if count > 1 else "1 thing is"
            return f"refuted: {things} not what {asks}"
        compared = sum(check.compared for check in self._checks)
        skipped = sum(check.skipped for check in self._checks)
        unknown = f", {skipped} known to CloudFormation alone" if skipped else ""
        return (
            f"verified: {self.environment} runs what {asks} ({compared} values compared{unknown})"
            f"{self._unanswered}"
        )

    @property
    def _unanswered(self) -> str:
        """Whose answers nobody knows."""
        if not self.asked:
            return "; nothing was asked of its endpoints"
        left = [f"{one.name}/{which.variant}" for one in self.endpoints for which in one.not_asked]
        return f"; not asked, so nobody knows how they answer: {', '.join(left)}" if left else ""

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return {
            "environment": self.environment,
            "commit": self.revision.text,
            "uncommitted": list(self.revision.files),
            "passed": self.passed,
            "asked": self.asked,
            "stacks": [check.facts() for check in self.stacks],
            "endpoints": [one.facts() for one in self.endpoints],
            "faults": self.faults,
            "words": self.words,
        }

    @property
    def _checks(self) -> list[Check]:
        return [*self.stacks, *(check for one in self.endpoints for check in one.checks)]


def look_at_endpoints(
    cloud: Cloud, workspace: Workspace, assembly: Assembly, names: Sequence[str]
) -> list[EndpointVerdict]:
    """What can be told of endpoints without asking them anything."""
    return side_by_side(lambda name: _look_at(cloud, workspace, assembly, name), names)


def look_at_shared_stacks(cloud: Cloud, workspace: Workspace, assembly: Assembly) -> list[Check]:
    """The stacks that belong to no endpoint: each stands, and is the one that is asked for."""
    base = workspace.spec.base
    own = {naming.endpoint_stack_name(base, name) for name in workspace.spec.endpoints}
    names = [name for name in assembly.stacks if name not in own]
    return side_by_side(
        lambda name: stack_check(name, standing_stack(cloud, name), assembly.template(name), aspect=name),
        names,
    )


def stack_check(
    name: str, standing: StandingStack | None, wanted: Template, *, aspect: str = "stack"
) -> Check:
    """That a stack stands, is settled, and was deployed from the template that is asked for. Pure."""
    if standing is None:
        return Check(aspect, ("not deployed yet: there is no such stack",), compared=1)
    state, notes = standing.state, []
    because = f": {state.reason}" if state.reason else ""
    faults = []
    if state.fault:
        never = not (state.stands or state.in_progress)
        faults.append(f"not deployed yet: {state.fault}" if never else state.fault)
    elif state.status == "UPDATE_ROLLBACK_COMPLETE":
        notes.append(f"its last update was taken back{because}")
    deployed: Template | None = as_written(standing.template, wanted)
    if deployed is not None and deployed != wanted:
        plan = plan_stack(name, deployed=deployed, new=wanted)
        faults.append(f"not deployed yet: {plan.words.removeprefix(f'{name}: ')}")
        faults += [f"to come: {line}" for line in plan.details]
    return Check(aspect, tuple(faults), tuple(notes), state.status, compared=2)


def with_smoke(verdict: EndpointVerdict, results: Sequence[SmokeResult]) -> EndpointVerdict:
    """A verdict with what an endpoint answered."""
    return replace(verdict, checks=(*verdict.checks, smoke_check(results)), smoke=tuple(results))


def smoke_check(results: Sequence[SmokeResult]) -> Check:
    """What smoke requests came to. Pure."""
    said = {result: shortened(str(result).partition("/")[2]) for result in results}
    left = not_asked(results)
    unasked = [f"{one.variant}: {one.model} was not asked: {one.why}" for one in left]
    whole = {(one.variant, one.model) for one in left}
    partly = [
        said[one]
        for one in results
        if one.outcome == "cannot-be-asked" and (one.variant, one.model) not in whole
    ]
    asked = [result for result in results if result.outcome != "cannot-be-asked"]
    right = [result for result in asked if not result.is_fault]
    slowest = max((result.milliseconds or 0.0 for result in asked), default=0.0)
    return Check(
        "answers",
        tuple(said[result] for result in asked if result.is_fault),
        (*unasked, *partly),
        f"{len(right)} of {len(asked)} right, the slowest after {slowest:.0f} ms" if asked else "none asked",
        compared=len(asked),
    )


def verdict_events(workspace: Workspace, verdict: Verdict) -> list[Event]:
    """What is to be written down: one event of what failed, one of what passed.

    What is wrong with a shared stack is wrong with all that stands on it. Without smoke requests nothing is
    verified, for a promotion would take it as proof of right answers.
    """
    shared = any(not check.passed for check in verdict.stacks)
    refuted = [one.name for one in verdict.endpoints if shared or not one.passed]
    passed = [one.name for one in verdict.endpoints if one.name not in refuted]
    events = []
    if passed and verdict.asked:
        events.append(new_event("verified", workspace, endpoints=passed, revision=verdict.revision))
    if refuted:
        # The last word: what two endpoints serve, one of them wrongly, is not verified.
        note = "; ".join(verdict.faults)
        short = note if len(note) <= _LONGEST_NOTE else f"{note[: _LONGEST_NOTE - 1]}…"
        refutation = new_event("refuted", workspace, endpoints=refuted, note=short, revision=verdict.revision)
        events.append(refutation)
    return events


def record_verdict(cloud: Cloud, workspace: Workspace, verdict: Verdict) -> list[Event]:
    """Write a verdict down; an environment that has no bucket yet has nothing to keep it in."""
    events, bucket = verdict_events(workspace, verdict), workspace.spec.artifact_bucket
    for event in events:
        try:
            record_event(cloud, bucket, event)
        except ClientError as error:
            if error_code(error) == "NoSuchBucket":
                return []
            raise VerdictNotWrittenError(
                f"{verdict.words}; this could not be written to s3://{bucket}: {error}",
                remedy="use credentials that may write objects below events/ there, or add --no-record",
            ) from None
    return events


def _look_at(cloud: Cloud, workspace: Workspace, assembly: Assembly, name: str) -> EndpointVerdict:
    spec = workspace.spec
    stack = naming.endpoint_stack_name(spec.base, name)
    wanted = assembly.template(stack)
    standing = standing_stack(cloud, stack)
    checks, not_compared = [stack_check(stack, standing, wanted)], dict[str, int]()
    if standing is not None and standing.template is not None:
        expected = expected_endpoint(wanted, standing.facts)
        if expected is not None:
            checks += endpoint_checks(expected, observe_endpoint(cloud, expected))
            not_compared |= expected.not_compared
        checks.append(artifact_check(cloud, workspace, name))
    return EndpointVerdict(name, spec.endpoint_name(name), tuple(checks), not_compared=not_compared)


def known_endpoints(workspace: Workspace, names: Collection[str]) -> list[str]:
    """The endpoints that are meant, in the order of the file: all of them if none is named."""
    return [name for name in workspace.spec.endpoints if not names or name in names]
