"""`tritonstack logs`: what it prints, and what it answers to bad input and missing logs."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from tests.operate.logs.strict_events import StrictEvents
from tests.operate.strict_aws import StrictCodeBuild, client_error
from tritonstack.cli.main import run
from tritonstack.operate.shared.session import Session

GROUP = "/aws/sagemaker/Endpoints/tritonstack-dev-search"
CPU = "tritonstack-dev-build-cpu"


class Account:
    """One endpoint, its log, and CodeBuild."""

    account, region = "111111111111", "eu-west-1"

    def __init__(self) -> None:
        self.events, self.codebuild = StrictEvents(), StrictCodeBuild(CPU)
        self.endpoint: dict[str, str] | None = {"EndpointStatus": "InService"}

    def client(self, service: str) -> Any:
        return {"logs": self.events, "codebuild": self.codebuild, "sagemaker": self}[service]

    def describe_endpoint(self, EndpointName: str) -> dict[str, str]:  # noqa: N803 - SageMaker's name
        assert EndpointName == "tritonstack-dev-search"
        if self.endpoint is None:
            message = f'Could not find endpoint "{EndpointName}".'
            raise client_error("DescribeEndpoint", "ValidationException", message)
        return self.endpoint

    def log(self, stream: str, message: str, *, ago_s: float = 60.0) -> None:
        self.events.put(GROUP, stream, int((time.time() - ago_s) * 1000), message)

    def build(self, model: str) -> str:
        variables = [{"name": "MODEL", "value": model, "type": "PLAINTEXT"}]
        started = self.codebuild.start_build(
            projectName=CPU, environmentVariablesOverride=variables, idempotencyToken=model
        )
        return str(started["build"]["id"])


@pytest.fixture
def account(monkeypatch):
    here = Account()
    monkeypatch.setattr(Session, "cloud", lambda *_: here)
    return here


@pytest.fixture
def logs(project, account, capfd):
    def command(*arguments: str, json_output: bool = False) -> tuple[int, str, str]:
        options = ["--project", str(project.root), *(["--json"] if json_output else [])]
        code = run([*options, "logs", *arguments])
        return code, *capfd.readouterr()

    return command


def test_lines_of_all_instances_are_printed_in_order(logs, account):
    account.log("main/i-1", "first", ago_s=30)
    account.log("main/i-2", "second \x1b[31mred ß", ago_s=20)
    account.log("main/i-1", "third", ago_s=10)
    account.log("main/i-1", "too old", ago_s=7200)
    code, out, err = logs("dev", "search")
    assert (code, err) == (0, "")
    assert [line.partition(" ")[2] for line in out.splitlines()] == [
        "main/i-1 first",
        r"main/i-2 second \x1b[31mred ß",
        "main/i-1 third",
    ]
    assert "search main/i-1 too" in logs("dev", "--since", "3h")[1]
    assert logs("dev", "search", "--filter", "ir", "--instance", "i-1")[1].count("\n") == 2


@pytest.mark.parametrize(
    ("endpoint", "has_group", "options", "note"),
    [
        ({"EndpointStatus": "Creating"}, False, [], "search: no log yet; the endpoint is Creating"),
        (
            {"EndpointStatus": "Failed", "FailureReason": "no ping"},
            True,
            [],
            "search: no lines since TIME; the endpoint is Failed: no ping",
        ),
        (
            {"EndpointStatus": "InService"},
            True,
            ["--filter", "x", "--since", "2026-11-22T08:30:00Z"],
            "search: no matching lines since 2026-11-22T08:30:00Z; the endpoint is InService",
        ),
    ],
)
def test_an_endpoint_without_lines_is_explained(logs, account, endpoint, has_group, options, note):
    account.endpoint = endpoint
    if has_group:
        account.events.groups[GROUP] = []
    code, out, err = logs("dev", "search", *options)
    assert (code, out) == (0, "")
    assert re.fullmatch(note.replace("TIME", r"[-\d]+T[:\d]+Z"), err.strip())


def test_an_endpoint_that_is_not_deployed(logs, account):
    account.endpoint = None
    code, out, err = logs("dev")
    assert (code, out) == (1, "")
    assert "error[TS514]: " in err
    assert "111111111111, region eu-west-1" in err
    assert "logs dev --follow" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serch"], "environment 'dev' has no endpoint 'serch'\n  help: did you mean 'search'?"),
        (["search", "--variant", "mian"], "has no variant 'mian'\n  help: did you mean 'main'?"),
        (["search", "--build", "minilm"], "--build selects the log of a build"),
        (["--build", "minlm"], "no model 'minlm'\n  help: did you mean 'minilm'?"),
        (["--since", "yesterday"], "invalid value of --since: 'yesterday'\n  help: write a duration"),
        (["--since", "2026-11-22"], "UTC time such as 2026-11-22T08:30:00Z"),
        (["--filter", ""], "expected 1 to 1000 characters in --filter, got 0"),
        (["--filter", "x" * 1001], "expected 1 to 1000 characters in --filter, got 1001"),
    ],
)
def test_bad_input_is_rejected_before_any_call(logs, account, arguments, message):
    code, out, err = logs("dev", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert account.events.calls == []


def test_the_log_of_the_latest_build(logs, account):
    build = account.build("minilm")
    account.codebuild.write_log(build)
    stream = f"{CPU}/{build.rpartition(':')[2]}"
    began = int(account.codebuild.builds[build]["startTime"].timestamp() * 1000)
    event = {"event": "step", "step": "export", "state": "done", "detail": "ONNX", "seconds": 2.5}
    for number, message in enumerate((json.dumps(event), "plain", '{"a": 1}')):
        account.events.put("/t-dev/builds", stream, began + number, message)
    account.events.put("/t-dev/builds", f"{CPU}/another", began, "of another build")
    account.codebuild.end(
        build, "FAILED", {"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": [{"message": "exit 1"}]}
    )
    code, out, err = logs("dev", "--build", "minilm")
    assert code == 0
    assert [line.partition(" ")[2] for line in out.splitlines()] == [
        "export: ONNX (2.5 s)",
        "plain",
        '{"a": 1}',
    ]
    assert err == f"minilm: build {build} failed: BUILD: exit 1\n"
