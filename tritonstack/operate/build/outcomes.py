"""The outcome of a build per artifact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from model_build.errors import ModelBuildError
from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.base.results import Internal, Key, public
from tritonstack.files.model.inputs import answers_remedy
from tritonstack.files.project.build_plans import NeededArtifact
from tritonstack.files.records.manifests import Manifest
from tritonstack.operate.jobs.jobs import event_text
from tritonstack.operate.shared.session import Step

LINES_SHOWN = 20
"""Log lines to show of a failed build."""


@dataclass(frozen=True)
class Outcome:
    """An artifact, or the error of its build."""

    needed: Internal[NeededArtifact]
    manifest: Internal[Manifest | None] = None
    """Set if the artifact was built or is on this machine; otherwise the lock describes it."""
    reused: bool = False
    """True if the artifact existed before."""
    artifact_dir: Annotated[Path | None, Key("directory")] = None
    """Its folder on this machine, if any."""
    error: Internal[TritonstackError | None] = None

    @property
    def unverified_reason(self) -> str:
        """Return why the answers are unverified, and how to change that; empty if they are verified."""
        reasons = self.manifest.unverified if self.manifest else ()
        return "; ".join((*reasons, answers_remedy(reasons))) if reasons else ""

    @public
    def model(self) -> str:
        """The name of the model."""
        return self.needed.model

    @public
    def digest(self) -> str | None:
        """The digest of the artifact."""
        artifact = self.manifest or self.needed.locked
        return artifact.digest if artifact else None

    @public
    def target(self) -> str:
        """What the artifact was built for."""
        return self.manifest.target if self.manifest else self.needed.target


class BuildFailedError(TritonstackError):
    """Several builds failed; the message has a block per build."""

    code = ModelBuildError.code

    def __init__(self, failed: Sequence[tuple[NeededArtifact, TritonstackError]]) -> None:
        blocks = [f"{needed.model} for {needed.target}: {error.report()}" for needed, error in failed]
        super().__init__(
            "\n\n".join([f"{len(failed)} builds failed", *blocks]),
            remedy="fix each failed build as its `help` says, and rerun; finished builds are reused",
        )
        self.failures = tuple(
            {
                "model": needed.model,
                "target": needed.target,
                "code": error.code,
                "message": error.message,
                "remedy": error.remedy,
                "exit_code": error.exit_code,
            }
            for needed, error in failed
        )


class BuildMisusedError(BuildFailedError, UsageError):
    """Several builds failed because of invalid usage."""


def failure_of(outcomes: Sequence[Outcome]) -> TritonstackError | None:
    """Return all failures as one error; None if there is none."""
    failed = [(outcome.needed, outcome.error) for outcome in outcomes if outcome.error is not None]
    if len(failed) <= 1:
        return failed[0][1] if failed else None
    misused = all(error.exit_code == UsageError.exit_code for _, error in failed)
    return (BuildMisusedError if misused else BuildFailedError)(failed)


def show_event(step: Step, event: dict[str, Any]) -> None:
    """Report the event of a build step."""
    if event["event"] != "step":
        return
    if event["state"] in ("started", "running"):
        step.update(event_text(event))
        return
    # The error that ends the command has the full text; here, one line is enough.
    step.log(event_text({**event, "detail": event["detail"].partition("\n")[0]}))


def error_from(event: dict[str, Any], *, log: str) -> TritonstackError:
    """Return the error of a failed build, with the location of its log."""
    kind = UsageError if event.get("exit_code") == UsageError.exit_code else TritonstackError
    location = f"{event['where']}: " if event.get("where") else ""
    # The build images of other versions report no code.
    code = event.get("code") or BuildFailedError.code
    return kind(f"{location}{event['message']}\n  log: {log}", remedy=event.get("remedy"), code=code)
