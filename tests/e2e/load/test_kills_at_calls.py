"""Kill processes at AWS calls: `build`, `promote`, `deploy`, `rollback`, and `destroy`, with the real CDK.

The same command finishes each time, and in the end `audit --gone` finds nothing. The cloud runs in this
process, with real Triton servers, so that it can kill a command before or after it has answered a call.
TRITONSTACK_KILLS is the number of kills per command (40: 200 in all), TRITONSTACK_KILLS_SEED selects other
calls. tests/cli/deploy/test_kills.py is the fast variant.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import re
import signal
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from werkzeug.wrappers import Request, Response

from packages.local_cloud.tests.conftest import SHARED
from tests.e2e.conftest import REPOSITORY, furnished_site
from tests.git import Repository
from tests.kills import COMMANDS, Killer, run_command
from tests.model_build.supplied_models import PYTHON_MODEL
from tests.operate.two_accounts import add_prod
from tests.projects import edit, write_project
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.operate.destroy.deletion import empty_bucket
from tritonstack.operate.shared.aws import Cloud
from tritonstack_local.cloud_folder import LOCK, CloudAddress, write_address
from tritonstack_local.server import LocalCloud
from tritonstack_local.settings import CloudSettings, TimeScale

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

ACCOUNT, REGION = "000000000007", "us-east-1"
_FORKS = multiprocessing.get_context("forkserver")
"""Commands are forks of a process that has imported what they need, which takes longer than most calls."""
_FORKS.set_forkserver_preload(
    ["tests.kills", "tritonstack.cli.main", "boto3", "tritonstack.operate.rollback.rollback"]
)
OURS = re.compile(r"app/victim|aws-sdk-js")
"""User agents of the command and of its CDK; the cloud's own clients have others."""
MODEL = """\
name: minilm
description: Twice its input.
recipe: {kind: python}
test_inputs: [{inputs: {x: [1.0, 2.0]}, outputs: {y: [2.0, 4.0]}}]
"""


@dataclass
class Victim:
    """A command, and the number of the call at which it is killed."""

    kill_at: int = 0
    answered: bool = False
    """Whether the fatal call takes effect."""
    process: int | None = None
    calls: list[str] = field(default_factory=list)

    def kill(self) -> None:
        assert self.process is not None
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
        self.variables["NODE_COMPILE_CACHE"] = str(project.state_dir / "node")
        self.repository = Repository(project.root)
        add_prod(project, account=ACCOUNT)
        edit(project.environment_file("dev"), "1" * 12, ACCOUNT)
        for name in ("dev", "prod"):
            file = project.environment_file(name)
            edit(file, "region: eu-west-1", f"region: {REGION}\nremoval: destroy")
            edit(file, "kind: ensemble", "kind: single")
        (project.root / ".gitignore").write_text(".tritonstack\nnode_modules\n")
        project.model_file("minilm").write_text(MODEL)
        for body in ("y = x * 2", "y = x + x"):
            code = PYTHON_MODEL.format(imports="", body=body)
            (project.model_file("minilm").parent / "model.py").write_text(code)
            self.repository.commit("Change the model")
            self.run("build", "dev", "--no-publish")
            self.repository.commit("Build")
        self.run("deploy", "dev", "--bootstrap")

    def run(self, *arguments: str, kill_at: int = 0, answered: bool = False) -> tuple[int, bool]:
        self.cloud.victim = victim = Victim(kill_at, answered)
        begin = time.monotonic()
        log = self.project.state_dir / "command.log"
        process = _FORKS.Process(
            target=run_command, args=(arguments, self.project.root, self.variables, log), daemon=True
        )
        process.start()
        victim.process = process.pid
        process.join(timeout=600)
        killed = process.exitcode == -signal.SIGKILL and kill_at > 0
        assert killed or process.exitcode == 0, (arguments, kill_at, victim.calls[-5:], log.read_text())
        fate = f"killed at call {kill_at}" if killed else f"{len(victim.calls)} calls"
        effect = f", {victim.calls[-1]} ({'answered' if answered else 'not answered'})" if killed else ""
        print(*arguments, f"{fate}{effect}, {time.monotonic() - begin:.1f} s", flush=True)
        return len(victim.calls), killed

    def forget(self, environment: str) -> None:
        s3, bucket = self.access.client("s3"), load_workspace(self.project, environment).spec.artifact_bucket
        if bucket in {item["Name"] for item in s3.list_buckets()["Buckets"]}:
            empty_bucket(self.access, bucket)
        self.project.lock_file(environment).unlink(missing_ok=True)


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
    cloud = DeadlyCloud(settings=settings, listener=listener)
    address = CloudAddress(cloud.endpoint_url, cloud.port, os.getpid(), ACCOUNT, REGION, (), cloud.secret)
    with (folder / LOCK).open("w") as lock:  # by which commands see that it runs
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_address(folder, address)
        try:
            yield Site(project, address.environment(), cloud)
        finally:
            cloud.close()


def test_killed_commands_are_finished_by_the_same_commands(site: Site) -> None:
    kills = int(os.environ.get("TRITONSTACK_KILLS", "4"))
    killer = Killer(site, kills, destroys=False, seed=int(os.environ.get("TRITONSTACK_KILLS_SEED", "1")))
    killer.run()
    print("killed:", dict(killer.killed), "together", killer.killed.total())
    assert killer.killed == dict.fromkeys(COMMANDS, kills)
