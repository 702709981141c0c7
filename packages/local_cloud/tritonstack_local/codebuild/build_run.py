"""Run one build, phase by phase.

    SUBMITTED > QUEUED > PROVISIONING > DOWNLOAD_SOURCE > INSTALL > PRE_BUILD > BUILD > POST_BUILD >
    UPLOAD_ARTIFACTS > FINALIZING > COMPLETED

A failed phase ends the build, except BUILD: POST_BUILD follows, and artifacts are uploaded. `on-failure`
changes this. A build that is stopped or timed out ends at once.
"""

from __future__ import annotations

import logging
import lzma
import shutil
import threading
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code, aws_error_message
from tritonstack_local.codebuild.buildspec import (
    PHASES,
    BuildShell,
    Buildspec,
    PhaseSpec,
    parse_buildspec,
    plain_variables,
    role_credentials,
    service_variables,
)
from tritonstack_local.codebuild.machines.base import Machine, MachineOrder, NoMachineError, StartMachine
from tritonstack_local.codebuild.records import (
    BuildEndedError,
    BuildRecord,
    CodeBuildTables,
    MachineGoneError,
    PhaseFailedError,
    Status,
)
from tritonstack_local.codebuild.reporting import BuildJournal
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.settings import REAL_MINUTE_S

_ARN = "arn:aws:s3:::"
_MODE_SHIFT, _MODE_MASK = 16, 0o777
_CHUNK = 1 << 20
# Errors of an invalid archive: format, names (too long, or below a file), password, unknown compression, or
# damaged data.
_UNUSABLE = (
    zipfile.BadZipFile,
    ValueError,
    OSError,
    RuntimeError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
)


def _fetch_source(s3: Any, source: Mapping[str, Any], version: str | None, *, to: Path, scratch: Path) -> str:
    """Download a source to a folder; return its version."""
    to.mkdir(parents=True)
    if source["type"] == "NO_SOURCE":
        return ""
    bucket, _, key = source["location"].removeprefix(_ARN).partition("/")
    try:
        return _fetch_archive(s3, bucket, key, version, to=to, scratch=scratch)
    except ClientError as error:
        reason = f"{aws_error_code(error)}: {aws_error_message(error)}"
        raise PhaseFailedError(
            "CLIENT_ERROR", f"error while downloading key {key}, error: {reason}, for primary source"
        ) from error
    except _UNUSABLE as error:
        raise PhaseFailedError("CLIENT_ERROR", f"{error} for primary source") from error


def _fetch_archive(s3: Any, bucket: str, key: str, version: str | None, *, to: Path, scratch: Path) -> str:
    answer = s3.get_object(Bucket=bucket, Key=key, **({"VersionId": version} if version else {}))
    archive = scratch / "source.zip"
    with archive.open("wb") as file:
        for chunk in answer["Body"].iter_chunks(_CHUNK):
            file.write(chunk)
    _unpack(archive, to)
    archive.unlink()
    return str(answer.get("VersionId") or f"{_ARN}{bucket}/{key}")


def _unpack(archive: Path, to: Path) -> None:
    """Unpack a zip archive with file modes; reject paths outside the folder."""
    with zipfile.ZipFile(archive) as files:
        for member in files.infolist():
            target = _below(to, member.filename)
            files.extract(member, to)
            mode = member.external_attr >> _MODE_SHIFT & _MODE_MASK
            if mode and not member.is_dir():
                target.chmod(mode)


def _below(folder: Path, name: str) -> Path:
    target = (folder / name).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise ValueError(f"illegal file path in the source: {name}")
    return target


FOUND_DEAD = "Build container found dead before completing the build."
_INTERNAL = "INTERNAL_SERVICE_ERROR"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BuildServices:
    """Services shared by all builds of a cloud."""

    folder: Path
    """Parent of the builds' folders."""
    clients: Clients
    start_machine: StartMachine
    store: CodeBuildTables = field(default_factory=CodeBuildTables)


class BuildRun:
    """A running build. `run` runs it to its end; any thread may call `end` at any time."""

    def __init__(self, services: BuildServices, scope: Scope, build: BuildRecord) -> None:
        self._services = services
        self._scope = scope
        self._id = build.name
        self._settings = build.settings
        self._folder = services.folder / build.uuid
        self._source = self._folder / "output" / "src" / "src"
        self._ending: BuildEndedError | None = None
        self._machine: Machine | None = None
        self._lock = threading.Lock()
        self._journal = BuildJournal(services.store, scope, build.name, checkpoint=self._checkpoint)

    def end(self, status: Status, code: str = "", message: str = "") -> None:
        """End it with a status; the first call decides."""
        with self._lock:
            self._ending = self._ending or BuildEndedError(status, code, message)
            machine = self._machine
        if machine is not None:
            machine.end()

    def run(self) -> None:
        """Run the build to its end."""
        outcome: tuple[Status, str, str]
        try:
            with self._journal.phase("QUEUED"):
                pass  # this machine is available at once
            with self._time_limit():
                outcome = "SUCCEEDED" if self._work() else "FAILED", "", ""
        except BuildEndedError as ending:
            outcome = ending.status, ending.code, ending.message
        except PhaseFailedError as failed:
            outcome = "FAILED", failed.code, failed.message
        except MachineGoneError as gone:
            outcome = "FAULT", _INTERNAL, f"{FOUND_DEAD} {gone.message}"
        except Exception as error:
            # A build must never stay in progress forever.
            log.exception("build %s", self._id)
            outcome = "FAULT", _INTERNAL, f"Internal failure of the local cloud: {error}"
        self._clean_up()
        self._journal.change(lambda build: build.over(*outcome))

    def _work(self) -> bool:
        """Run the phases; return whether all succeeded."""
        with self._journal.phase("PROVISIONING"):
            credentials = self._provision()
        with self._journal.phase("DOWNLOAD_SOURCE"):
            spec = self._download()
            machine = self._start_machine(
                {
                    **service_variables(self._scope, self._journal.build),
                    **credentials,
                    **plain_variables(self._settings, spec.env),
                }
            )
            shell = BuildShell(machine, self._folder, self._source, on_line=self._journal.on_line)
        succeeding, uploads = self._run_phases(spec, shell)
        for kind in ("UPLOAD_ARTIFACTS", "FINALIZING") if uploads else ("FINALIZING",):
            with self._journal.phase(kind):
                pass  # commands upload what they make
        return succeeding

    def _provision(self) -> dict[str, str]:
        """Create the build's folder and log, and assume its role."""
        (self._folder / "tmp").mkdir(parents=True)
        (self._folder / "home").mkdir()
        stream = _log_of(self._journal.build)
        self._journal.open_log(self._services.clients.client("logs", self._scope), stream)
        self._journal.change(lambda build: replace(build, log=stream))
        return role_credentials(self._services.clients, self._scope, self._journal.build)

    def _download(self) -> Buildspec:
        """Download the sources, and read the buildspec."""
        s3, settings = self._services.clients.client("s3", self._scope), self._settings
        scratch = self._folder / "tmp"
        version = _fetch_source(
            s3, settings["source"], settings.get("sourceVersion"), to=self._source, scratch=scratch
        )
        self._journal.change(lambda build: replace(build, source_version=version or None))
        return parse_buildspec(settings["source"]["buildspec"])

    def _start_machine(self, variables: dict[str, str]) -> Machine:
        environment = self._settings["environment"]
        order = MachineOrder(
            build=self._id,
            folder=self._folder,
            source=self._source,
            image=environment["image"],
            privileged=environment.get("privilegedMode", False),
            environment=variables,
            cloud_url=self._services.clients.endpoint_url,
        )
        try:
            machine = self._services.start_machine(order)
        except NoMachineError as error:
            raise PhaseFailedError("BUILD_CONTAINER_UNABLE_TO_PULL_IMAGE", error.message) from error
        with self._lock:
            self._machine = machine
        if self._ending is not None:  # before the machine existed
            machine.end()
        for notice in machine.notices:
            self._journal.log_line(notice)
        return machine

    def _run_phases(self, spec: Buildspec, shell: BuildShell) -> tuple[bool, bool]:
        """Run the buildspec's phases; return whether all succeeded, and whether artifacts follow."""
        succeeding = True
        for kind in PHASES:
            phase = spec.phases.get(kind.lower(), PhaseSpec())  # type: ignore[call-overload]
            try:
                with self._journal.phase(kind):
                    self._journal.log_line(f"Entering phase {kind}")
                    self._run_commands(shell, phase.commands, phase.run_as or spec.run_as, succeeding)
            except PhaseFailedError:
                succeeding = False
                if phase.on_failure == "CONTINUE" or (kind == "BUILD" and phase.on_failure != "ABORT"):
                    continue
                return False, kind == "POST_BUILD" and phase.on_failure != "ABORT"
        return succeeding, True

    def _run_commands(
        self, shell: BuildShell, commands: Sequence[str], user: str | None, succeeding: bool
    ) -> None:
        for command in commands:
            self._checkpoint()
            self._journal.log_line(f"Running command {command}")
            status = shell.run(command, user=user, succeeding=succeeding)
            if status != 0:
                self._journal.log_line(f"Command did not exit successfully {command} exit status {status}")
                raise PhaseFailedError(
                    "COMMAND_EXECUTION_ERROR",
                    f"Error while executing command: {command}. Reason: exit status {status}",
                )

    def _checkpoint(self) -> None:
        if self._ending is not None:
            raise self._ending

    @contextmanager
    def _time_limit(self) -> Iterator[None]:
        minutes = self._settings["timeoutInMinutes"]
        text = f"Build has timed out. It ran longer than {minutes} minutes."
        timer = threading.Timer(minutes * REAL_MINUTE_S, self.end, ("TIMED_OUT", "BUILD_TIMED_OUT", text))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _clean_up(self) -> None:
        try:
            if self._machine is not None:
                self._machine.end()
        except Exception:
            # The build must report its end even if the machine fails.
            log.exception("cannot release the machine of build %s", self._id)
        self._journal.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _log_of(build: BuildRecord) -> dict[str, str] | None:
    config = build.settings.get("logsConfig", {}).get("cloudWatchLogs", {"status": "ENABLED"})
    if config["status"] != "ENABLED":
        return None
    stream = "/".join(filter(None, (config.get("streamName"), build.uuid)))
    return {"groupName": config.get("groupName") or f"/aws/codebuild/{build.project}", "streamName": stream}
