"""What came of each artifact that a build was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.project.build_plans import NeededArtifact
from tritonstack.records.manifests import Manifest
from tritonstack.workflows.reporter import Step

LINES_SHOWN = 20
"""Of what a build that failed has said: the last ones."""


@dataclass(frozen=True)
class Outcome:
    """One artifact, or why there is none."""

    needed: NeededArtifact
    manifest: Manifest | None = None
    """Known of what was built or lies on this machine; of what lies in the bucket the lock tells enough."""
    reused: bool = False
    """Whether it had been built before."""
    artifact_dir: Path | None = None
    """Where it lies on this machine, if it does."""
    error: TritonstackError | None = None

    def facts(self) -> dict[str, Any]:
        """For machines."""
        found = self.manifest or self.needed.locked
        return {
            "model": self.needed.model,
            "digest": found.digest if found else None,
            "target": self.manifest.target if self.manifest else self.needed.target,
            "reused": self.reused,
            "directory": str(self.artifact_dir) if self.artifact_dir else None,
        }


class BuildFailedError(TritonstackError):
    """Several models could not be built: a block for each, with its own help."""

    def __init__(self, failed: Sequence[tuple[NeededArtifact, TritonstackError]]) -> None:
        blocks = [f"{needed.model} for {needed.target}: {error}" for needed, error in failed]
        super().__init__("\n\n".join([f"{len(failed)} builds failed", *blocks]))
        self.failures = tuple(
            {
                "model": needed.model,
                "target": needed.target,
                "message": error.message,
                "remedy": error.remedy,
                "exit_code": error.exit_code,
            }
            for needed, error in failed
        )


class BuildMisusedError(BuildFailedError, UsageError):
    """None of those that could not be built can be built as it was asked."""


def failure_of(outcomes: Sequence[Outcome]) -> TritonstackError | None:
    """All that went wrong, as one error."""
    failed = [(outcome.needed, outcome.error) for outcome in outcomes if outcome.error is not None]
    if len(failed) <= 1:
        return failed[0][1] if failed else None
    misused = all(error.exit_code == UsageError.exit_code for _, error in failed)
    return (BuildMisusedError if misused else BuildFailedError)(failed)


def show_event(step: Step, event: dict[str, Any]) -> None:
    """What a build tells of one of its steps."""
    if event["event"] != "step":
        return
    if event["state"] in ("started", "running"):
        step.update(": ".join(filter(None, (event["step"], event["detail"]))))
        return
    # What went wrong is said once, by the error that ends the command; a damaged artifact ends nothing.
    detail = event["detail"].splitlines()[0] if event["detail"] else ""
    mark = "failed: " if event["state"] == "failed" else ""
    step.log(f"{event['step']}: {mark}{detail} ({event['seconds']:.1f} s)")


def error_from(event: dict[str, Any], *, log: str) -> TritonstackError:
    """The error of a build that failed, with its model, its step, and the place of its log."""
    kind = UsageError if event.get("exit_code") == UsageError.exit_code else TritonstackError
    where = f"{event['where']}: " if event.get("where") else ""
    return kind(f"{where}{event['message']}\n  log: {log}", remedy=event.get("remedy"))
