"""An account with a role, whose builds really run."""

import contextlib
import io
import itertools
import json
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.conftest import REGION, SharedCloud
from packages.local_cloud.tests.conftest import Account as AccountOfCloud
from tritonstack_local.codebuild import build_run
from tritonstack_local.codebuild.app import CodeBuildApp
from tritonstack_local.codebuild.build_run import BuildServices
from tritonstack_local.codebuild.machines.base import StartMachine
from tritonstack_local.codebuild.machines.processes import process_starter
from tritonstack_local.server import LocalCloud
from tritonstack_local.service.clients import Clients

QUICK_MINUTE_S = 0.1
"""The shortest timeout, five minutes, takes half a second."""
IMAGE = "aws/codebuild/standard:7.0"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
_accounts = itertools.count(400000000000)
_SHARED = str(next(_accounts))
"""moto takes its time to make an account's IAM."""
_projects = itertools.count(1)


@dataclass
class Account:
    """A project in an account, and its builds."""

    services: BuildServices
    app: CodeBuildApp
    id: str = _SHARED
    name: str = field(default_factory=lambda: f"project-{next(_projects)}")

    @property
    def url(self) -> str:
        return self.services.clients.endpoint_url

    def client(self, service: str) -> Any:
        return AccountOfCloud(self.url, self.id).client(service)

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


@contextmanager
def builds_in(
    cloud: LocalCloud, folder: Path, *, start_machine: StartMachine | None = None
) -> Iterator[Account]:
    """Let a cloud run its builds in a folder."""
    starter = start_machine or process_starter(server_home=folder / "no-server")
    clients = Clients(endpoint_url=cloud.endpoint_url, secret=cloud.secret)
    services = BuildServices(folder=folder, clients=clients, start_machine=starter)
    app = CodeBuildApp(services)
    with patch.dict(cloud._own, {"codebuild": app}):
        yield Account(services, app)
    app.close()


@pytest.fixture(scope="package")
def running(shared: SharedCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with builds_in(shared.get(), tmp_path_factory.mktemp("builds")) as running:
        yield running


@pytest.fixture
def account(running: Account) -> Account:
    return Account(running.services, running.app)


@pytest.fixture
def mine(running: Account) -> Account:
    return Account(running.services, running.app, str(next(_accounts)))


@pytest.fixture
def hurried(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    """An account with short minutes."""
    monkeypatch.setattr(build_run, "REAL_MINUTE_S", QUICK_MINUTE_S)
    return account
