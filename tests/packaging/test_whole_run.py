"""A new repository from `init` to an empty account, with nothing but the wheels: on one machine, and with
builds in the account.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e.played_programs import write_programs
from tests.packaging.wheels import ROOT, Installed
from tritonstack.base.paths import find_project
from tritonstack.triton.sandbox import why_no_namespaces

pytestmark = pytest.mark.soak

SHADOWS = ("stacks", "model_build", "tritonstack")


@dataclass(frozen=True)
class Repository:
    """A folder that `tritonstack init` made, and the wheels' environment."""

    folder: Path
    installed: Installed
    variables: dict[str, str]

    def run(self, *arguments: str) -> str:
        """Run `tritonstack`; return what it writes to standard output."""
        command = ("tritonstack", *arguments)
        ended = self.installed.run(*command, cwd=self.folder, timeout=900, **self.variables)
        assert ended.returncode == 0, f"{command}:\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state folder with the server and the CDK CLI of this repository, as `setup` installs them."""
    state = tmp_path_factory.mktemp("home")
    (state / "cdk").mkdir()
    (state / "server").symlink_to(find_project(Path(__file__)).server_dir)
    (state / "cdk/node_modules").symlink_to(ROOT / "node_modules")
    shutil.copy(ROOT / "package-lock.json", state / "cdk")
    return state


@pytest.fixture(scope="module")
def shop(complete: Installed, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """Run `init`, `setup`, `doctor`, and `up`. The repository has folders with the names of the packages."""
    parent = tmp_path_factory.mktemp("repository")
    programs = write_programs(parent / "programs")
    path = os.pathsep.join([str(complete.bin), str(programs), os.environ["PATH"]])
    here = Repository(parent, complete, {"TRITONSTACK_HOME": str(home), "PATH": path})
    here.run("init", "shop", "--example", "python")
    here = Repository(parent / "shop", complete, here.variables)
    for name in SHADOWS:
        (here.folder / name).mkdir()
        (here.folder / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    here.run("setup", "--no-server")
    here.run("doctor")
    here.run("up", "--detach")
    try:
        yield here
    finally:
        here.run("down", "--forget")


def test_scaffolded_repository_works_end_to_end(shop: Repository):
    shop.run("build", "local", "--no-publish")
    shop.run("deploy", "local", "--bootstrap")
    answer = json.loads(shop.run("--json", "invoke", "local", "double"))
    assert answer["outputs"] == {"y": [[2.0, 4.0]]}
    shop.run("verify", "local")
    shop.run("destroy", "local", "--yes")
    shop.run("audit", "local", "--gone")


@pytest.mark.skipif(why_no_namespaces() is not None, reason="this system forbids namespaces")
def test_account_builds_use_the_code_of_the_wheel(shop: Repository):
    shop.run("build", "local", "--no-publish")
    shop.run("deploy", "local", "--bootstrap")
    environments = shop.folder / "environments"
    settings = yaml.safe_load((environments / "local.yaml").read_text())
    dev = {**settings, "name": "dev", "builds": {"enabled": True}}
    (environments / "dev.yaml").write_text(yaml.safe_dump(dev))
    shop.run("build", "dev")
    lock = yaml.safe_load((environments / "dev.lock.yaml").read_text())
    here = yaml.safe_load((environments / "local.lock.yaml").read_text())
    assert lock["models"].keys() == {"double"}
    assert lock["models"]["double"]["cpu"]["digest"] == here["models"]["double"]["cpu"]["digest"]
    shop.run("destroy", "dev", "--yes")
    shop.run("audit", "dev", "--gone")
