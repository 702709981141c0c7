"""A temporary project for end-to-end tests, with its own local cloud."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.model_build.tiny import save_tiny_model, write_model
from tests.sample_templates import SHARED
from tritonstack.base.embedded_accounts import EMBEDDED_ACCOUNT
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.paths import Project, find_project
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.lock_writing import LockChange, replace_entries
from tritonstack.operate.shared.aws import Cloud, cloud_of
from tritonstack_local.access.own_routes import read_inventory
from tritonstack_local.cloud_folder import CloudAddress, read_address

REPOSITORY = find_project(Path(__file__).parent)


@dataclass(frozen=True)
class Site:
    """A copy of the project's files, and the commands a person would run in it."""

    project: Project
    variables: dict[str, str]

    @property
    def spec(self) -> EnvironmentSpec:
        return self.spec_of("local")

    @property
    def address(self) -> CloudAddress:
        return self._address(EMBEDDED_ACCOUNT)

    @property
    def cloud(self) -> Cloud:
        return self.cloud_of("local")

    def spec_of(self, environment: str) -> EnvironmentSpec:
        return load_workspace(self.project, environment).spec

    def address_of(self, environment: str) -> CloudAddress:
        return self._address(self.spec_of(environment).account)

    def _address(self, account: str) -> CloudAddress:
        address = read_address(self.project.cloud_dir(account))
        assert address is not None, "the local cloud is not running"
        return address

    def cloud_of(self, environment: str) -> Cloud:
        variables = self.address_of(environment).environment()
        return cloud_of(self.spec_of(environment), variables=variables)

    def git(self, *arguments: str) -> str:
        """Run git in this folder as an invented user."""
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
        return self.run("git", *who, *arguments)

    def start(self, *command: str, with_cloud: bool = False) -> subprocess.Popen[str]:
        variables = {**os.environ, **self.variables, **(self.address.environment() if with_cloud else {})}
        return subprocess.Popen(
            command,
            cwd=self.project.root,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str, exit_code: int = 0, with_cloud: bool = False) -> str:
        process = self.start(*command, with_cloud=with_cloud)
        try:
            output, _ = process.communicate(timeout=900)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        assert process.returncode == exit_code, output
        return output

    def tritonstack(self, *arguments: str, exit_code: int = 0) -> str:
        return self.run("tritonstack", *arguments, exit_code=exit_code)

    def as_person(self, command: str) -> str:
        """Run a line of shell as on a terminal; return what it prints."""
        names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
        terminal = {"TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "0", "NO_COLOR": "1", "COLUMNS": "500"}
        variables = self.variables | dict.fromkeys(names, "ada@example.com") | terminal
        output = replace(self, variables=variables).run("bash", "-c", command)
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output)

    def hints(self, command: str) -> list[str]:
        """Run a line of shell; return the commands that it suggests."""
        (hint,) = re.findall(r"^.*next: (.*?)(?:  \(.*)?$", self.as_person(command), re.MULTILINE)
        return [one.strip() for one in hint.split(" && ")]

    def asked(self, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
        """Return a command's --json result, without its progress and its notes."""
        output = self.run("tritonstack", "--json", *arguments, exit_code=exit_code)
        told: dict[str, Any]
        told, _ = json.JSONDecoder().raw_decode(output[output.index("{\n") :])
        return told

    def cdk(self, *arguments: str) -> str:
        return self.run("cdk", *arguments, "-c", "env=local", with_cloud=True)

    def inventory(self, environment: str = "local") -> list[dict[str, Any]]:
        items = read_inventory(self.address_of(environment).environment())
        return [item for item in items if not item.get("pending_deletion")]


def lock_damaged_artifact(site: Site, endpoint: str) -> None:
    """Publish a file that is no archive, and name it in the lock as the endpoint's artifact."""
    workspace = load_workspace(site.project, "local")
    model, instance = str(site.spec.endpoints[endpoint].models[0]), site.spec.endpoints[endpoint].instance
    artifact = workspace.artifact_for(model, instance)
    assert artifact is not None
    s3, bucket, digest = site.cloud.client("s3"), site.spec.artifact_bucket, "ab" * 32
    prefix = artifact_prefix(model, digest)
    s3.put_object(Bucket=bucket, Key=f"{prefix}/model.tar.gz", Body=b"not a tarball")
    s3.put_object(Bucket=bucket, Key=f"{prefix}/manifest.json", Body=b"{}")
    damaged = artifact.model_copy(update={"digest": digest})
    replace_entries(
        site.project.lock_file("local"),
        [LockChange(model, str(workspace.target_for(model, instance)), damaged, artifact)],
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The repository's files in a temporary folder, with the installed server and its own cloud."""
    here = repository_site(tmp_path_factory.mktemp("site"))
    yield here
    here.tritonstack("down")


def repository_site(root: Path) -> Site:
    """Copy the repository's models and environments into a folder."""
    for name in ("models", "environments"):
        shutil.copytree(REPOSITORY.root / name, root / name)
    return furnished_site(root, shared=("server", "artifacts"))


def tiny_site(root: Path, environment: str, **models: str) -> Site:
    """A project of one environment and small models, by name and input, with the same weights.

    All such projects of a test run share one store, so that each model is built once.
    """
    site = furnished_site(root, shared=("server",))
    store = Path(os.environ[SHARED]) / "artifacts"
    store.mkdir(exist_ok=True)
    site.project.artifacts_dir.symlink_to(store)
    save_tiny_model(root / "models" / "weights")
    for name, takes in models.items():
        write_model(site.project.model_file(name).parent, name=name, source="file://../weights", takes=takes)
    site.project.environments_dir.mkdir()
    site.project.environment_file("local").write_text(environment)
    return site


def furnished_site(root: Path, *, shared: tuple[str, ...]) -> Site:
    """A folder with what every project needs, and some of this repository's state."""
    for name in ("app.py", "cdk.json"):
        shutil.copy(REPOSITORY.root / name, root / name)
    (root / "node_modules").symlink_to(REPOSITORY.root / "node_modules")
    state = root / ".tritonstack"
    state.mkdir()
    (state / "cache").mkdir()
    for name in (*shared, "cache/assemblies"):
        (REPOSITORY.state_dir / name).mkdir(parents=True, exist_ok=True)
        (state / name).symlink_to(REPOSITORY.state_dir / name)
    return Site(Project(root), {})
