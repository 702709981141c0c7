"""Show the published model names of multi-model endpoints, and compare them with the lock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tritonstack.base import naming
from tritonstack.base.error_kinds import CommandLineError, NotApplicableError
from tritonstack.client.errors import ModelNamesError
from tritonstack.client.model_names import read_published
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint
from tritonstack.files.project.names import require_known
from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.output_files import write_output
from tritonstack.operate.shared.session import Session


@dataclass(frozen=True)
class EndpointTargets:
    """The TargetModel of each model of one endpoint."""

    endpoint: str
    """The endpoint's full name."""
    path: str
    """The path of the SSM parameters."""
    targets: Mapping[str, str]
    """What is published; empty if the endpoint is not deployed."""
    pending: Mapping[str, str]
    """What the lock names and is not published yet: the next deploy publishes it."""


@dataclass(frozen=True)
class Targets:
    """The multi-model endpoints of an environment."""

    environment: str
    region: str
    endpoints: Mapping[str, EndpointTargets]
    """By the endpoint's name in the environment file."""


def targets(
    session: Session,
    environment: str,
    endpoint: str | None = None,
    *,
    instance: str | None = None,
    output: Path | None = None,
) -> Targets:
    """Return the published model names of one endpoint, or of all multi-model endpoints.

    `output` is a file for the names of one endpoint, as `ModelNames.from_file` reads them.
    """
    if output is not None and endpoint is None:
        raise CommandLineError(
            "a file holds the names of one endpoint", remedy="name the endpoint before --output"
        )
    workspace = session.workspace(environment, instance)
    names = _multi_model(workspace) if endpoint is None else [_required(workspace, endpoint)]
    cloud = session.cloud(workspace.spec)
    with session.reporter.step("reading the model names"):
        by_endpoint = {name: _targets_of(cloud, workspace, name) for name in names}
    if output is not None and endpoint is not None:
        published = by_endpoint[endpoint]
        if not published.targets:
            raise ModelNamesError(
                f"no model names are published at {published.path}",
                remedy=f"run `tritonstack deploy {workspace.cli_arguments}` first",
            )
        write_output(output, (json.dumps(published.targets, indent=2) + "\n").encode())
    return Targets(workspace.spec.name, workspace.spec.region, by_endpoint)


def _multi_model(workspace: Workspace) -> list[str]:
    names = [
        name
        for name, endpoint in workspace.spec.endpoints.items()
        if isinstance(endpoint, MultiModelEndpoint)
    ]
    if not names:
        raise NotApplicableError(
            f"environment {workspace.spec.name!r} has no multi-model endpoint",
            remedy="callers of its endpoints pass no TargetModel; `tritonstack snippet` prints a request",
        )
    return names


def _required(workspace: Workspace, name: str) -> str:
    endpoints = workspace.spec.endpoints
    require_known(name, endpoints, f"environment {workspace.spec.name!r} has no endpoint")
    if not isinstance(endpoints[name], MultiModelEndpoint):
        raise NotApplicableError(
            f"the endpoint {name!r} serves one model; its callers pass no TargetModel",
            remedy="run the command for a multi-model endpoint; `tritonstack snippet` prints a request",
        )
    return name


def _targets_of(cloud: Cloud, workspace: Workspace, name: str) -> EndpointTargets:
    path = naming.targets_path(workspace.spec.base, name)
    published = read_published(path, ssm=cloud.client("ssm"), missing_ok=True)
    locked = workspace.target_models(name)
    return EndpointTargets(
        endpoint=workspace.spec.endpoint_name(name),
        path=path,
        targets=dict(sorted(published.items())),
        pending={model: target for model, target in locked.items() if published.get(model) != target},
    )
