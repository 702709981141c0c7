"""CodeBuild's records, projects and builds, and its errors with AWS's codes and messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import ReplyError, ServiceError
from tritonstack_local.service.tables import Table

Status = Literal["IN_PROGRESS", "SUCCEEDED", "FAILED", "FAULT", "TIMED_OUT", "STOPPED"]
_WITHOUT_CONTEXT = ("SUBMITTED", "QUEUED", "COMPLETED")
_SHOWN_OF_PROJECT = (
    "source sourceVersion cache environment serviceRole timeoutInMinutes queuedTimeoutInMinutes vpcConfig "
    "encryptionKey"
)


def now() -> datetime:
    """Return the current time with time zone."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class ProjectRecord:
    """A project: its fields from creation and updates."""

    name: str
    arn: str
    created: datetime
    modified: datetime
    fields: Mapping[str, Any]
    builds: int = 0
    """Number of builds so far."""

    def as_api(self) -> dict[str, Any]:
        """Return it in the format of BatchGetProjects."""
        return {
            **self.fields,
            "arn": self.arn,
            "created": self.created,
            "lastModified": self.modified,
            "badge": {"badgeEnabled": False},
            "projectVisibility": "PRIVATE",
        }


@dataclass(frozen=True)
class Phase:
    """One phase of a build. Its context explains its end."""

    type: str
    started: datetime
    ended: datetime | None = None
    status: Status | None = None
    code: str = ""
    message: str = ""

    def closed(self, status: Status, code: str = "", message: str = "") -> Phase:
        """Return the finished phase."""
        return replace(self, ended=now(), status=status, code=code, message=message)

    def as_api(self) -> dict[str, Any]:
        """Return it in the format of BatchGetBuilds."""
        shown: dict[str, Any] = {"phaseType": self.type, "startTime": self.started}
        if self.ended is None:
            return shown
        seconds = int((self.ended - self.started).total_seconds())
        shown |= {"phaseStatus": self.status, "endTime": self.ended, "durationInSeconds": seconds}
        if self.type not in _WITHOUT_CONTEXT or self.code:
            shown["contexts"] = [{"statusCode": self.code, "message": self.message}]
        return shown


@dataclass(frozen=True)
class BuildRecord:
    """A build; its name is its id, `<project>:<uuid>`."""

    name: str
    arn: str
    number: int
    settings: Mapping[str, Any]
    """The project's fields with the request's overrides."""
    request: Mapping[str, Any]
    """The StartBuild request."""
    initiator: str
    started: datetime
    ended: datetime | None = None
    status: Status = "IN_PROGRESS"
    phases: Sequence[Phase] = ()
    log: Mapping[str, str] | None = None
    """Names of the log group and stream."""
    source_version: str | None = None
    """The resolved source version."""

    @property
    def project(self) -> str:
        """The project's name."""
        return self.name.partition(":")[0]

    @property
    def uuid(self) -> str:
        """The unique part of its id."""
        return self.name.partition(":")[2]

    @property
    def complete(self) -> bool:
        """Whether it has ended."""
        return self.status != "IN_PROGRESS"

    def with_phase(self, phase: Phase) -> BuildRecord:
        """Return the build with a new phase or an updated last phase."""
        before = self.phases[:-1] if self.phases and self.phases[-1].type == phase.type else self.phases
        return replace(self, phases=(*before, phase))

    def over(self, status: Status, code: str = "", message: str = "") -> BuildRecord:
        """Return the finished build; its open phase ends too."""
        phases = [phase if phase.ended else phase.closed(status, code, message) for phase in self.phases]
        return replace(self, status=status, ended=now(), phases=(*phases, Phase("COMPLETED", now())))

    def as_api(self, scope: Scope) -> dict[str, Any]:
        """Return it in the format of BatchGetBuilds."""
        shown = {name: self.settings[name] for name in _SHOWN_OF_PROJECT.split() if name in self.settings}
        return {
            **shown,
            "id": self.name,
            "arn": self.arn,
            "buildNumber": self.number,
            "projectName": self.project,
            "startTime": self.started,
            "endTime": self.ended,
            "buildStatus": self.status,
            "buildComplete": self.complete,
            "currentPhase": self.phases[-1].type,
            "phases": [phase.as_api() for phase in self.phases],
            "initiator": self.initiator,
            "resolvedSourceVersion": self.source_version,
            "artifacts": {"location": ""},
            "exportedEnvironmentVariables": [],
            "logs": self._logs(scope),
        }

    def _logs(self, scope: Scope) -> dict[str, Any]:
        config = self.settings.get("logsConfig", {}).get("cloudWatchLogs", {"status": "ENABLED"})
        shown: dict[str, Any] = {"cloudWatchLogs": config, "s3Logs": {"status": "DISABLED"}}
        if self.log is not None:
            where = f"log-group:{self.log['groupName']}:log-stream:{self.log['streamName']}"
            shown |= {**self.log, "cloudWatchLogsArn": scope.arn("logs", where)}
        return shown


@dataclass(frozen=True)
class CodeBuildTables:
    """All tables of CodeBuild."""

    projects: Table[ProjectRecord] = field(default_factory=Table[ProjectRecord])
    builds: Table[BuildRecord] = field(default_factory=Table[BuildRecord])


def invalid_input(message: str) -> ServiceError:
    """Return the error for an invalid request."""
    return ServiceError("InvalidInputException", message)


def not_supported(what: str) -> ServiceError:
    """Return the error for an unsupported feature of CodeBuild."""
    return invalid_input(f"The local cloud does not support {what}.")


class PhaseFailedError(ReplyError):
    """A phase of a build failed; code and message are its context."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class BuildEndedError(ReplyError):
    """The build was stopped or timed out."""

    def __init__(self, status: Status, code: str = "", message: str = "") -> None:
        super().__init__(message)
        self.status: Status = status
        self.code = code


class MachineGoneError(ReplyError):
    """The machine of the build has ended."""
