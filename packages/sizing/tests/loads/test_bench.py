"""Load on an endpoint that answers over HTTP: what is sent, what is measured, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest

from packages.sizing.tests.loads.test_captures import record
from tests.client.light.wire import WireRequest, reply
from tests.operate.invoke.invoked_site import COUNTER, PLAIN, QUEUED, SINGLE, Site, X, Y
from tests.projects import edit
from tritonstack import Session
from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.base.results import document
from tritonstack.cli.main import run
from tritonstack.client.tensor_decoding import decode_tensors
from tritonstack.files.loading import load_workspace
from tritonstack_sizing import LoadOptions, bench, plan_bench
from tritonstack_sizing.loads.runs import load_runs


def measured(site: Site, *texts: str, compare: Path | None = None, **load: Any) -> Any:
    session = Session(site.project)
    plan = plan_bench(session, "dev", "search", texts, options=LoadOptions(**{"seconds": 1.0, **load}))
    return bench(session, plan, compare=compare)


def inputs_of(request: WireRequest) -> dict[str, np.ndarray]:
    size = int(request.headers["content-type"].rpartition("=")[2])
    header = json.loads(request.body[:size])
    return decode_tensors(header["inputs"], request.body, offset=size)


def test_users_send_the_given_texts_in_turn(site: Site, served: Any) -> None:
    server = served(lambda _: reply())
    result = measured(site, "one", "two", users=(2,))
    sent = [inputs_of(request)["TEXT"].tolist() for request in server.requests]
    assert {text[0][0] for text in sent} == {b"one", b"two"}
    assert {request.target.split("/")[2] for request in server.requests} == {"tritonstack-dev-search"}
    (run_,) = result.runs
    assert (run_.load, run_.errors) == ("closed loop, 2 users", {})
    assert "slices" not in document(result)["runs"][0]


def test_errors_are_counted_by_class_and_not_retried(site: Site, served: Any) -> None:
    failed = reply(
        json.dumps({"OriginalStatusCode": 503, "Message": "full"}).encode(),
        status=424,
        x_amzn_ErrorType="ModelError:",
    )
    throttled = reply(b"{}", status=400, x_amzn_ErrorType="ThrottlingException")
    answers = [reply(), failed, throttled, reply(b"<html>", status=502)]
    requests = []

    def answer(_: WireRequest) -> object:
        requests.append(None)
        return answers[len(requests) % 4]

    served(answer)
    (run_,) = measured(site, "a", rates=(40,), is_even=True).runs
    assert len(requests) == 40
    assert run_.errors == {"ModelError 503": 10, "ThrottlingException": 10, "HTTP 502": 10}
    assert run_.failed_share == pytest.approx(0.75)


def command(site: Site, *words: str) -> int:
    return run(
        ["--project", str(site.root), "bench", "dev", "search", "a", "--duration", "1", *words, "--yes"]
    )


def test_no_answer_at_all_is_an_error_and_the_run_is_saved(
    site: Site, served: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served(lambda _: reply(b"{}", status=503, x_amzn_ErrorType="ServiceUnavailable"))
    with pytest.raises(TritonstackError, match=r"ServiceUnavailable \(10\)") as caught:
        measured(site, "a", rates=(10,), is_even=True)
    assert caught.value.code == "TS914"
    assert command(site, "--rate", "10", "--even", "--save", str(tmp_path / "a.json")) == 1
    assert "error[TS914]" in capsys.readouterr().err
    assert sum(load_runs(tmp_path / "a.json").runs[0].errors.values()) == 10


@pytest.mark.parametrize(("option", "as_json"), [("--save", False), ("--save", True), ("--plot", True)])
def test_a_disk_that_fills_meanwhile_loses_no_result(
    site: Site, served: Any, tmp_path: Path, option: str, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results" / "a"
    file.parent.mkdir()
    file.write_text("kept")

    def answer(_: WireRequest) -> object:
        shutil.rmtree(file.parent, ignore_errors=True)
        return reply()

    served(answer)
    words = ["--project", str(site.root), "bench", "dev", "search", "a", "--duration", "1", "--yes"]
    assert run([*(["--json"] if as_json else []), *words, option, str(file)]) == 2
    printed = capsys.readouterr()
    if as_json:
        assert json.loads(printed.out)["runs"]
    assert "closed loop, 1 user" in printed.out
    assert "error[TS901]" in printed.err


def events(*data: bytes) -> bytes:
    return reply(b"".join(b"data: %s\n\n" % event for event in data), content_type="text/event-stream")


def test_a_decoupled_model_gets_json_and_each_answer_needs_a_response(site: Site, served: Any) -> None:
    site.model(COUNTER, SINGLE)
    site.stock(inputs=(X,), outputs=(Y,))
    failed = events(b'{"y":1.0}', b'{"error":"out of numbers, see the data: no"}')
    answers = [events(b'{"y":[1.0]}', b'{"y":"a text with data: {\\"error\\""}'), events(), failed]
    requests: list[None] = []

    def answer(_: WireRequest) -> object:
        requests.append(None)
        return answers[len(requests) % 3]

    server = served(answer)
    (run_,) = measured(site, rates=(30,), is_even=True).runs
    assert json.loads(server.requests[0].body) == {"x": [1.0, 2.0, 3.0]}
    assert server.requests[0].headers["content-type"] == "application/json"
    assert run_.errors == {"NoResponseError": 10, "StreamFailedError": 10}
    assert int(run_.latencies.sum()) == 10


def test_a_comparison_needs_the_same_load_before_anything_is_sent(
    site: Site, served: Any, tmp_path: Path
) -> None:
    server, file = served(lambda _: reply()), tmp_path / "a.json"
    file.write_text(measured(site, "a", users=(1,)).text())
    count = len(server.requests)
    with pytest.raises(UsageError, match="closed loop, 1 user"):
        measured(site, "a", rates=(10,), compare=file)
    assert len(server.requests) == count
    (comparison,) = measured(site, "a", users=(1, 2), compare=file).comparisons
    assert comparison.load == "closed loop, 1 user"


def test_a_worse_result_than_before_is_exit_1(site: Site, served: Any, tmp_path: Path) -> None:
    refused = reply(b"{}", status=503, x_amzn_ErrorType="ServiceUnavailable")
    answers, file = [reply()], tmp_path / "a.json"
    server = served(lambda _: answers[len(server.requests) % len(answers)])
    assert command(site, "--rate", "10", "--even", "--save", str(file)) == 0
    answers.append(refused)
    assert command(site, "--rate", "10", "--even", "--compare", str(file)) == 1


def test_a_replay_sends_what_was_captured(site: Site, served: Any) -> None:
    edit(
        site.project.environment_file("dev"),
        PLAIN,
        PLAIN.replace("}", ", data_capture: {sampling_percent: 20}}"),
    )
    server = served(lambda _: reply())
    spec = load_workspace(site.project, "dev").spec
    s3 = boto3.client("s3", region_name="us-east-1")
    s3.create_bucket(Bucket=spec.data_bucket)
    lines = "".join(f"{json.dumps(record(second, f'body {second}'.encode()))}\n" for second in (0, 0, 2))
    key = "capture/tritonstack-dev-search/tritonstack-dev-search/main/2026/11/24/09/00.jsonl"
    s3.put_object(Bucket=spec.data_bucket, Key=key, Body=lines.encode())
    command = ["bench", "dev", "search", "--replay", "2026-11-24T09:00/30m", "--speed", "5", "--yes"]
    assert run(["--project", str(site.root), *command]) == 0
    assert [request.body for request in server.requests] == [b"body 0", b"body 0", b"body 2"]


@pytest.mark.parametrize(
    ("load", "endpoints", "word"),
    [
        ({"users": (1,), "rates": (2,)}, PLAIN, "--users and --rate"),
        ({"trace": Path("a.csv")}, PLAIN, "--trace"),
        ({"is_even": True}, PLAIN, "--even"),
        ({"users": (2,), "speed": 2.0}, PLAIN, "--speed"),
        ({}, QUEUED, "asynchronous"),  # it has no latency
    ],
)
def test_loads_that_do_not_fit(site: Site, served: Any, load: Any, endpoints: str, word: str) -> None:
    edit(site.project.environment_file("dev"), PLAIN, endpoints)
    served(lambda _: reply())
    with pytest.raises(UsageError, match=word):
        measured(site, "a", **load)


def test_the_cost_on_aws_is_said_before_and_needs_consent(
    site: Site, served: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(
        site.project.environment_file("dev"),
        PLAIN,
        PLAIN.replace("}", ", scaling: {min_instances: 1, max_instances: 5}}")
        + "prices: {ml.c7i.xlarge: 0.25}\n",
    )
    server = served(lambda _: reply())
    command = ["--project", str(site.root), "bench", "dev", "search", "a", "--duration", "1"]
    assert run(command) == 2
    message = capsys.readouterr().err
    assert all(part in message for part in ("1 to 5 instances", "1.3 instance hours", "0.33", "--yes"))
    assert server.requests == []
    assert run([*command, "--yes"]) == 0
    assert server.requests
