"""The inputs and outputs of an action."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code, aws_error_message
from tritonstack.base.files import parse_json
from tritonstack_local.codebuild.records import PipelineOrder
from tritonstack_local.codepipeline.errors import ActionFailedError
from tritonstack_local.codepipeline.records import ActionRun
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients

StartBuild = Callable[[Scope, PipelineOrder], str]
"""Begins a build and returns its id."""
POLL_S = 0.1


@dataclass(frozen=True)
class ActionOutcome:
    """The result of an action."""

    artifacts: Mapping[str, str] = field(default_factory=dict)
    revision: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One action of one execution, possibly started by an earlier process of this cloud."""

    pipeline: str
    stage: str
    action: Mapping[str, Any]
    """Its declaration, with variables replaced."""
    scope: Scope
    """The scope of its services."""
    home: Scope
    """The scope of the pipeline."""
    bucket: str
    """The artifact store."""
    inputs: Mapping[str, str]
    """Keys of its input artifacts."""
    outputs: Mapping[str, str]
    """Keys of its output artifacts."""
    revision: str
    """Requested source version; empty for the latest."""
    clients: Clients
    start_build: StartBuild
    look: Callable[[], ActionRun]
    """Returns the action's record; raises if the action must stop."""
    note: Callable[..., ActionRun]
    """Changes the action's record."""
    pause: Callable[[float], None]
    """Waits between polls; raises if the action must stop."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The action's configuration."""
        settings: Mapping[str, str] = self.action.get("configuration", {})
        return settings

    def setting(self, name: str) -> str:
        """Return a required setting."""
        if not self.settings.get(name):
            raise ActionFailedError(
                "ConfigurationError", f"The configuration of {self.action['name']} needs {name}"
            )
        return self.settings[name]

    def client(self, service: str) -> Any:
        """Return a client in the scope of the action."""
        return self.clients.client(service, self.scope)

    @property
    def store(self) -> Any:
        """A client of the artifact store."""
        return self.clients.client("s3", self.home)

    def read(self, where: str) -> bytes:
        """Read a file of an artifact; `where` is `artifact::path`."""
        name, _, path = where.partition("::")
        if name not in self.inputs:
            raise ActionFailedError("ConfigurationError", f"{where} is not in an input artifact")
        archive = BytesIO(self.store.get_object(Bucket=self.bucket, Key=self.inputs[name])["Body"].read())
        try:
            with zipfile.ZipFile(archive) as files:
                return files.read(path)
        except (KeyError, zipfile.BadZipFile) as error:
            raise ActionFailedError(
                "JobFailed", f"File [{path}] does not exist in artifact [{name}]"
            ) from error

    def read_json(self, where: str) -> dict[str, Any]:
        """Read a file of an artifact that holds an object."""
        try:
            found: dict[str, Any] = parse_json(self.read(where))
        except ValueError as error:
            raise ActionFailedError("JobFailed", f"{where} is not JSON: {error}") from error
        return found


def reason_of(failure: ClientError) -> ActionFailedError:
    """Return the action's failure for a service error."""
    return ActionFailedError("JobFailed", f"{aws_error_message(failure)} ({aws_error_code(failure)})")
