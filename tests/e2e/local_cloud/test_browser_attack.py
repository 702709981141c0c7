"""A web page that a developer visits cannot read or change anything in the running local cloud.

A real Chromium opens the page; its own protection of local networks is switched off, because it is young, and
other browsers have none. TRITONSTACK_ATTACKED names another checkout whose cloud is attacked instead of this
one's: that of a commit from before signatures were verified shows what the page does to it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config

from tests.e2e.conftest import REPOSITORY, furnished_site

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: `apt-get install chromium`"),
]

ATTACKED = Path(os.environ.get("TRITONSTACK_ATTACKED", REPOSITORY.root))
PAGE = Path(__file__).with_name("attack_page.html")
ACCOUNT = "000000000000"
COMMAND = "from tritonstack.cli.main import main; main()"
REBOUND_ADDRESS = "127.0.0.2"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWarn,BlockInsecurePrivateNetworkRequests,"
    "PrivateNetworkAccessSendPreflights,PrivateNetworkAccessRespectPreflightResults",
)


@dataclass(frozen=True)
class Attacked:
    """A cloud that runs while someone visits the page."""

    variables: dict[str, str]

    @property
    def port(self) -> int:
        port = urlsplit(self.variables["AWS_ENDPOINT_URL"]).port
        assert port is not None
        return port

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.variables["AWS_ENDPOINT_URL"],
            region_name="us-east-1",
            aws_access_key_id=self.variables["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.variables["AWS_SECRET_ACCESS_KEY"],
            config=Config(s3={"addressing_style": "path"}, proxies={}),
        )

    def contents(self) -> dict[str, list[str]]:
        """Return the resources that the page tries to create or delete."""
        s3 = self.client("s3")
        buckets = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
        stacks = self.client("cloudformation").list_stacks()["StackSummaries"]
        return {
            "buckets": buckets,
            "objects": [
                f"{bucket}/{item['Key']}"
                for bucket in buckets
                for item in s3.list_objects_v2(Bucket=bucket).get("Contents", [])
            ],
            "stacks": sorted(stack["StackName"] for stack in stacks),
            "roles": [role["RoleName"] for role in self.client("iam").list_roles()["Roles"]],
            "projects": self.client("codebuild").list_projects()["projects"],
            "builds": self.client("codebuild").list_builds()["ids"],
        }


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[Attacked]:
    root = tmp_path / "project"
    for name in ("models", "environments"):
        (root / name).mkdir(parents=True)
    furnished_site(root, shared=("server",))

    def tritonstack(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "--project", str(root), *arguments],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(ATTACKED)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=90,
        )
        return done.stdout

    exports = tritonstack("up", "--detach", "--shell").splitlines()
    pairs = [line.removeprefix("export ").partition("=") for line in exports if line.startswith("export ")]
    try:
        yield Attacked({name: shlex.split(value)[0] for name, _, value in pairs})
    finally:
        tritonstack("down")


@dataclass
class Attacker:
    """The attacker's web server: it serves the page, and records calls from it and from what it ran."""

    page: bytes = b""
    reports: list[dict[str, str]] = field(default_factory=list)
    ran: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def serve(self, port_wanted: int = 0) -> ThreadingHTTPServer:
        attacker = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/ran":
                    attacker.ran.set()
                if self.path == "/next":
                    attacker.go_on.wait(30)
                self.answer(attacker.page if self.path == "/attack" else b"ok")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                attacker.reports.append(json.loads(body))
                attacker.done.set()
                self.answer(b"ok")

            def answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", port_wanted), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def wait(self, *, within_s: float) -> dict[str, str]:
        assert self.done.wait(within_s), "the page did not report"
        self.done.clear()
        return self.reports[-1]


class ReboundName:
    """The attacker's host name resolves first to the page, and afterwards to the cloud. A browser whose DNS
    answer was rebound sends the cloud exactly these bytes.
    """

    def __init__(self, attacker: Attacker, *, port: int) -> None:
        self._page, self._port = attacker.page, port
        self._listener = socket.create_server((REBOUND_ADDRESS, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                visitor, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(visitor,), daemon=True).start()

    def _serve(self, visitor: socket.socket) -> None:
        with visitor:
            first = visitor.recv(1 << 16)
            if first.startswith(b"GET /attack "):
                head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(self._page)}\r\n"
                visitor.sendall(head.encode() + b"Connection: close\r\n\r\n" + self._page)
                return
            with socket.create_connection(("127.0.0.1", self._port)) as cloud:
                cloud.sendall(first)
                back = threading.Thread(target=_pump, args=(cloud, visitor), daemon=True)
                back.start()
                threading.Thread(target=_pump, args=(visitor, cloud), daemon=True).start()
                back.join(20)


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def visit(url: str, folder: Path, *, names: dict[str, str]) -> subprocess.Popen[bytes]:
    rules = ", ".join(f"MAP {name} {address}" for name, address in names.items())
    assert CHROMIUM is not None
    return subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={folder}", f"--host-resolver-rules={rules}", url],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(folder.parent / "chromium.log").open("wb"),
        start_new_session=True,
    )


def test_a_page_of_another_origin_changes_nothing(attacked: Attacked, tmp_path: Path) -> None:
    attacked.client("s3").create_bucket(Bucket="victim")
    attacked.client("s3").put_object(Bucket="victim", Key="kept", Body=b"a private object")
    before = attacked.contents()

    attacker = Attacker()
    server = attacker.serve()
    values = {
        "CLOUD": attacked.variables["AWS_ENDPOINT_URL"],
        "REBOUND": f"http://rebound.example:{attacked.port}",
        "ACCOUNT": ACCOUNT,
        "RUN": f"curl -s http://127.0.0.1:{server.server_port}/ran",
    }
    page = PAGE.read_text()
    for name, value in values.items():
        page = page.replace(f'"{name}"', json.dumps(value))
    attacker.page = page.encode()
    rebound = ReboundName(attacker, port=attacked.port)
    names = {"evil.example": "127.0.0.1", "rebound.example": REBOUND_ADDRESS}
    browser = visit(f"http://evil.example:{server.server_port}/attack", tmp_path / "profile", names=names)
    try:
        seen = attacker.wait(within_s=60)
        after = attacked.contents()
        ran = bool(after["builds"]) and attacker.ran.wait(20)
        attacker.go_on.set()
        seen |= attacker.wait(within_s=30)
        time.sleep(0.2)
        left = attacked.contents()
    finally:
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()
        rebound.close()
        server.shutdown()

    print(json.dumps(seen, indent=1))
    damage = [
        *(
            f"made {kind}: {sorted({*after[kind]} - {*before[kind]})}"
            for kind in before
            if after[kind] != before[kind]
        ),
        *(["ran a shell command as the developer"] if ran else []),
        *(
            f"removed {kind}: {sorted({*after[kind]} - {*left[kind]})}"
            for kind in before
            if left[kind] != after[kind]
        ),
        *(f"read by {name}: {text}" for name, text in seen.items() if text.startswith("200")),
    ]
    assert not damage, "the page attacked successfully:\n" + "\n".join(damage)
    assert {"cors bucket", "simple stack", "rebound bucket", "simple reset"} <= seen.keys()
