"""The live report answers only its own page, and only signed requests."""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.git import Repository
from tests.projects import edit, write_project
from tests.workflows.reports.sample import sample_report
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.workflows.loopback import LoopbackPortError
from tritonstack.workflows.reports import watching
from tritonstack.workflows.reports.live_state import StageLog
from tritonstack.workflows.reports.report import ReportOptions, collect
from tritonstack.workflows.reports.report_data import ReportData
from tritonstack.workflows.reports.watching import (
    PATH,
    SKEW_S,
    Credentials,
    LiveReport,
    WatchServer,
    watch_report,
)
from tritonstack.workflows.session import Session

Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = write_project(tmp_path)
    Repository(tmp_path).commit("start")
    return project


@pytest.fixture
def live(project: Project) -> LiveReport:
    found = LiveReport(Session(project), ReportOptions(offline=True))
    found.read()
    return found


@pytest.fixture
def server(live: LiveReport) -> Iterator[WatchServer]:
    server = WatchServer(live, "shop")
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield server
    server.close()
    thread.join()


def _signed(credentials: Credentials, *, at: int | None = None, nonce: str | None = None) -> str:
    at = int(time.time()) if at is None else at
    nonce = secrets.token_hex(16) if nonce is None else nonce
    return f"HMAC-SHA256 {at}.{nonce}.{credentials.sign(at, nonce)}"


def _ask(
    server: WatchServer, path: str, headers: dict[str, str] | None = None, *, method: str = "GET"
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers=headers or {})
    response = connection.getresponse()
    answer = response.status, {key.lower(): value for key, value in response.getheaders()}, response.read()
    connection.close()
    return answer


def test_a_signed_request_gets_the_sections(server: WatchServer) -> None:
    status, headers, body = _ask(server, PATH, {"Authorization": _signed(server.credentials)})
    assert status == 200
    answer = json.loads(body)
    assert {"header", "environments", "missing"} <= set(answer["parts"])
    assert ">dev<" in answer["parts"]["environments"]
    assert headers["cache-control"] == "no-store"


def test_the_page_holds_no_data_and_no_token(server: WatchServer) -> None:
    status, headers, body = _ask(server, "/")
    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]
    assert server.credentials.token.encode() not in body
    assert b"111111111111" not in body


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/", PATH])
def test_other_pages_and_hosts_are_denied(server: WatchServer, headers: dict[str, str], path: str) -> None:
    signed = {"Authorization": _signed(server.credentials)}
    status, answered, body = _ask(server, path, {**signed, **headers})
    assert status == 403
    assert b"parts" not in body
    assert not [name for name in answered if name.startswith("access-control-")]


def test_unsigned_replayed_and_outdated_requests_are_denied(server: WatchServer) -> None:
    good = _signed(server.credentials)
    other = _signed(Credentials())
    now = int(time.time())
    old = _signed(server.credentials, at=now - SKEW_S - 5)
    early = _signed(server.credentials, at=now + SKEW_S + 5)
    assert _ask(server, PATH, {"Authorization": good})[0] == 200
    denied = [good, other, old, early, f"{good}0", "HMAC-SHA256 ", "HMAC-SHA256 ²..", "Bearer x", ""]
    denied += [f"HMAC-SHA256 {server.credentials.token}", server.credentials.token]
    for value in denied:
        assert _ask(server, PATH, {"Authorization": value})[0] == 401, value
    assert _ask(server, PATH)[0] == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_only_get_is_answered(server: WatchServer, method: str) -> None:
    signed = {"Authorization": _signed(server.credentials)}
    assert _ask(server, PATH, signed, method=method)[0] == 501


@pytest.mark.parametrize(
    "path", ["/../etc/passwd", "/sections?x=1", "/report.css", "//evil.example/", "/%2e"]
)
def test_no_other_path_exists(server: WatchServer, path: str) -> None:
    assert _ask(server, path, {"Authorization": _signed(server.credentials)})[0] == 404


def test_an_invalid_file_is_shown_and_keeps_the_rest(live: LiveReport, project: Project) -> None:
    edit(project.environment_file("dev"), "eu-west-1", "nowhere")
    live.read()
    answer = json.loads(live.answer)
    assert "invalid files" in answer["parts"]["environments"]
    assert answer["error"] is None
    project.environment_file("dev").unlink()
    (project.root / "models" / "minilm" / "model.yaml").write_text("name: [")
    live.read()
    assert "has no environment" in json.loads(live.answer)["parts"]["environments"]


@pytest.mark.parametrize("failure", [FileNotFoundError("dev.lock.yaml"), KeyError("Stacks")])
def test_an_unexpected_error_is_shown_and_the_next_read_recovers(
    live: LiveReport, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    """A checkout removes files while they are read."""
    before, failing = json.loads(live.answer), threading.Event()

    def collecting(*given: Any) -> ReportData:
        if failing.is_set():
            raise failure
        return collect(*given)

    monkeypatch.setattr(watching, "collect", collecting)
    monkeypatch.setattr(watching, "INTERVAL_S", 0.01)
    failing.set()
    live.start()
    try:
        _wait(lambda: json.loads(live.answer)["error"])
        answer = json.loads(live.answer)
        assert answer["error"] == f"{type(failure).__name__}: {failure}"
        assert answer["parts"] == before["parts"]
        assert answer["at"] == before["at"]
        monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + 60)
        assert json.loads(live.answer)["age_s"] >= 60
        failing.clear()
        _wait(lambda: json.loads(live.answer)["error"] is None)
    finally:
        live.stop()


def _wait(condition: Callable[[], object]) -> None:
    until = time.time() + 20
    while not condition():
        assert time.time() < until
        time.sleep(0.02)


def test_an_unknown_environment_is_rejected_before_serving(project: Project) -> None:
    ready: list[str] = []
    with pytest.raises(UsageError, match="unknown environment 'devv'"):
        watch_report(Session(project), ReportOptions(("devv",)), on_ready=ready.append)
    assert ready == []


def test_an_interrupt_ends_a_live_report_and_frees_its_port(project: Project) -> None:
    """Also before the first request is served."""
    urls: list[str] = []

    def interrupted(url: str) -> None:
        urls.append(url)
        raise KeyboardInterrupt

    watched = watch_report(Session(project), ReportOptions(offline=True), on_ready=interrupted)
    assert watched.to_json() == {"reads": watched.reads}
    (url,) = urls
    port = int(url.partition("/#")[0].rpartition(":")[2])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_ctrl_c_ends_the_command_without_a_traceback(project: Project, tmp_path: Path) -> None:
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = f"{start}; from tritonstack.cli import main; main.main()"
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    variables |= {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", command, "--project", str(project.root), "report", "dev", "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
    ) as process:
        assert process.stdout is not None
        url, _, token = process.stdout.readline().strip().partition("#token=")
        port = int(url.removesuffix("/").rpartition(":")[2])

        def answer() -> dict[str, Any]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", PATH, headers={"Authorization": _signed(Credentials(token))})
            body: dict[str, Any] = json.loads(connection.getresponse().read())
            connection.close()
            return body

        _wait(lambda: "environments" in answer()["parts"])
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert "Exception" not in errors


def test_a_taken_port_is_an_error(server: WatchServer, live: LiveReport) -> None:
    with pytest.raises(LoopbackPortError, match=f"cannot listen on 127.0.0.1:{server.port}"):
        WatchServer(live, "shop", port=server.port)


def test_the_address_holds_the_token_in_its_fragment(server: WatchServer) -> None:
    """A browser does not send the fragment."""
    assert server.url == f"http://127.0.0.1:{server.port}/#token={server.credentials.token}"
    assert server.credentials.token not in repr(server.credentials)


def test_stages_of_a_rollout_are_remembered() -> None:
    """AWS reports only the present one."""
    log, prod = StageLog(), sample_report().environments[1]
    running = dataclasses.replace(prod.rollouts[0], outcome="in progress")
    seen: list[tuple[tuple[float, str], ...]] = []
    for at, text in ((5.0, "Creating"), (15.0, "Creating"), (25.0, "Baking: 50 %")):
        read = dataclasses.replace(running, stages=((at, text),))
        found = log.completed(dataclasses.replace(prod, rollouts=(read,)))
        seen.append(found.rollouts[0].stages)
    assert seen[1] == ((5.0, "Creating"),)
    assert seen[2] == ((5.0, "Creating"), (25.0, "Baking: 50 %"))
    ended = log.completed(dataclasses.replace(prod, rollouts=(prod.rollouts[0],)))
    assert ended.rollouts[0].stages == seen[2]
