"""Send the examples of each artifact to the endpoint that serves it, and compare the answers.

Examples are stored beside each artifact (tritonstack.records.examples), so this needs neither a framework nor
the model's source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import Cloud
from tritonstack.operations.smoke.deadlines import PATIENCE_WITH_SLEEPERS, USUAL_PATIENCE, Deadline, Patience
from tritonstack.operations.smoke.examples import load_examples
from tritonstack.operations.smoke.requests import Asked, ask_all
from tritonstack.operations.smoke.targets import SmokeTarget, may_sleep, smoke_targets
from tritonstack.project.workspace import Workspace

_TARGETS_AT_ONCE = 4
"""Models of one endpoint that are asked at once: a multi-model endpoint loads each, and serves others."""

SmokeOutcome = Literal["ok", "wrong", "failed", "not-checked", "cannot-be-asked"]
"""wrong: it answered otherwise. failed: it did not answer, or with an error. not-checked: there is nothing to
ask it. cannot-be-asked: no caller can, as with a shadow variant."""


@dataclass(frozen=True)
class NotAsked:
    """A variant that nothing was asked of, so that nobody knows how it answers."""

    variant: str
    model: str
    why: str


@dataclass(frozen=True, kw_only=True)
class SmokeResult:
    """What came of one request to one model."""

    endpoint: str
    """By its name in the environment's file."""
    model: str
    digest: str | None
    """The artifact that the lock names; None where it names none."""
    variant: str
    example: str = ""
    """Which test input was sent."""
    outcome: SmokeOutcome
    detail: str = ""
    """What differs, by how much, and what is accepted; or the endpoint's own words; or what to do."""
    milliseconds: float | None = None
    """From the request to its answer, as seen here."""

    @property
    def is_fault(self) -> bool:
        """Whether an endpoint with this result is not known to answer rightly."""
        return self.outcome not in ("ok", "cannot-be-asked")

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)

    def __str__(self) -> str:
        whom = f"{self.endpoint}/{self.variant}: {self.model}"
        what = f", {self.example}" if self.example else ""
        took = f" ({self.milliseconds:.0f} ms)" if self.milliseconds is not None else ""
        return f"{whom}{what}: {self.outcome}{took}{f': {self.detail}' if self.detail else ''}"


def smoke_endpoint(
    cloud: Cloud, workspace: Workspace, name: str, *, patience: Patience | None = None
) -> list[SmokeResult]:
    """Ask every model that an endpoint serves by the environment's lock, on each of its variants.

    Its patience is with the endpoint as a whole, for what has slept wakes up once. Whatever an endpoint does
    is a result, no error, and so is an artifact without examples, or with damaged ones. Only a bucket that
    cannot be read raises.
    """
    if patience is None:
        patience = PATIENCE_WITH_SLEEPERS if may_sleep(workspace, name) else USUAL_PATIENCE
    targets, deadline = smoke_targets(workspace, name), patience.begin()
    with ThreadPoolExecutor(_TARGETS_AT_ONCE) as pool:
        answered = pool.map(lambda target: list(_smoke(cloud, workspace, target, deadline)), targets)
        return [result for results in answered for result in results]


def not_asked(results: Sequence[SmokeResult]) -> list[NotAsked]:
    """The variants that no request could be sent to, each with the reason. Pure."""
    asked = {(one.variant, one.model) for one in results if one.outcome != "cannot-be-asked"}
    left = {(one.variant, one.model): one.detail for one in results}
    return [NotAsked(*whom, why) for whom, why in left.items() if whom not in asked]


def _smoke(
    cloud: Cloud, workspace: Workspace, target: SmokeTarget, deadline: Deadline
) -> Iterator[SmokeResult]:
    if target.why_not:
        yield _result(target, Asked("", "cannot-be-asked", target.why_not))
        return
    if target.artifact is None:
        remedy = f"run `tritonstack build {workspace.spec.name}`"
        yield _result(target, Asked("", "not-checked", f"the lock names no artifact of it: {remedy}"))
        return
    try:
        examples = load_examples(
            cloud, bucket=workspace.spec.artifact_bucket, model=target.model, digest=target.artifact.digest
        )
        for asked in ask_all(cloud, workspace.spec, target, examples, deadline):
            yield _result(target, asked)
    except TritonstackError as error:  # there are no examples, or they are damaged
        yield _result(target, Asked("", "not-checked", _words(error)))


def _result(target: SmokeTarget, asked: Asked) -> SmokeResult:
    return SmokeResult(
        endpoint=target.endpoint,
        model=target.model,
        digest=target.artifact.digest if target.artifact else None,
        variant=target.variant,
        example=asked.example,
        outcome=asked.outcome,
        detail=asked.detail,
        milliseconds=asked.milliseconds,
    )


def _words(error: TritonstackError) -> str:
    return f"{error.message}; {error.remedy}" if error.remedy else error.message
