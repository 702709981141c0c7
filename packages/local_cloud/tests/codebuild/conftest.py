"""An account with a role, in a CodeBuild that runs real builds, beside moto's services."""

import contextlib
import io
import itertools
import json
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from packages.local_cloud.tests.sagemaker.cloud import _Handler
from tritonstack_local.codebuild.app import CodeBuildApp
from tritonstack_local.codebuild.machines.base import StartMachine
from tritonstack_local.codebuild.machines.processes import process_starter
from tritonstack_local.codebuild.runs.build_run import BuildServices
from tritonstack_local.service.clients import Clients
from tritonstack_local.settings import REAL_MINUTE_S
from tritonstack_local.signatures.keys import CloudSecret, access_key_for, account_in_key, read_credential

REGION = "eu-west-1"
QUICK_MINUTE_S = 0.1
"""The shortest timeout, five minutes, takes half a second."""
IMAGE = "aws/codebuild/standard:7.0"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
_accounts = itertools.count(400000000000)
_SHARED = str(next(_accounts))
"""moto takes its time to make an account's IAM."""
_projects = itertools.count(1)
_session = boto3.Session()


class PersistenceMiddleware:
    """Sends CodeBuild's requests to the app under test and all others to moto, with the caller's account."""

    def __init__(self) -> None:
        self.app: CodeBuildApp
        self._moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: Any, start_response: Any) -> Any:
        credential = read_credential(headers={"Authorization": environ.get("HTTP_AUTHORIZATION", "")})
        if credential is not None and credential.service == "codebuild":
            return self.app(environ, start_response)
        account = account_in_key(credential.access_key) if credential else None
        if account is not None:
            environ["HTTP_X_MOTO_ACCOUNT_ID"] = account
        return self._moto(environ, start_response)


@dataclass
class Cloud:
    """A running cloud."""

    url: str
    app: CodeBuildApp
    services: BuildServices


@dataclass
class Account:
    """A project in an account, and its builds."""

    cloud: Cloud
    id: str = _SHARED
    name: str = field(default_factory=lambda: f"project-{next(_projects)}")

    def client(self, service: str) -> Any:
        return _client(service, self.cloud.url, self.id)

    @property
    def codebuild(self) -> Any:
        return self.client("codebuild")

    @property
    def role(self) -> str:
        iam = self.client("iam")
        with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_role(RoleName="builds", AssumeRolePolicyDocument=TRUST)
        return f"arn:aws:iam::{self.id}:role/builds"

    @property
    def bucket(self) -> str:
        name, s3 = f"sources-of-{self.name}", self.client("s3")
        if name not in {item["Name"] for item in s3.list_buckets()["Buckets"]}:
            s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        return name

    def project(self, buildspec: Any = None, name: str | None = None, **fields: Any) -> dict[str, Any]:
        source: dict[str, Any] = {"type": "NO_SOURCE"}
        if buildspec is not None:
            source["buildspec"] = buildspec if isinstance(buildspec, str) else json.dumps(buildspec)
        wanted = {
            "name": name or self.name,
            "source": source,
            "artifacts": {"type": "NO_ARTIFACTS"},
            "environment": an_environment(),
            "serviceRole": self.role,
            **fields,
        }
        return self.codebuild.create_project(**wanted)["project"]

    def start(self, name: str | None = None, **fields: Any) -> dict[str, Any]:
        return self.codebuild.start_build(projectName=name or self.name, **fields)["build"]

    def look(self, build: dict[str, Any]) -> dict[str, Any]:
        return self.codebuild.batch_get_builds(ids=[build["id"]])["builds"][0]

    def ended(self, build: dict[str, Any], *, timeout_s: float = 60) -> dict[str, Any]:
        return self.awaited(build, lambda found: found["buildComplete"], timeout_s=timeout_s)

    def awaited(self, build: dict[str, Any], there: Any, *, timeout_s: float = 60) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while not there(found := self.look(build)):
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
        return found

    def built(self, *commands: str, **fields: Any) -> dict[str, Any]:
        """Run these commands in the BUILD phase, and return the finished build."""
        self.project(spec(*commands))
        return self.ended(self.start(**fields))

    def log(self, build: dict[str, Any]) -> list[str]:
        where = self.look(build)["logs"]
        try:
            found = self.client("logs").get_log_events(
                logGroupName=where["groupName"], logStreamName=where["streamName"], startFromHead=True
            )
        except (KeyError, ClientError):
            return []
        return [event["message"].rstrip("\n") for event in found["events"]]

    def said(self, build: dict[str, Any]) -> list[str]:
        """Return the output of its commands, without CodeBuild's own lines."""
        return [line for line in self.log(build) if not line.startswith("[Container]")]

    def wait_for_line(self, build: dict[str, Any], words: str, *, timeout_s: float = 60) -> None:
        deadline = time.monotonic() + timeout_s
        while words not in self.said(build):
            assert time.monotonic() < deadline, self.log(build)
            time.sleep(0.02)

    def upload(self, key: str, files: dict[str, str], *, modes: dict[str, int] | None = None) -> str:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, text in files.items():
                member = zipfile.ZipInfo(name)
                member.external_attr = (modes or {}).get(name, 0o644) << 16
                archive.writestr(member, text)
        self.client("s3").put_object(Bucket=self.bucket, Key=key, Body=buffer.getvalue())
        return f"{self.bucket}/{key}"


@cache
def _client(service: str, url: str, account: str) -> Any:
    return _session.client(
        service,
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=access_key_for(account),
        aws_secret_access_key="x",
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )


def an_environment(**fields: Any) -> dict[str, Any]:
    return {"type": "LINUX_CONTAINER", "image": IMAGE, "computeType": "BUILD_GENERAL1_SMALL", **fields}


def spec(*commands: str, **phases: Any) -> dict[str, Any]:
    """Return a buildspec with these commands in BUILD, and other phases as given."""
    return {"version": "0.2", "phases": {"build": {"commands": list(commands)}, **phases}}


def phase(build: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(item for item in build["phases"] if item["phaseType"] == kind)


def kinds(build: dict[str, Any]) -> list[str]:
    return [item["phaseType"] for item in build["phases"]]


def why(build: dict[str, Any], kind: str) -> tuple[str, str]:
    (context,) = phase(build, kind)["contexts"]
    return context["statusCode"], context["message"]


def run_cloud(
    folder: Path, *, minute_s: float = REAL_MINUTE_S, start_machine: StartMachine | None = None
) -> Iterator[Cloud]:
    persistence = PersistenceMiddleware()
    http = make_server("127.0.0.1", 0, persistence, threaded=True, request_handler=_Handler)
    http.daemon_threads = True
    url = f"http://127.0.0.1:{http.port}"
    clients = Clients(endpoint_url=url, secret=CloudSecret.random())
    starter = start_machine or process_starter(server_home=folder / "no-server")
    services = BuildServices(folder=folder, clients=clients, start_machine=starter, minute_s=minute_s)
    persistence.app = CodeBuildApp(services, region=REGION)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield Cloud(url, persistence.app, services)
    finally:
        persistence.app.close()
        http.shutdown()
        thread.join()
        http.server_close()


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    yield from run_cloud(tmp_path_factory.mktemp("builds"))


@pytest.fixture
def account(running: Cloud) -> Account:
    return Account(running)


@pytest.fixture
def mine(running: Cloud) -> Account:
    return Account(running, str(next(_accounts)))


@pytest.fixture
def hurried(tmp_path: Path) -> Iterator[Account]:
    """An account in a cloud with short minutes."""
    for cloud in run_cloud(tmp_path, minute_s=QUICK_MINUTE_S):
        yield Account(cloud)
