"""An AWS account simulated by moto, with credentials."""

from __future__ import annotations

import boto3
import botocore.client
import pytest

from tests.json_results import checked_results
from tests.moto_aws import simulated_aws
from tritonstack.cli import main, progress


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
