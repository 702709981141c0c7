"""Kill `promote` as a process at its AWS calls, those of the real CDK included.

The same command finishes, or `destroy` removes everything and `audit --gone` finds nothing. The cloud runs in
this process with fake Triton servers, so that it can kill a command before or after it has answered a call.
tests/cli/deploy/test_kills.py is the fast variant. KILLS=all kills at every call instead of a sample.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from werkzeug.wrappers import Request, Response

from packages.local_cloud.tests.conftest import SHARED
from packages.local_cloud.tests.sagemaker.cloud import tarball
from tests.e2e.conftest import REPOSITORY, furnished_site
from tests.git import Repository
from tests.operations.two_accounts import add_prod, make_manifest
from tests.projects import edit, write_project
from tritonstack.base.paths import Project
from tritonstack.operations.aws import Cloud
from tritonstack.operations.buckets import empty_bucket
from tritonstack.project.loading import load_workspace
from tritonstack.records.lock_writing import add_to_lock
from tritonstack.records.manifests import ARCHIVE_NAME, MANIFEST_NAME
from tritonstack_local.cloud_folder import LOCK, CloudAddress, write_address
from tritonstack_local.server import LocalCloud
from tritonstack_local.settings import CloudSettings, TimeScale

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

ACCOUNT, REGION = "000000000007", "us-east-1"
COMMAND = (sys.executable, "-c", "from tritonstack.cli.entry import main; main()")
OURS = re.compile(r"app/victim|aws-sdk-js")
"""User agents of the command and of its CDK; the cloud's own clients have others."""
KILLED = Counter[str]()


@dataclass
class Victim:
    """A command, and the number of the call at which it is killed."""

    kill_at: int = 0
    answered: bool = False
    """Whether the fatal call takes effect."""
    process: int = 0
    calls: list[str] = field(default_factory=list)

    def kill(self) -> None:
        os.killpg(self.process, signal.SIGKILL)


class DeadlyCloud(LocalCloud):
    """A local cloud that kills its client."""

    victim = Victim()

    def _dispatch(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not OURS.search(environ.get("HTTP_USER_AGENT", "")):
            return super()._dispatch(environ, start_response)
        victim, request = self.victim, Request(environ, shallow=True)
        name = request.headers.get("X-Amz-Target") or request.path
        victim.calls.append(f"{request.method} {name}")
        fatal = len(victim.calls) == victim.kill_at
        if fatal and not victim.answered:
            victim.kill()
            return Response(status=500)(environ, start_response)
        answer = super()._dispatch(environ, start_response)
        if fatal:
            victim.kill()
        return answer


class Site:
    """A project with dev and prod in one account, a model in two versions, and commands to kill."""

    def __init__(self, project: Project, variables: dict[str, str], cloud: DeadlyCloud) -> None:
        self.project, self.cloud = project, cloud
        self.access = Cloud(ACCOUNT, REGION, variables)
        self.variables = {**os.environ, "AWS_SDK_UA_APP_ID": "victim", "CI": "1"}
        self.repository = Repository(project.root)

    def run(self, *arguments: str, kill_at: int = 0, answered: bool = False, code: int = 0) -> Victim:
        """Run a command. It ends with `code`, or it is killed."""
        self.cloud.victim = victim = Victim(kill_at, answered)
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.project.root,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        victim.process = process.pid
        output, _ = process.communicate(timeout=600)
        if process.returncode == -signal.SIGKILL and kill_at:
            KILLED[arguments[0]] += 1
        else:
            assert process.returncode == code, (arguments, kill_at, victim.calls[-5:], output)
        return victim

    def kill_everywhere(
        self, *arguments: str, environment: str, prepare: Callable[[], object], sample: int
    ) -> None:
        """Kill a command at its calls; finish it with the same command, or with `destroy`."""
        prepare()
        count = len(self.run(*arguments).calls)
        step = 1 if os.environ.get("KILLS") == "all" else max(1, count // sample)
        for number in range(1, count + 1, step):
            prepare()
            self.run(*arguments, kill_at=number, answered=number % 2 == 0)
            if number // step % 3:
                self.run(*arguments)
            else:
                self.destroy(environment)
            print(arguments, f"{number} of {count}", dict(KILLED), flush=True)
        self.destroy(environment)

    def bucket(self, environment: str) -> str:
        return load_workspace(self.project, environment).spec.artifact_bucket

    def forget(self, environment: str) -> None:
        """Delete an environment's artifacts and lock."""
        s3, bucket = self.access.client("s3"), self.bucket(environment)
        if bucket in {item["Name"] for item in s3.list_buckets()["Buckets"]}:
            empty_bucket(self.access, bucket)
        self.project.lock_file(environment).unlink(missing_ok=True)

    def destroy(self, environment: str) -> None:
        self.run("destroy", environment, "--yes")
        self.run("audit", environment, "--gone")

    def publish(self) -> None:
        """Build dev: write an artifact to its store and its lock."""
        content = tarball({"minilm/config.pbtxt": "", "minilm/1/x": ""})
        spec_hash = load_workspace(self.project, "dev").hashes["minilm"]
        built = make_manifest("minilm", content, spec_hash=spec_hash)
        folder = self.project.artifacts_dir / "models" / "minilm" / built.digest
        folder.mkdir(parents=True)
        (folder / ARCHIVE_NAME).write_bytes(content)
        (folder / MANIFEST_NAME).write_text(built.to_json())
        add_to_lock(self.project.lock_file("dev"), [built])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    SHARED.end()
    root = tmp_path_factory.mktemp("site")
    write_project(root)
    project = furnished_site(root, shared=("server",)).project
    folder = project.cloud_dir(ACCOUNT)
    folder.mkdir(parents=True)
    settings = CloudSettings(
        state_dir=folder,
        server_home=REPOSITORY.state_dir / "server",
        account_id=ACCOUNT,
        region=REGION,
        time_scale=TimeScale(minute_s=0.1),
    )
    listener = socket.create_server(("127.0.0.1", 0))
    cloud = DeadlyCloud(settings=settings, listener=listener, make_sagemaker=SHARED._make_sagemaker)
    address = CloudAddress(cloud.endpoint_url, cloud.port, os.getpid(), ACCOUNT, REGION, (), cloud.secret)
    with (folder / LOCK).open("w") as lock:  # by which commands see that it runs
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_address(folder, address)
        try:
            yield prepared(Site(project, address.environment(), cloud))
        finally:
            cloud.close()
            print("killed:", dict(KILLED), "together", KILLED.total())


def prepared(site: Site) -> Site:
    """Publish and deploy dev, with the CDK's bootstrap."""
    add_prod(site.project, account=ACCOUNT)
    edit(site.project.environment_file("dev"), "1" * 12, ACCOUNT)
    for name in ("dev", "prod"):
        file = site.project.environment_file(name)
        edit(file, "region: eu-west-1", f"region: {REGION}\nremoval: destroy")
    (site.project.root / ".gitignore").write_text(".tritonstack\nnode_modules\n")
    site.publish()
    site.repository.commit("Build")
    site.run("deploy", "dev", "--bootstrap")
    return site


def test_promote(site: Site) -> None:
    site.kill_everywhere(
        "promote", "dev", "prod", environment="prod", prepare=lambda: site.forget("prod"), sample=12
    )
