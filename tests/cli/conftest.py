"""An AWS account simulated by moto, with credentials, and a built model that is not deployed there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import botocore.client
import pytest

from tests.json_results import checked_results
from tests.moto_aws import simulated_aws
from tests.operate.shared.test_operations import stand_in_cdk
from tests.projects import edit
from tritonstack.cli import main, progress
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Lock, LockedArtifact


@pytest.fixture
def account(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with simulated_aws():
        yield boto3.client("sts", region_name="eu-west-1").get_caller_identity()["Account"]


@pytest.fixture(autouse=True)
def json_results():
    """Compare the result of every command with its JSON Schema."""
    with checked_results() as ran:
        yield ran


@pytest.fixture(autouse=True)
def aws_calls(json_results, monkeypatch):
    """Require that a step says what a command waits for during each of its AWS calls."""
    steps: list[progress.ConsoleStep] = []
    commands: list[object] = []
    calls: list[str] = []
    unannounced: list[str] = []
    app, begin, end = main.app, progress.ConsoleSteps._begin, progress.ConsoleSteps._end
    call = botocore.client.BaseClient._make_api_call  # type: ignore[attr-defined]

    def observed_app(**options: object) -> object:
        commands.append(options)
        try:
            return app(**options)
        finally:
            commands.pop()

    def observed_begin(shown: progress.ConsoleSteps, step: progress.ConsoleStep) -> None:
        steps.append(step)
        begin(shown, step)

    def observed_end(shown: progress.ConsoleSteps, step: progress.ConsoleStep) -> None:
        steps.remove(step)
        end(shown, step)

    def observed_call(client: object, operation: str, arguments: object) -> object:
        if commands:
            calls.append(operation)
            unannounced.extend([] if steps else [operation])
        return call(client, operation, arguments)

    monkeypatch.setattr(main, "app", observed_app)
    monkeypatch.setattr(progress.ConsoleSteps, "_begin", observed_begin)
    monkeypatch.setattr(progress.ConsoleSteps, "_end", observed_end)
    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", observed_call)
    yield calls
    assert unannounced == []
    assert steps == []


STACK = "tritonstack-dev-endpoint-search"


def endpoint_template(**config: Any) -> dict[str, Any]:
    """The smallest endpoint template that a plan needs."""
    variant = {"VariantName": "main", "ModelName": "m", "InstanceType": "ml.c7i.xlarge"}
    return {
        "Resources": {
            "Config": {
                "Type": "AWS::SageMaker::EndpointConfig",
                "Properties": {"ProductionVariants": [variant], **config},
            },
            "Endpoint": {"Type": "AWS::SageMaker::Endpoint", "Properties": {"EndpointName": "search"}},
        }
    }


def write_assembly(folder: Path, template: dict[str, Any]) -> None:
    folder.mkdir()
    properties = {"templateFile": "x.json", "lookupRole": {"arn": "arn:of-the-whole-account"}}
    stack = {"type": "aws:cloudformation:stack", "properties": properties}
    (folder / "manifest.json").write_text(json.dumps({"artifacts": {STACK: stack}}))
    (folder / "x.json").write_text(json.dumps(template))


@pytest.fixture
def built(project, account):
    """A project with a built model, and a stand-in CDK that synthesizes the folder `assembly`."""
    edit(project.environment_file("dev"), "1" * 12, account)
    spec_hash = load_workspace(project, "dev").hashes["minilm"]
    artifact = LockedArtifact(digest="ab" * 32, spec_hash=spec_hash, archive_bytes=1, unpacked_bytes=1)
    write_lock(project.lock_file("dev"), Lock(models={"minilm": {"cpu": artifact}}))
    write_assembly(project.root / "assembly", endpoint_template())
    stand_in_cdk(
        project.root,
        f'case $1 in\nsynth) cp {project.root}/assembly/* "$4" ;;\n'
        "diff) echo 'Stack search: what the CDK says'\n"
        '  ! grep -o whole-account "$4/manifest.json" ;;\nesac',
    )
    return project
