"""Send the examples of each artifact to the endpoint that serves it, and compare the answers.

Examples are stored beside each artifact (tritonstack.files.records.examples), so this needs neither a
framework nor the model's source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tritonstack.base.errors import TritonstackError
from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.invoke.examples import load_examples
from tritonstack.operate.invoke.invocation_targets import InvocationTarget, endpoint_targets
from tritonstack.operate.invoke.smoke_requests import (
    PATIENCE_WITH_SLEEPERS,
    USUAL_PATIENCE,
    Deadline,
    Patience,
    RequestResult,
    ask_all,
    may_sleep,
)
from tritonstack.operate.shared.aws import Cloud, in_parallel

_TARGETS_AT_ONCE = 4
"""Models of one endpoint that are tested in parallel: a multi-model endpoint loads each."""

SmokeOutcome = Literal["ok", "wrong", "failed", "not-checked", "skipped"]
"""wrong: unexpected answer. failed: error or no answer. not-checked: no examples. skipped: not
callable, such as a shadow variant."""


@dataclass(frozen=True)
class UntestedVariant:
    """A variant that was not tested, so its answers are unknown."""

    variant: str
    model: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class SmokeResult:
    """The result of one request to one model."""

    endpoint: str
    """The endpoint's name in the environment's file."""
    model: str
    digest: str | None
    """The locked artifact; None if there is none."""
    variant: str
    example: str = ""
    """The test input."""
    outcome: SmokeOutcome
    detail: str = ""
    """The difference and tolerance, the endpoint's error, or the remedy."""
    milliseconds: float | None = None
    """Latency, measured by the client."""

    @property
    def is_failure(self) -> bool:
        """Return whether the answers are not known to be right."""
        return self.outcome not in ("ok", "skipped")

    def __str__(self) -> str:
        subject = f"{self.endpoint}/{self.variant}: {self.model}"
        example = f", {self.example}" if self.example else ""
        took = f" ({self.milliseconds:.0f} ms)" if self.milliseconds is not None else ""
        return f"{subject}{example}: {self.outcome}{took}{f': {self.detail}' if self.detail else ''}"


def smoke_endpoint(
    cloud: Cloud, workspace: Workspace, name: str, *, patience: Patience | None = None
) -> list[SmokeResult]:
    """Test all models of an endpoint according to the lock, on each variant.

    One deadline applies to the whole endpoint, which wakes up once. All endpoint failures are results; only
    an unreadable bucket raises an error.
    """
    if patience is None:
        patience = PATIENCE_WITH_SLEEPERS if may_sleep(workspace, name) else USUAL_PATIENCE
    targets, deadline = endpoint_targets(workspace, name), patience.begin()
    answered = in_parallel(
        lambda target: [
            _result(name, target, answer) for answer in _smoke(cloud, workspace, target, deadline)
        ],
        targets,
        at_once=_TARGETS_AT_ONCE,
    )
    return [result for results in answered for result in results]


def not_tested(results: Sequence[SmokeResult]) -> list[UntestedVariant]:
    """Return the variants without a request, and the reasons. Pure."""
    tested = {(result.variant, result.model) for result in results if result.outcome != "skipped"}
    reasons = {(result.variant, result.model): result.detail for result in results}
    return [UntestedVariant(*key, reason) for key, reason in reasons.items() if key not in tested]


def _smoke(
    cloud: Cloud, workspace: Workspace, target: InvocationTarget, deadline: Deadline
) -> Iterator[RequestResult]:
    if target.why_not:
        yield RequestResult("", "skipped", target.why_not)
        return
    if target.artifact is None:
        remedy = f"run `{workspace.lock_command}`"
        yield RequestResult("", "not-checked", f"not in the lock: {remedy}")
        return
    bucket, digest = workspace.spec.artifact_bucket, target.artifact.digest
    try:
        examples = load_examples(cloud, bucket=bucket, model=target.model.name, digest=digest)
        yield from ask_all(cloud, workspace.spec, target, examples, deadline)
    except TritonstackError as error:  # examples are missing or corrupt
        text = f"{error.message}; {error.remedy}" if error.remedy else error.message
        yield RequestResult("", "not-checked", text)


def _result(name: str, target: InvocationTarget, answer: RequestResult) -> SmokeResult:
    return SmokeResult(
        endpoint=name,
        model=target.model.name,
        digest=target.artifact.digest if target.artifact else None,
        variant=target.served_by,
        **vars(answer),
    )
